"""What is too large for `kubectl apply`, or for the API server, is told before it is applied."""

import json
from typing import Any

import pytest

import etcompile
from etcompile import Options, Settings
from etcompile.k8s.bookkeeping import copied_annotations
from specs import by_name, compiled, training_job

LIMIT = 256 * 1024


def config_map(size: int, text: str = "a") -> dict[str, Any]:
    """A ConfigMap whose annotations have this size after a client-side apply."""
    value: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "data", "namespace": "ml", "annotations": {"team": "nlp"}},
        "data": {"text": text},
    }
    missing = size - copied_annotations(value)
    value["data"]["text"] += "a" * missing
    return value


def messages(*documents: Any, profiles: Any = (), **options: Any) -> list[str]:
    settings = Settings(profiles=profiles, **options)
    diagnostics = etcompile.compile(list(documents), Options(settings=settings)).diagnostics
    return [f"{one.code} {one.message}" for one in diagnostics if one.code in ("ET2095", "ET2096")]


def test_too_many_hosts_for_an_annotation_copy_are_reported_with_the_size() -> None:
    assert messages(training_job(replicas=3000)) == []
    [message] = messages(training_job(replicas=6000))
    assert message.startswith("ET2095 ConfigMap 'mnist-config' of job 'mnist'")
    config = by_name(compiled(training_job(replicas=6000)))["ConfigMap", "mnist-config"]
    size = len(json.dumps(config, separators=(",", ":")))
    assert size > LIMIT
    assert f"{-(-copied_annotations(config) // 1024)} KiB of at most 256 KiB" in message


def test_every_object_is_held_against_the_limit_not_only_the_config() -> None:
    # The Role of an MPIJob v1 names all workers.
    role = {"template": {"spec": {"containers": [{"name": "mpi", "image": "mpi:5"}]}}}
    name = "m" * 40
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"mpiReplicaSpecs": {"Launcher": role, "Worker": {**role, "replicas": 6000}}},
    }
    kinds = {message.split()[1] for message in messages(job)}
    assert kinds >= {"ConfigMap", "Role"}


@pytest.mark.parametrize("kind", ["ConfigMap", "CronTab"])
def test_an_object_that_is_passed_through_is_measured_too(kind: str) -> None:
    large = {**config_map(LIMIT + 1), "kind": kind}
    if kind == "CronTab":
        large["apiVersion"] = "stable.example.com/v1"
    assert messages({**large, "data": {"text": "a"}}) == []
    assert [one[:6] for one in messages(large)] == ["ET2095"]


@pytest.mark.parametrize(
    ("profiles", "telling"),
    [((), True), (("plain",), True), (("kpt",), True), (("flux",), False), (("argocd",), False)],
)
def test_size_is_reported_only_for_tools_that_may_store_a_copy(
    profiles: Any, telling: bool
) -> None:
    assert bool(messages(training_job(replicas=6000), profiles=profiles)) is telling


def test_annotations_stop_argo_cd_and_kapp_from_copying_large_objects() -> None:
    settings = Settings(profiles=("argocd", "kapp"))
    for count, large in ((20, False), (6000, True)):
        objects = by_name(compiled(training_job(replicas=count), settings=settings))
        annotations = objects["ConfigMap", "mnist-config"]["metadata"]["annotations"]
        options = annotations.get("argocd.argoproj.io/sync-options", "")
        assert ("ServerSideApply=true" in options) is large
        assert ("kapp.k14s.io/disable-original" in annotations) is large
        pod = objects["Pod", "mnist-worker-0"]["metadata"]["annotations"]
        assert "argocd.argoproj.io/sync-options" not in pod


def test_an_object_that_etcd_does_not_take_is_refused() -> None:
    value = {
        "apiVersion": "stable.example.com/v1",
        "kind": "CronTab",
        "metadata": {"name": "big", "namespace": "ml"},
        "spec": {"text": "a" * (1536 * 1024 + 1)},
    }
    assert [one[:6] for one in messages(value)] == ["ET2096"]


def test_the_sizes_of_all_replicas_are_known_from_a_few() -> None:
    # One message for a role, however many Pods are too large.
    job = training_job(replicas=50)
    main = job["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    main["env"] = [{"name": f"V{n}", "value": "x" * 100_000} for n in range(3)]
    pods = [one for one in messages(job) if "Pod" in one.split()[1]]
    assert 1 <= len(pods) <= 2
