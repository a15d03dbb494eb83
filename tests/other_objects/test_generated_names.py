"""Names that etcompile generates do not meet names that users choose."""

from typing import Any

import pytest

from etcompile.model.protocol import config_name
from specs import by_name, compiled, errors, kubeflow_job, training_job

OURS = ("mnist-etcompile", "mnist-etcompile-hosts", "mnist-etcompile-status")
SOURCES: dict[str, Any] = {
    "volume": lambda name: {"volumes": [{"name": "v", "configMap": {"name": name}}]},
    "projected": lambda name: {
        "volumes": [{"name": "v", "projected": {"sources": [{"configMap": {"name": name}}]}}]
    },
}
VARIABLES: dict[str, Any] = {
    "envFrom": lambda name: {"envFrom": [{"configMapRef": {"name": name}}]},
    "env": lambda name: {
        "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": name, "key": "a"}}}]
    },
}


def config(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}


def reading(how: str, name: str) -> dict[str, Any]:
    job = kubeflow_job("TFJob", {"Worker": 1})
    spec = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"]
    if how in SOURCES:
        spec.update(SOURCES[how](name))
    else:
        spec["containers"][0].update(VARIABLES[how](name))
    return job


@pytest.mark.parametrize("how", [*SOURCES, *VARIABLES])
def test_a_config_map_of_the_user_keeps_its_name(how: str) -> None:
    """The Training Operator creates no `J-config` for a TFJob, so the name is the user's."""
    objects = by_name(compiled(config("mnist-config"), reading(how, "mnist-config")))
    assert objects["ConfigMap", "mnist-config"]["data"] == {"a": "b"}
    assert ("ConfigMap", "mnist-etcompile") in objects


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("how", [*SOURCES, *VARIABLES])
def test_a_reference_to_a_name_of_ours_is_an_error(how: str, name: str) -> None:
    assert errors(reading(how, name)) == ["ET4021"]


def test_another_object_that_reads_a_name_of_ours_is_an_error() -> None:
    other = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "notebook"}}
    source = [{"configMapRef": {"name": "mnist-etcompile"}}]
    container = {"name": "main", "image": "example.com/notebook:1", "envFrom": source}
    other["spec"] = {"containers": [container]}
    assert errors(other, training_job()) == ["ET4021"]


@pytest.mark.parametrize("name", OURS)
def test_an_object_of_the_input_with_a_name_of_ours_is_an_error(name: str) -> None:
    assert errors(kubeflow_job("TFJob", {"Worker": 1}), config(name)) == ["ET4005"]


def test_where_the_operator_creates_the_config_map_its_name_stays() -> None:
    objects = by_name(compiled(training_job()))
    assert ("ConfigMap", config_name("mnist", of_operator=True)) in objects
    assert ("ConfigMap", config_name("mnist")) not in objects
