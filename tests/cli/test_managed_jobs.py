"""A folder with a job of MultiKueue: refused as a whole, compiled, or rendered without that job."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from commandline import etcompile as run
from etcompile.integrations.krm import answer
from specs import kubeflow_job, manifest, patch

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
SKIP = etcompile.Options(skip_managed_by=True)


def job(name: str, *, kind: str = "PyTorchJob", **spec: Any) -> dict[str, Any]:
    types = {"Master" if kind == "XGBoostJob" else "Worker": 1}
    document = kubeflow_job(kind, types, **spec)
    return {**document, "metadata": {"name": name, "namespace": "ml"}}


def managed(name: str, **more: Any) -> dict[str, Any]:
    return job(name, runPolicy={"managedBy": MULTIKUEUE}, **more)


def codes(compilation: etcompile.Compilation) -> list[str]:
    return [one.code for one in compilation.diagnostics]


def owners(compilation: etcompile.Compilation) -> set[str | None]:
    return {group.name for group in compilation.groups}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    for one in (job("here"), managed("elsewhere")):
        (jobs / f"{one['metadata']['name']}.yaml").write_text(yaml.safe_dump(one))
    return jobs


def test_the_refusal_names_both_ways_out() -> None:
    (problem,) = etcompile.compile([job("here"), managed("elsewhere")]).diagnostics
    assert problem.code == "ET2060"
    assert "skip-managed-by" in (problem.hint or "")
    assert "ignore-managed-by" in (problem.hint or "")


@pytest.mark.parametrize("kind", ["PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob"])
def test_managed_job_is_skipped_with_a_diagnostic_and_other_jobs_compile(kind: str) -> None:
    result = etcompile.compile([job("here"), managed("elsewhere", kind=kind)], SKIP)
    assert (result.ok, codes(result), owners(result)) == (True, ["ET2112"], {"here"})
    assert "ml/elsewhere" in result.diagnostics[0].message
    assert [*result.objects] == [*etcompile.compile([job("here")]).objects]


def test_what_is_wrong_with_a_job_that_is_skipped_is_its_controllers_business() -> None:
    broken = managed("elsewhere")
    broken["spec"]["pytorchReplicaSpecs"] = {"Worker": {"template": {}}}
    assert etcompile.compile([job("here"), broken], SKIP).ok


def test_a_manager_that_no_api_admits_is_an_error_all_the_same() -> None:
    wrong = job("here", runPolicy={"managedBy": "kubeflow.org/traning-operator"})
    result = etcompile.compile([wrong, job("other")], SKIP)
    assert codes(result) == ["ET2007"]


def test_a_managed_job_by_a_field_in_another_place_is_skipped_too() -> None:
    result = etcompile.compile([job("here"), job("elsewhere", managedBy=MULTIKUEUE)], SKIP)
    assert owners(result) == {"here"}


def test_what_is_compiled_all_the_same_is_not_skipped() -> None:
    options = etcompile.Options(skip_managed_by=True, ignore_managed_by=True)
    result = etcompile.compile([job("here"), managed("elsewhere")], options)
    assert (codes(result), owners(result)) == ([], {"here", "elsewhere"})


def test_nothing_but_skipped_jobs_renders_nothing_and_is_an_error() -> None:
    result = etcompile.compile([managed("elsewhere")], SKIP)
    assert (result.ok, set(codes(result))) == (False, {"ET2112", "ET5006"})


def test_an_overlay_for_the_objects_of_a_skipped_job_stops_nothing() -> None:
    labels = {"metadata": {"labels": {"a": "b"}}}
    overlay = patch(labels, kind="Pod", name="elsewhere-worker-0")
    options = etcompile.Options(skip_managed_by=True, overlays=(overlay,))
    assert etcompile.compile([job("here"), managed("elsewhere")], options).ok


@pytest.mark.parametrize("command", ["render", "check"])
def test_the_command_line_skips(folder: Path, command: str) -> None:
    assert run(command, folder).returncode == 2
    done = run(command, folder, "--config", "skip-managed-by=true")
    assert done.returncode == 0
    assert "ET2112" in done.stderr
    assert "elsewhere-worker-0" not in done.stdout
    assert run(command, folder, "--config", "skip-managed-by=true", "--strict").returncode == 2


def test_a_folder_says_what_leaves_it(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run("render", folder, "--config", "ignore-managed-by=true", "-d", out)
    done = run("render", folder, "--config", "skip-managed-by=true", "-d", out)
    assert done.returncode == 0
    assert "removed" in done.stderr
    assert "its files leave the output folder" in done.stderr


def test_a_function_leaves_the_item_as_it_came() -> None:
    version, spec = "etcompile.dev/v1alpha1", {"skipManagedBy": True}
    config = manifest("EtcompileTransformer", "t", api_version=version, spec=spec)
    listed = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList"}
    for items in ([job("here"), managed("elsewhere")], [managed("elsewhere")]):
        question = {**listed, "items": items, "functionConfig": config}
        response = answer(json.dumps(question).encode(), etcompile.Options())
        assert not response.refused
        answered = yaml.safe_load("".join(response.texts()))
        assert answered["items"][-1] == managed("elsewhere")
        assert "ET2112" in json.dumps(answered["results"])
