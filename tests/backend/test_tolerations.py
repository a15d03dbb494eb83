"""The tolerations of a Pod are those that it has once it is admitted."""

import json

import pytest

from specs import by_name, compiled, training_job, worker

SPOT = {"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
NOT_READY = {
    "key": "node.kubernetes.io/not-ready",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 30,
}
LISTS = {
    "a taint of its own": [SPOT],
    "one of the two": [NOT_READY],
    "one without a key": [{"operator": "Exists", "effect": "NoExecute"}],
    "everything": [{"operator": "Exists"}],
    "one without an effect": [{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}],
    "all but the effect": [{"operator": "Exists", "effect": "NoSchedule"}],
}


def rendered(tolerations: list[dict] | None, **options: str) -> dict:
    document = training_job()
    if tolerations is not None:
        worker(document)["template"]["spec"]["tolerations"] = tolerations
    pod = by_name(compiled(document, **options))["Pod", "mnist-worker-0"]
    return json.loads(json.dumps(pod))


@pytest.mark.parametrize("tolerations", LISTS.values(), ids=LISTS)
def test_an_api_server_adds_nothing_to_what_is_rendered(
    control_plane, namespace, tolerations
) -> None:
    pod = rendered(tolerations, namespace=namespace)
    assert pod["spec"]["tolerations"][: len(tolerations)] == tolerations
    live = control_plane.ask("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    assert live["spec"]["tolerations"] == pod["spec"]["tolerations"]


@pytest.mark.parametrize("tolerations", [None, []])
def test_a_pod_without_any_is_left_without(tolerations: list | None) -> None:
    assert not rendered(tolerations)["spec"].get("tolerations")
