"""The spec and the overlay that a hand-over writes: clean, and rendering to what it should."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from dumps import documents, dumped, migration, put

import etcompile
from etcompile import frontends
from etcompile.frontends import Kind
from etcompile.frontends.trainer.runtimes import RUNTIME_KINDS
from specs import by_name, scale_in, scale_out, training_job

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted({path.parent for path in (ROOT / "examples").glob("*/*/job.yaml")})


def rendered(folder: Path) -> list[dict[str, Any]]:
    overlays = (str(folder),) if (folder / "overlay.yaml").exists() else ()
    compilation = etcompile.compile([str(folder)], etcompile.Options(overlays=overlays))
    assert compilation.ok, [one.message for one in compilation.diagnostics]
    return [*compilation.objects]


def example(folder: Path) -> list[dict[str, Any]]:
    inputs = [one for path in sorted(folder.rglob("*.yaml")) for one in documents(path.read_text())]
    return [one for one in inputs if is_job(one) or one["kind"] in RUNTIME_KINDS]


def is_job(document: dict[str, Any]) -> bool:
    """Whether it is a job, and not a scale intent of one."""
    kind = frontends.find(document["apiVersion"], document["kind"])
    return kind is not None and bool(kind.pod_templates)


@pytest.mark.parametrize("folder", EXAMPLES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_an_example_that_was_in_a_cluster_renders_as_before(folder: Path, tmp_path: Path) -> None:
    originals = example(folder)
    before = etcompile.compile(originals)
    assert before.ok
    running = [dumped(one, conditions=[{"type": "Running", "status": "True"}]) for one in originals]
    result = migration(*running)
    assert result.files, [one.message for one in result.diagnostics]
    after = rendered(put(result, tmp_path / "job"))
    assert after == [*before.objects]


def test_what_only_a_cluster_writes_is_gone() -> None:
    result = migration(dumped(training_job(), phase="Running"))
    (spec,) = documents(result.files["mnist.yaml"])
    assert spec == training_job()


def test_marks_of_tools_that_sync_are_gone_and_others_stay() -> None:
    job = dumped(training_job())
    job["metadata"]["annotations"] = {
        "argocd.argoproj.io/tracking-id": "team:kai.alibabacloud.com/TrainingJob:/mnist",
        "example.com/owner": "nlp",
    }
    job["metadata"]["labels"] = {"kustomize.toolkit.fluxcd.io/name": "team"}
    (spec,) = documents(migration(job).files["mnist.yaml"])
    assert spec["metadata"] == {"name": "mnist", "annotations": {"example.com/owner": "nlp"}}


def test_a_default_of_a_pod_template_goes_whoever_wrote_it() -> None:
    job = training_job()
    template = job["spec"]["etReplicaSpecs"]["worker"]["template"]
    template["spec"]["dnsPolicy"] = "ClusterFirst"
    assert documents(migration(dumped(job)).files["mnist.yaml"]) == [training_job()]


def test_a_value_that_is_no_default_stays() -> None:
    job = training_job()
    spec = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
    spec |= {"dnsPolicy": "Default", "serviceAccountName": "default"}
    spec["containers"][0] |= {
        "readinessProbe": {"tcpSocket": {"port": 22}, "periodSeconds": 3},
        "securityContext": {"runAsUser": 0},
    }
    assert documents(migration(dumped(job)).files["mnist.yaml"]) == [job]


# Scale intents ----------------------------------------------------------------------------------


def workers(objects: list[dict[str, Any]]) -> list[str]:
    names = [one["metadata"]["name"] for one in objects if one["kind"] == "Pod"]
    return [name for name in names if "-worker-" in name]


def test_scale_intents_are_left_out_and_the_files_have_the_workers_that_run(tmp_path: Path) -> None:
    running = ["mnist-worker-0", "mnist-worker-2"]
    result = migration(
        dumped(training_job(replicas=3), phase="Running", targetWorkers=running),
        {**scale_in("less", 1), "status": {"phase": "ScaleSucceeded"}},
    )
    assert documents(result.files["mnist.yaml"]) == [training_job(replicas=3)]
    text = result.files["HANDOVER.md"]
    assert "ScaleIn less: left out, because the files have as many workers as run." in text
    assert "delete scalein.kai.alibabacloud.com/less" in text
    objects = rendered(put(result, tmp_path / "job"))
    assert workers(objects) == ["mnist-worker-0", "mnist-worker-1"]


def test_without_a_status_the_files_have_the_workers_of_the_spec() -> None:
    result = migration(dumped(training_job()), scale_out("more", 1))
    assert documents(result.files["mnist.yaml"]) == [training_job()]
    note = "ScaleOut more: left out, because the files have as many workers as the spec says."
    assert note in result.files["HANDOVER.md"]


def test_an_overlay_keeps_the_number_of_workers(tmp_path: Path) -> None:
    running = [f"mnist-worker-{index}" for index in range(5)]
    result = migration(dumped(training_job(), phase="Running", targetWorkers=running))
    assert documents(result.files["mnist.yaml"]) == [training_job()]
    assert workers(rendered(put(result, tmp_path / "job"))) == running


def test_more_workers_than_allowed_raise_the_limit_and_say_so(tmp_path: Path) -> None:
    job = training_job()
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 2
    running = [f"mnist-worker-{index}" for index in range(3)]
    result = migration(dumped(job, phase="Running", targetWorkers=running))
    assert "maxReplicas is 2: the files raise it" in result.files["HANDOVER.md"]
    assert workers(rendered(put(result, tmp_path / "job"))) == running


def test_secret_with_another_name_in_a_running_job_stays_in_use(tmp_path: Path) -> None:
    launcher = by_name(etcompile.compile(training_job()))["Pod", "mnist-launcher"]
    live = copy.deepcopy(dict(launcher))
    volumes = [one for one in live["spec"]["volumes"] if "secret" in one]
    volumes[0]["secret"]["secretName"] = "team-keys"
    result = migration(dumped(training_job(), phase="Running"), live)
    settings = documents(result.files["overlay.yaml"])[0]["settings"]
    assert settings == {"secret": "existing:team-keys"}
    pods = rendered(put(result, tmp_path / "job"))
    assert "team-keys" in str(pods)


# Refusals and other kinds -----------------------------------------------------------------------


def test_pods_without_their_job_are_refused() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}}
    result = migration(pod)
    assert [one.code for one in result.diagnostics] == ["ET5013"]
    assert not result.files


def test_a_resource_that_does_not_render_is_refused_with_its_place(tmp_path: Path) -> None:
    from etcompile.compiler import load
    from etcompile.integrations.migrate import migrated

    job = dumped(training_job(), phase="Running")
    job["spec"]["etReplicaSpecs"]["worker"]["replicas"] = -1
    path = tmp_path / "live.yaml"
    path.write_text(yaml.safe_dump(job))
    result = migrated(load.loaded([str(path)], etcompile.Options(), None).documents)
    (problem,) = (one for one in result.diagnostics if one.severity.value == "error")
    assert problem.location.line is not None
    assert not result.files


def test_two_jobs_of_one_name_get_a_file_each() -> None:
    jobs = [dumped(training_job()), dumped(training_job())]
    for job, namespace in zip(jobs, ("a", "b"), strict=True):
        job["metadata"]["namespace"] = namespace
    names = set(migration(*jobs).files)
    assert names == {"trainingjob-a-mnist.yaml", "trainingjob-b-mnist.yaml", "HANDOVER.md"}


def test_a_kind_that_names_no_operator_is_handed_over_carefully(monkeypatch) -> None:
    from msgspec import structs

    find = frontends.find

    def bare(version: str | None, name: str | None) -> Kind | None:
        kind = find(version, name)
        return kind and structs.replace(kind, operator=None)

    monkeypatch.setattr(frontends, "find", bare)
    text = migration(dumped(training_job(), phase="Running")).files["HANDOVER.md"]
    assert "Stop the operator of TrainingJob" in text
