"""`etcompile check` judges what is there: a file that is sound needs no job beside it."""

import json
from pathlib import Path

import pytest
import yaml

import etcompile as package
from commandline import etcompile
from etcompile import Options
from specs import elastic_job, scale_in, scale_out, scale_plan, training_job

RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: team-torch, labels: {trainer.kubeflow.org/framework: torch}}
spec:
  mlPolicy: {numNodes: 2, torch: {numProcPerNode: auto}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec:
              template:
                spec:
                  containers: [{name: node, image: "example.org/train:1", command: [torchrun]}]
"""
OVERLAY = """\
apiVersion: etcompile.dev/v1alpha1
kind: Overlay
images: [{name: a, newName: b}]
"""
CLAIM = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.example.com}}]}}}
"""
GENERATOR = """\
apiVersion: etcompile.dev/v1alpha1
kind: EtcompileGenerator
metadata: {name: jobs}
spec: {inputs: [jobs]}
"""
ALONE = {
    "two runtimes": (RUNTIME + "---\n" + RUNTIME.replace("team-", "other-"), "2 runtimes"),
    "an overlay": (OVERLAY, "1 overlay"),
    "a ScaleOut": (yaml.safe_dump(scale_out("more", 1)), "1 scale intent"),
    "a ScaleIn": (yaml.safe_dump(scale_in("less", 1)), "1 scale intent"),
    "a ScalePlan": (yaml.safe_dump(scale_plan()), "1 scale intent"),
    "a claim template": (CLAIM, "1 object"),
    "a namespace": ("{apiVersion: v1, kind: Namespace, metadata: {name: ml}}", "1 object"),
    "a generator of kustomize": (GENERATOR, "no documents"),
    "an empty file": ("", "no documents"),
    "comments": ("# later\n---\n", "no documents"),
}
# What render lacks: a job, an object, or a document.
LACKING = {
    "two runtimes": "ET5006",
    "an overlay": "ET5006",
    "a ScaleOut": "ET3001",
    "a ScaleIn": "ET3001",
    "a ScalePlan": "ET3001",
    "a generator of kustomize": "ET1011",
    "an empty file": "ET1011",
    "comments": "ET1011",
}


@pytest.fixture(params=ALONE)
def alone(request, tmp_path: Path) -> tuple[str, Path]:
    """A file of one kind of document."""
    file = tmp_path / "file.yaml"
    file.write_text(ALONE[request.param][0])
    return request.param, file


def test_a_sound_file_passes_and_check_says_what_it_read(alone) -> None:
    name, file = alone
    done = etcompile("check", file, "--strict")
    assert done.stderr == f"ok: {ALONE[name][1]}\n"
    assert done.returncode == 0


@pytest.mark.parametrize("form", ["json", "sarif"])
def test_a_sound_file_has_no_result_for_machines(alone, form: str) -> None:
    done = etcompile("check", alone[1], "--output-format", form, code=0)
    assert done.stderr == ""
    document = json.loads(done.stdout)
    assert (document["runs"][0]["results"] if form == "sarif" else document["diagnostics"]) == []


def test_render_says_what_a_file_lacks(alone) -> None:
    name, file = alone
    done = etcompile("render", file, code=2 if name in LACKING else 0)
    assert LACKING.get(name, "") in done.stderr


def test_kustomization_alone_passes(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [a.yaml]\n")
    etcompile("check", "kustomization.yaml", "--strict", cwd=tmp_path, code=0)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (RUNTIME.replace("mlPolicy", "mlPolicies"), "ET2001"),
        (RUNTIME.replace("command: ", "comand: "), "ET4001"),
        (OVERLAY.replace("newName", "newNam"), "ET2001"),
        (yaml.safe_dump(scale_out("more", 1)).replace("count: 1", "count: many"), "ET2"),
    ],
    ids=["runtime", "template of a runtime", "overlay", "scale intent"],
)
def test_mistake_in_a_file_is_reported_without_its_job(
    tmp_path: Path, text: str, code: str
) -> None:
    (tmp_path / "file.yaml").write_text(text)
    done = etcompile("check", "file.yaml", cwd=tmp_path, code=2)
    assert f"error[{code}" in done.stderr


def test_overlay_of_the_settings_need_not_match_a_file_without_jobs(tmp_path: Path) -> None:
    (tmp_path / "prod.yaml").write_text(OVERLAY)
    (tmp_path / "etcompile.toml").write_text('overlay = ["prod.yaml"]\n')
    (tmp_path / "claim.yaml").write_text(CLAIM)
    etcompile("check", "claim.yaml", cwd=tmp_path, code=0)
    assert "ET6001" in etcompile("render", "claim.yaml", cwd=tmp_path).stderr


class TestScaleIntents:
    """Whether the job of an intent is missing depends on what was looked at."""

    @pytest.fixture(autouse=True)
    def files(self, tmp_path: Path) -> None:
        (tmp_path / "bert.yaml").write_text(yaml.safe_dump(training_job("bert-1")))
        (tmp_path / "more.yaml").write_text(yaml.safe_dump(scale_out("more", 1, job="bert-2")))

    def test_job_may_be_in_another_file(self, tmp_path: Path) -> None:
        done = etcompile("check", "bert.yaml", "more.yaml", cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "ok: 1 job, 7 objects, 1 scale intent\n")

    def test_job_must_be_in_the_same_folder(self, tmp_path: Path) -> None:
        done = etcompile("check", ".", cwd=tmp_path, code=2)
        assert "ET3001" in done.stderr
        assert "did you mean 'bert-1'?" in done.stderr

    def test_job_of_the_same_file_is_compared(self, tmp_path: Path) -> None:
        texts = [(tmp_path / name).read_text() for name in ("bert.yaml", "more.yaml")]
        (tmp_path / "both.yaml").write_text("---\n".join(texts))
        assert "ET3001" in etcompile("check", "both.yaml", cwd=tmp_path).stderr

    def test_folder_of_intents_alone_passes(self, tmp_path: Path) -> None:
        (tmp_path / "bert.yaml").unlink()
        assert etcompile("check", ".", cwd=tmp_path).stderr == "ok: 1 scale intent\n"


@pytest.mark.parametrize("path", ["empty", "no/*.yaml", "nothing.yaml", "-"])
def test_a_path_that_names_nothing_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "empty").mkdir()
    etcompile("check", path, cwd=tmp_path, stdin="", code=2)


def test_a_python_program_judges_a_document_by_itself() -> None:
    runtime = yaml.safe_load(RUNTIME)
    assert package.compile([runtime], Options(lint=True)).ok
    assert not package.compile([runtime]).ok
    intent = scale_out("more", 1)
    assert package.compile([intent], Options(lint=True, partial=True)).ok
    compilation = package.compile([elastic_job(), intent], Options(lint=True, partial=None))
    assert [problem.code for problem in compilation.diagnostics if problem.code == "ET3001"]
