"""The setting `runtimes`: a library of runtimes that TrainJobs may name, through every door."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import etcompile as package
from commandline import etcompile, git
from etcompile.cli import argocd, krm
from specs import manifest, patch

VERSION = "trainer.kubeflow.org/v1alpha1"


def runtime(name: str = "team-torch", image: str = "example.com/torch:1", **metadata: str) -> Any:
    pod = {"containers": [{"name": "node", "image": image, "command": ["torchrun", "t.py"]}]}
    marker = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job = {"name": "node", "template": {"metadata": marker, "spec": {"template": {"spec": pod}}}}
    template = {"spec": {"replicatedJobs": [job]}}
    spec = {"mlPolicy": {"numNodes": 2, "torch": {}}, "template": template}
    kind = "TrainingRuntime" if "namespace" in metadata else "ClusterTrainingRuntime"
    return manifest(kind, name, api_version=VERSION, metadata=metadata, spec=spec)


def job(runtime: str = "team-torch", kind: str | None = None) -> Any:
    reference = {"name": runtime} | ({"kind": kind} if kind else {})
    named = {"metadata": {"namespace": "ml"}, "spec": {"runtimeRef": reference}}
    return manifest("TrainJob", "mn", api_version=VERSION, **named)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a job in `jobs`, and its runtime, with another one, in `platform`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    write(tmp_path / "jobs" / "job.yaml", job())
    write(tmp_path / "platform" / "torch.yaml", runtime())
    write(tmp_path / "platform" / "other.yaml", runtime("unnamed"))
    return tmp_path


def write(file: Path, *documents: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump_all(documents))


def images(text: str) -> set[str]:
    documents = [d for d in yaml.safe_load_all(text) if d]
    pods = [d for d in documents if d["kind"] == "Pod"]
    assert pods
    return {pod["spec"]["containers"][0]["image"] for pod in pods}


@pytest.mark.parametrize("command", ["render", "check", "graph"])
def test_every_command_that_compiles_takes_runtimes(tree, command):
    without = etcompile(command, "jobs", code=2)
    assert "error[ET2138]" in without.stderr
    assert "the setting runtimes" in without.stderr
    strict = () if command == "graph" else ("--strict",)
    etcompile(command, "jobs", "--config", "runtimes=platform", *strict, code=0)


def test_scale_knows_the_runtimes_of_the_input_and_of_the_library(tree):
    """Every node is told how many there are, so that scale says what to do instead."""
    done = etcompile("scale", "mn", "--to", "4", "jobs", "--config", "runtimes=platform")
    assert "error[ET3015]" in done.stderr
    assert "every node is told how many there are" in done.stderr
    assert "etcompile.dev/run" in done.stderr
    shutil.move(tree / "platform", tree / "jobs" / "platform")
    done = etcompile("scale", "mn", "--to", "4", "jobs")
    assert "error[ET3015]" in done.stderr
    assert "ET2138" not in done.stderr


def test_several_folders_and_files_may_be_named(tree):
    write(tree / "more" / "jax.yaml", runtime("elsewhere", "example.com/elsewhere:1"))
    write(tree / "jobs" / "job.yaml", job("elsewhere"))
    words = ("--config", "runtimes=platform/torch.yaml", "--config", "runtimes=more/*.yaml")
    done = etcompile("render", "jobs", *words, "--strict")
    assert images(done.stdout) == {"example.com/elsewhere:1"}, done.stderr


def test_input_runtime_overrides_the_library_which_overrides_the_shipped(tree):
    write(tree / "platform" / "torch.yaml", runtime("torch-distributed", "example.com/library:1"))
    write(tree / "jobs" / "job.yaml", job("torch-distributed"))
    assert images(etcompile("render", "jobs").stdout) == {
        "pytorch/pytorch:2.13.0-cuda13.0-cudnn9-runtime"
    }
    output = etcompile("render", "jobs", "--config", "runtimes=platform", "--strict").stdout
    assert images(output) == {"example.com/library:1"}
    write(tree / "jobs" / "own.yaml", runtime("torch-distributed", "example.com/input:1"))
    output = etcompile("render", "jobs", "--config", "runtimes=platform", "--strict").stdout
    assert images(output) == {"example.com/input:1"}


def test_a_training_runtime_without_a_namespace_is_for_every_one(tree):
    value = {**runtime(), "kind": "TrainingRuntime"}
    write(tree / "platform" / "torch.yaml", value)
    write(tree / "jobs" / "job.yaml", job(kind="TrainingRuntime"))
    etcompile("render", "jobs", "--config", "runtimes=platform", "--strict", code=0)
    write(tree / "platform" / "torch.yaml", runtime(namespace="of-others"))
    done = etcompile("render", "jobs", "--config", "runtimes=platform")
    assert "error[ET2138]" in done.stderr


def test_only_a_runtime_that_a_job_names_is_checked(tree):
    faulty = runtime("unnamed")
    faulty["spec"]["mlPolicy"]["numNodes"] = "two"
    write(tree / "platform" / "other.yaml", faulty)
    done = etcompile("render", "jobs", "--config", "runtimes=platform", "--strict")
    assert (done.returncode, done.stderr) == (0, "")
    write(tree / "jobs" / "job.yaml", job("unnamed"))
    done = etcompile("render", "jobs", "--config", "runtimes=platform", code=2)
    assert "platform/other.yaml:7:" in done.stderr
    assert done.stderr.count("error[") == 1


def test_unreadable_runtime_file_is_an_error_and_another_kind_a_warning(tree):
    (tree / "platform" / "other.yaml").write_text("a: [\n")
    done = etcompile("render", "jobs", "--config", "runtimes=platform", code=2)
    assert "platform/other.yaml:" in done.stderr
    write(tree / "platform" / "other.yaml", {"apiVersion": "v1", "kind": "ConfigMap"})
    done = etcompile("render", "jobs", "--config", "runtimes=platform", code=0)
    assert "warning[ET2041]" in done.stderr
    assert "platform/other.yaml:2:" in done.stderr
    gone = etcompile("render", "jobs", "--config", "runtimes=nowhere", code=2)
    assert "nowhere" in gone.stderr


def test_duplicate_runtimes_are_an_error_only_if_a_job_names_them(tree):
    write(tree / "platform" / "again.yaml", runtime())
    done = etcompile("render", "jobs", "--config", "runtimes=platform", code=2)
    assert "ClusterTrainingRuntime" in done.stderr
    assert "defined twice" in done.stderr
    write(tree / "platform" / "again.yaml", runtime("unnamed"))
    etcompile("render", "jobs", "--config", "runtimes=platform", "--strict", code=0)


def test_a_file_named_twice_is_one_and_a_folder_of_both_is_the_library(tree):
    shutil.move(tree / "platform", tree / "jobs" / "platform")
    words = ("--config", "runtimes=jobs/platform", "--config", "runtimes=jobs/platform/torch.yaml")
    done = etcompile("render", "jobs", *words, "--strict")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_overlay_changes_a_runtime_of_the_library(tree):
    nodes = {"spec": {"mlPolicy": {"numNodes": 3}}}
    overlay = patch(nodes, kind="ClusterTrainingRuntime", name="team-torch")
    write(tree / "overlay.yaml", overlay)
    words = ("--config", "runtimes=platform", "--overlay", "overlay.yaml", "--strict")
    done = etcompile("render", "jobs", *words)
    assert done.stdout.count("kind: Pod\n") == 3, done.stderr


def test_an_output_is_outdated_when_its_runtime_changes_and_not_when_another_does(tree):
    words = ("render", "jobs", "--config", "runtimes=platform", "-d", "out")
    etcompile(*words, code=0)
    lock = (tree / "out" / "etcompile.lock.json").read_text()
    assert "torch.yaml" in lock
    assert "other.yaml" not in lock
    etcompile(*words, "--check", code=0)
    write(tree / "platform" / "other.yaml", runtime("unnamed", "example.com/unnamed:2"))
    etcompile(*words, "--check", code=0)
    file = tree / "platform" / "torch.yaml"
    file.write_text(f"{file.read_text()}# an edit\n")
    etcompile(*words, "--check", code=1)


def test_diff_against_a_revision_takes_the_runtimes_of_then(tree):
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "one")
    write(tree / "platform" / "torch.yaml", runtime(image="example.com/torch:2"))
    done = etcompile("diff", "jobs", "--config", "runtimes=platform", "--against", "HEAD")
    assert "example.com/torch:1" in done.stdout, done.stderr
    assert "example.com/torch:2" in done.stdout


def test_python_takes_paths_and_mappings(tree):
    for source in ("platform", Path("platform/torch.yaml"), runtime()):
        options = package.Options(runtimes=(source,))
        result = package.compile("jobs", options)
        assert result.ok, result.diagnostics
        assert not result.diagnostics


def transformed(spec: Mapping[str, Any]) -> Any:
    version, spec = "etcompile.dev/v1alpha1", {"inputs": ["jobs"], **spec}
    config = manifest("EtcompileGenerator", "g", api_version=version, spec=spec)
    listed = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", "items": []}
    text = yaml.safe_dump({**listed, "functionConfig": config})
    return CliRunner().invoke(krm.command, [], input=text)


def test_kustomize_and_argo_cd_take_runtimes_of_the_repository_only(tree, monkeypatch):
    done = transformed({"runtimes": ["platform"]})
    assert done.exit_code == 0, done.output
    assert "example.com/torch:1" in done.stdout
    parameters = [{"name": "runtimes", "array": ["platform"]}]
    variables = {"ARGOCD_APP_PARAMETERS": json.dumps(parameters)}
    done = CliRunner().invoke(argocd.command, ["generate", "jobs"], env=variables)
    assert done.exit_code == 0, done.output
    assert images(done.stdout) == {"example.com/torch:1"}

    inner = tree / "jobs"
    (inner / ".git").mkdir()
    monkeypatch.chdir(inner)
    (inner / "link").symlink_to("../platform")
    for path in ("../platform", "link", str(tree / "platform")):
        parameters = [{"name": "runtimes", "array": [path]}]
        variables = {"ARGOCD_APP_PARAMETERS": json.dumps(parameters)}
        done = CliRunner().invoke(argocd.command, ["generate", "job.yaml"], env=variables)
        assert (done.exit_code, done.stdout) == (2, "")
        done = transformed({"inputs": ["job.yaml"], "runtimes": [path]})
        assert done.exit_code == 2, done.output
        assert "ET1033" in done.stderr
