"""What the author of a runtime wrote into its Pod template arrives, or somebody is told."""

from typing import Any

import pytest

import etcompile
from defects.test_trainer import job, main, pods, replicated, runtime, variables
from etcompile import Options, Settings

SETTINGS: list[dict[str, Any]] = [
    {},
    {"run": "a1"},
    {"gang": "volcano"},
    {"services": "shared"},
]


def template(value: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = replicated(value)["template"]["spec"]["template"]
    return result


def compiled(value: dict[str, Any], **settings: Any) -> etcompile.Compilation:
    compilation = etcompile.compile([value, job()], Options(settings=Settings(**settings)))
    assert compilation.ok, compilation.diagnostics
    return compilation


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_template_keeps_its_labels_in_every_pod(settings: dict[str, Any]) -> None:
    custom = runtime()
    labels = {"team": "vision", "app.kubernetes.io/name": "mine"}
    template(custom)["metadata"] = {"labels": labels}
    pods = [v for v in compiled(custom, **settings).objects if v["kind"] == "Pod"]
    assert len(pods) == 2
    for pod in pods:
        assert pod["metadata"]["labels"].items() >= labels.items()


@pytest.mark.parametrize(
    "label", ["jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-completion-index"]
)
def test_overwritten_identity_label_is_reported(label: str) -> None:
    custom = runtime()
    template(custom)["metadata"] = {"labels": {label: "mine"}}
    assert "ET2042" in [one.code for one in compiled(custom).diagnostics]


@pytest.mark.parametrize("field", ["hostname", "subdomain"])
def test_overwritten_hostname_or_subdomain_is_reported(field: str) -> None:
    custom = runtime()
    template(custom)["spec"][field] = "mine"
    assert "ET2042" in [one.code for one in compiled(custom).diagnostics]


def test_a_variable_of_the_job_takes_the_place_of_the_runtimes() -> None:
    custom = runtime()
    main(custom)["env"] = [
        {"name": "A", "value": "runtime"},
        {"name": "PET_NNODES", "value": "99"},
        {"name": "B", "value": "$(A)-x"},
    ]
    env = [{"name": "C", "value": "new"}, {"name": "A", "value": "job"}]
    values = variables(pods(custom, job(trainer={"env": env}))[0])
    assert [*values][:4] == ["A", "PET_NNODES", "B", "C"]
    assert (values["A"], values["PET_NNODES"], values["B"]) == ("job", "2", "$(A)-x")


def test_a_run_keeps_its_host_names() -> None:
    pods = [v for v in compiled(runtime(), run="a1").objects if v["kind"] == "Pod"]
    assert [pod["spec"]["hostname"] for pod in pods] == ["t-node-0-0", "t-node-0-1"]
    assert {variables(pod)["PET_MASTER_ADDR"] for pod in pods} == {"t-node-0-0.t"}
