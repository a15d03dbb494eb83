"""`etcompile schema` and `etcompile kinds` where several kinds have one name."""

import json

import pytest
from click.testing import CliRunner

import etcompile
from etcompile.cli import kinds, schema


def run(command, *arguments):
    done = CliRunner().invoke(command, arguments)
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("name", "group", "kind_"),
    [
        ("tfjob", "kubeflow.org/v1", "TFJob"),
        ("MPIJob.v1", "kubeflow.org/v1", "MPIJob"),
        ("mpijob.v2beta1", "kubeflow.org/v2beta1", "MPIJob"),
        ("MPIJob.v2beta1.kubeflow.org", "kubeflow.org/v2beta1", "MPIJob"),
        ("kubeflow.org/v2beta1/MPIJob", "kubeflow.org/v2beta1", "MPIJob"),
        ("scaleout.etcompile.dev", "etcompile.dev/v1alpha1", "ScaleOut"),
    ],
)
def test_a_kind_is_named_as_shortly_as_it_is_clear(name, group, kind_):
    code, printed = run(schema.command, name)
    shown = json.loads(printed)
    assert code == 0
    assert shown["$schema"].endswith("2020-12/schema")
    assert shown["properties"]["apiVersion"]["const"] == group
    assert shown["properties"]["kind"]["const"] == kind_
    assert ".json#/" not in printed  # it needs no other file


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("MPIJob", "MPIJob.v1, MPIJob.v2beta1"),
        ("ScaleOut", "ScaleOut.etcompile.dev, ScaleOut.kai.alibabacloud.com"),
    ],
)
def test_a_name_of_two_kinds_lists_both(name, names):
    code, printed = run(schema.command, name)
    assert code == 2
    assert f"'{name}' is ambiguous; use one of: {names}\n" in printed


def test_an_unknown_name_lists_all():
    code, printed = run(schema.command, "Widget")
    assert code == 2
    assert "TFJob, XGBoostJob, MPIJob.v2beta1, TrainJob\n" in printed


def test_kinds_lists_shipped_runtimes_with_version_and_refusals():
    code, printed = run(kinds.command)
    assert code == 0
    assert "as of Trainer 2.3.0:\n  torch-distributed\n  jax-distributed\n" in printed
    assert "  torch-distributed-with-cache, refused: " in printed


def test_a_shipped_runtime_can_be_printed_copied_and_edited(tmp_path):
    code, printed = run(kinds.command, "--runtime", "torch-distributed")
    assert code == 0
    (tmp_path / "mine.yaml").write_text(printed.replace("torch-distributed", "mine"))
    reference = {"runtimeRef": {"name": "mine"}, "trainer": {"command": ["torchrun", "a.py"]}}
    job = {"metadata": {"name": "mn"}, "spec": reference, "kind": "TrainJob"}
    job |= {"apiVersion": "trainer.kubeflow.org/v1alpha1"}
    options = etcompile.Options(runtimes=(tmp_path,))
    compilation = etcompile.compile(job, options)
    assert not compilation.diagnostics
    assert compilation.ok


def test_unknown_runtime_is_reported_with_the_nearest_name():
    code, printed = run(kinds.command, "--runtime", "torch-distribted")
    assert code == 2
    assert "Did you mean 'torch-distributed'?" in printed
    code, printed = run(kinds.command, "--runtime", "torch-distributed-with-cache")
    assert code == 2
    assert "is not compiled: " in printed


@pytest.mark.parametrize("name", ["TrainingRuntime", "clustertrainingruntime"])
def test_a_runtime_has_a_schema(name):
    code, printed = run(schema.command, name)
    assert code == 0
    assert "TrainingRuntime" in str(json.loads(printed)["properties"]["kind"])


def test_kinds_lists_both_of_a_name():
    _, printed = run(kinds.command)
    words = [line.split()[0] for line in printed.splitlines()]
    assert "MPIJob" in words[words.index("kubeflow.org/v1") : words.index("kubeflow.org/v2beta1")]
    assert "MPIJob" in words[words.index("kubeflow.org/v2beta1") :]
