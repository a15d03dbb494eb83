"""The real kustomize runs the function, and builds what `etcompile render` renders."""

import shutil
from pathlib import Path

import pytest
import yaml

import etcompile
from etcompile import emit
from specs import scale_out, training_job

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/*/job.yaml"))


def rendered(inputs, **options):
    compilation = etcompile.compile(inputs, etcompile.Options(**options))
    assert compilation.ok, compilation.diagnostics
    return emit.stream(compilation.objects, [])


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_a_build_with_the_function_is_what_render_renders(example, folder, normal):
    """One generator and one transformer, side by side in a build of both."""
    shutil.copytree(example, folder.path / "jobs")
    folder.kustomization(generators=[folder.config("EtcompileGenerator", inputs=["jobs"])])
    wanted = rendered([example])
    assert normal(folder.built()) == wanted

    files = sorted(path.name for path in example.glob("*.yaml"))
    transformer = folder.config("EtcompileTransformer")
    folder.kustomization(resources=[f"jobs/{name}" for name in files], transformers=[transformer])
    assert normal(folder.built()) == wanted


def test_a_generator_keeps_the_order_in_which_objects_are_applied(folder):
    folder.write("jobs/bert.yaml", training_job("bert"))
    folder.kustomization(generators=[folder.config("EtcompileGenerator", inputs=["jobs"])])
    compilation = etcompile.compile([folder.path / "jobs"])
    assert folder.built() == list(compilation.objects)


def test_job_with_a_function_annotation_is_a_kustomize_generator(folder, normal):
    job = training_job("bert")
    wanted = rendered([job], settings=etcompile.Settings(profiles=("argocd",)))
    function = folder.function.replace('"krm"', '"krm", "--config", "profile=argocd"')
    job["metadata"]["annotations"] = {"config.kubernetes.io/function": function}
    folder.kustomization(generators=[folder.write("bert.yaml", job)])
    assert normal(folder.built()) == wanted


def test_the_generator_says_how_to_compile(folder, normal):
    folder.write("jobs/bert.yaml", training_job("bert"))
    said = {"profiles": ["flux"], "secret": "existing:keys", "services": "shared", "run": "lr2"}
    how = {"namespace": "nlp", "overlays": ["prod"], "settings": said}
    config = folder.config("EtcompileGenerator", inputs=["jobs"], **how)
    folder.kustomization(generators=[config])
    settings = etcompile.Settings(
        profiles=("flux",),
        secret=etcompile.SecretMode("existing", "keys"),
        services="shared",
        run="lr2",
    )
    options = {"namespace": "nlp", "overlays": ("prod",), "settings": settings}
    assert normal(folder.built()) == rendered([training_job("bert")], **options)


def test_what_kustomize_changes_in_a_job_reaches_its_objects(folder):
    """A prefix and a namespace, and a patch, before the transformer."""
    folder.write("base/bert.yaml", training_job("bert"))
    folder.write("base/kustomization.yaml", {"resources": ["bert.yaml"], "namePrefix": "dev-"})
    folder.write("more.yaml", scale_out("more", 1, job="dev-bert"))
    patch = [{"op": "replace", "path": "/spec/etReplicaSpecs/worker/replicas", "value": 3}]
    folder.kustomization(
        resources=["base", "more.yaml"],
        namespace="nlp",
        patches=[{"path": folder.write("patch.yaml", [patch]), "target": {"kind": "TrainingJob"}}],
        transformers=[folder.config("EtcompileTransformer")],
    )
    workers = [one for one in folder.built() if "-worker-" in one["metadata"]["name"]]
    pods = {one["metadata"]["name"] for one in workers if one["kind"] == "Pod"}
    assert pods == {f"dev-bert-worker-{index}" for index in range(4)}
    assert {one["metadata"]["namespace"] for one in workers} == {"nlp"}


def test_other_objects_are_left_as_they_are(folder):
    other = {
        "apiVersion": "example.com/v1",
        "kind": "Whatever",
        "metadata": {"name": "odd", "annotations": {"a": "yes"}},
        "spec": {"on": "off", "n": "010", "empty": {}, "nothing": []},
    }
    folder.write("other.yaml", other)
    folder.write("bert.yaml", training_job("bert"))
    folder.kustomization(
        resources=["other.yaml", "bert.yaml"],
        secretGenerator=[{"name": "token", "literals": ["a=b"]}],
        transformers=[folder.config("EtcompileTransformer")],
    )
    built = folder.built()
    assert other in built
    assert "Secret" in {one["kind"] for one in built}
    assert "TrainingJob" not in {one["kind"] for one in built}


@pytest.mark.parametrize("kind", ["generator", "transformer"])
def test_a_build_of_a_bad_job_fails_and_says_where(kind, folder):
    job = training_job("bert", replicas=12)
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    folder.write("jobs/bert.yaml", job)
    if kind == "generator":
        config = folder.config("EtcompileGenerator", inputs=["jobs"])
        folder.kustomization(generators=[config])
        place = "jobs/bert.yaml:"
    else:
        config = folder.config("EtcompileTransformer")
        folder.kustomization(resources=["jobs/bert.yaml"], transformers=[config])
        place = "TrainingJob bert: spec.etReplicaSpecs.worker.replicas"
    done = folder.run()
    assert done.returncode != 0
    assert done.stdout == ""
    assert "error[ET2003]: worker.replicas 12 is above maxReplicas 8" in done.stderr
    assert place in done.stderr


def test_render_of_the_same_folder_passes_over_the_configuration(folder):
    folder.write("bert.yaml", training_job("bert"))
    folder.kustomization(generators=[folder.config("EtcompileGenerator", inputs=["bert.yaml"])])
    compilation = etcompile.compile([folder.path])
    assert compilation.ok
    assert [one.code for one in compilation.diagnostics] == ["ET1020", "ET1020"]


def test_functions_over_files_keep_comments_and_put_objects_where_the_job_was(folder):
    """`kustomize fn run` rewrites files, as kpt does."""
    text = """\
# the queue
apiVersion: v1
kind: ConfigMap
metadata:
  name: queue # ours
data:
  # how many
  size: "1"
---
"""
    job = folder.write("jobs/bert.yaml", training_job("bert"))
    file = folder.path / job
    file.write_text(text + file.read_text())
    folder.config("EtcompileTransformer")
    done = folder.start("fn", "run", "--enable-exec", folder.path)
    assert done.returncode == 0, done.stderr
    assert file.read_text().startswith(text)
    names = {(one["kind"], one["metadata"]["name"]) for one in yaml.safe_load_all(file.read_text())}
    assert names >= {("ConfigMap", "queue"), ("Pod", "bert-launcher"), ("Pod", "bert-worker-0")}
    assert not any(kind == "TrainingJob" for kind, _ in names)
    assert "config.kubernetes.io" not in file.read_text()
    files = {path.name for path in folder.path.rglob("*.yaml")}
    assert files == {"bert.yaml", "etcompile.yaml"}


def test_a_pipeline_gets_results_with_file_object_and_field(folder):
    job = training_job("bert", replicas=12)
    job["metadata"]["namespace"] = "nlp"
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    folder.write("jobs/bert.yaml", job)
    folder.config("EtcompileTransformer")
    before = (folder.path / "jobs" / "bert.yaml").read_bytes()
    results = folder.path.parent / "results"
    results.mkdir()
    done = folder.start("fn", "run", "--enable-exec", "--results-dir", results, folder.path)
    assert done.returncode != 0
    assert (folder.path / "jobs" / "bert.yaml").read_bytes() == before
    [file] = results.iterdir()
    result = yaml.safe_load(file.read_text())[0]
    assert result["severity"] == "error"
    assert result["message"].startswith("worker.replicas 12 is above maxReplicas 8")
    assert result["tags"] == {"code": "ET2003", "name": "replicas-above-max"}
    assert result["field"] == {"path": "spec.etReplicaSpecs.worker.replicas"}
    assert result["file"] == {"path": "jobs/bert.yaml", "index": 0}
    assert result["resourceRef"] == {
        "apiVersion": "kai.alibabacloud.com/v1alpha1",
        "kind": "TrainingJob",
        "name": "bert",
        "namespace": "nlp",
    }
