"""What objects use of a quota, and which plans must make room before they begin."""

from decimal import Decimal
from typing import Any

import pytest

from etcompile.plan.quotas import usage, within_quotas
from etcompile.plan.step import FieldChange, Plan, Step, reference
from specs import manifest


def pod(name: str, phase: str = "", **spec: Any) -> dict[str, Any]:
    resources = {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}, "requests": {"cpu": "500m"}}
    main = {"name": "main", "image": "i:1", "resources": resources}
    status = {"status": {"phase": phase}} if phase else {}
    return manifest(
        "Pod", name, metadata={"namespace": "ml"}, spec={"containers": [main], **spec}, **status
    )


def full(hard: dict[str, str], used: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "small"},
        "spec": {"hard": hard, **spec},
        "status": {"hard": hard, "used": used},
    }


def planned(*there: dict[str, Any], quota: dict[str, Any], **spec: Any) -> Plan:
    """The plan of a new run of one Pod that takes the place of these."""
    new = pod("new", **spec)
    create = Step("create", reference(new), manifest=new, job="bert", wave=100)
    gone = [Step("delete", reference(one), job="bert", wave=100) for one in there]
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "ml"}}
    switched = Step("update", reference(service), manifest=service, job="bert")
    live = {reference(one).key: one for one in there}
    return within_quotas(Plan((switched, create, *gone)), live, {"ml": [quota]})


def names(plan: Plan) -> list[str]:
    return [f"{step.action} {step.ref.name}" for step in plan.steps]


def test_a_pod_counts_with_its_requests_limits_and_init_containers() -> None:
    first = {"name": "first", "image": "i:1", "resources": {"requests": {"cpu": "3"}}}
    sidecar = {"name": "sidecar", "image": "i:1", "restartPolicy": "Always"}
    sidecar["resources"] = {"requests": {"cpu": "1"}}
    counted = usage(pod("p", initContainers=[sidecar, first]))
    assert counted["pods"] == counted["count/pods"] == 1
    assert counted["requests.cpu"] == counted["cpu"] == 4  # the sidecar and the first
    assert counted["limits.cpu"] == 2
    assert counted["requests.nvidia.com/gpu"] == 1  # a limit without a request is one
    assert usage(pod("p", phase="Succeeded")) == {"count/pods": Decimal(1)}


def test_a_job_counts_with_the_pods_that_its_controller_makes() -> None:
    template = {"spec": pod("p")["spec"]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    counted = usage({**job, "spec": {"parallelism": 3, "template": template}})
    assert (counted["pods"], counted["requests.cpu"], counted["count/jobs.batch"]) == (3, 1.5, 1)
    assert "pods" not in usage({**job, "spec": {"suspend": True, "template": template}})


@pytest.mark.parametrize(
    "quota",
    [
        full({"pods": "2"}, {"pods": "1"}),
        full({"pods": "1"}, {"pods": "1"}, scopes=["Terminating"]),
        full({"pods": "1"}, {"pods": "1"}, scopes=["BestEffort"]),
        full({"configmaps": "1"}, {"configmaps": "1"}),
    ],
    ids=["room", "another scope", "best effort", "another kind"],
)
def test_the_old_run_stays_where_no_quota_is_short(quota: Any) -> None:
    plan = planned(pod("old", phase="Running"), quota=quota)
    assert names(plan) == ["update s", "create new", "delete old"]
    assert not any(step.frees_quota for step in plan.steps)


def test_a_priority_class_decides_whether_a_quota_counts() -> None:
    selector = {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
    quota = full({"pods": "1"}, {"pods": "1"}, scopeSelector={"matchExpressions": [selector]})
    there = pod("old", phase="Running", priorityClassName="high")
    assert not planned(there, quota=quota).steps[0].frees_quota
    assert planned(there, quota=quota, priorityClassName="high").steps[0].frees_quota


def test_running_pods_are_not_deleted_for_a_pod_that_exceeds_the_quota() -> None:
    quota = full({"requests.cpu": "1"}, {"requests.cpu": "1"})
    big = {"name": "main", "image": "i:1", "resources": {"requests": {"cpu": "2"}}}
    plan = planned(pod("old", phase="Running"), quota=quota, containers=[big])
    (refused,) = plan.refused
    assert (refused.ref.name, refused.needs) == ("new", "room")
    assert "has 0 requests.cpu left, and 2 are needed" in refused.reasons[0]
    over = planned(pod("old", phase="Failed"), quota=quota, containers=[big])
    assert "it allows 1 in all" in over.refused[0].reasons[0]  # room will never come
    quota = full({"requests.cpu": "3"}, {"requests.cpu": "2"})
    over = planned(pod("old", phase="Failed"), quota=quota, containers=[big])
    assert over.refused == ()  # nothing ends, so it may wait for room
    assert "it may have to wait" in over.steps[1].reasons[0]


@pytest.mark.parametrize(
    ("phase", "selector", "pods", "refused"),
    [
        ("Running", True, 1, ["new"]),
        ("Running", True, 2, []),
        ("Running", False, 1, []),
        ("Succeeded", True, 1, []),
    ],
)
def test_pod_over_quota_is_refused_if_a_new_selector_would_cut_off_running_pods(
    phase: str, selector: bool, pods: int, refused: list[str]
) -> None:
    new, old = pod("new"), pod("old", phase=phase)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "ml"}}
    path = ("spec", "selector" if selector else "ports", "x")
    change = FieldChange(".".join(path), "changed", "a", "b", steps=path)
    steps = (
        Step("update", reference(service), changes=(change,), manifest=service, job="bert"),
        Step("create", reference(new), manifest=new, job="bert"),
        Step("unmanaged", reference(old), job="bert"),
    )
    quota = full({"pods": str(pods)}, {"pods": "1"})
    plan = within_quotas(Plan(steps), {reference(old).key: old}, {"ml": [quota]})
    assert [step.ref.name for step in plan.refused] == refused
    assert all(step.needs == "room" for step in plan.refused)
