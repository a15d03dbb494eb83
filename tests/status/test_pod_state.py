"""What a Pod's status says to the rules."""

from typing import Any

import pytest

from etcompile.k8s.pod_state import how_it_ended
from watcher_rules import observed

AT = "2026-11-23T10:00:00Z"


def pod(phase: str = "Running", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "w-0", "uid": "u", "creationTimestamp": AT},
        "spec": {"nodeName": "n"},
        "status": {"phase": phase, **status},
    }


def conditions(**statuses: str) -> list[dict[str, Any]]:
    return [{"type": t, "status": s, "lastTransitionTime": AT} for t, s in statuses.items()]


@pytest.mark.parametrize(
    ("phase", "pod_conditions", "silent"),
    [
        ("Running", conditions(ContainersReady="True", Ready="False"), True),
        ("Running", conditions(ContainersReady="False", Ready="False"), False),
        ("Running", conditions(ContainersReady="True", Ready="True"), False),
        ("Running", conditions(Ready="False"), False),
        ("Running", [], False),
        ("Failed", conditions(ContainersReady="True", Ready="False"), False),
        (
            "Running",
            # A kubelet that waits for somebody else's condition gives a reason.
            [
                *conditions(ContainersReady="True"),
                {**conditions(Ready="False")[0], "reason": "ReadinessGatesNotReady"},
            ],
            False,
        ),
    ],
)
def test_pod_of_a_silent_node_is_recognized_by_its_conditions(
    phase, pod_conditions, silent
) -> None:
    assert bool(observed(pod(phase, conditions=pod_conditions)).unreachable_since) is silent


RAN, RUNS = {"terminated": {"exitCode": 1}}, {"running": {}}


@pytest.mark.parametrize(
    ("policy", "states", "inits", "stopped"),
    [
        ("Never", {"main": RAN}, {}, True),
        ("Never", {"main": RAN, "sidecar": RAN}, {"init": RAN}, True),
        ("Never", {"main": RAN, "sidecar": RUNS}, {}, False),
        ("Never", {"main": RAN}, {"sidecar": RUNS}, False),
        ("Never", {"main": RUNS}, {"init": RAN}, False),
        ("OnFailure", {"main": RAN}, {}, False),
    ],
)
def test_pod_has_stopped_when_all_its_containers_ended_for_good(
    policy, states, inits, stopped
) -> None:
    def statuses(states: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"name": name, "restartCount": 0, "state": s} for name, s in states.items()]

    value = pod(containerStatuses=statuses(states), initContainerStatuses=statuses(inits))
    value["spec"] |= {"restartPolicy": policy, "containers": [{"name": name} for name in states]}
    assert observed(value).stopped is stopped
    value["spec"]["containers"].append({"name": "not reported yet"})
    assert not observed(value).stopped


def test_pod_whose_container_has_restart_rules_has_not_stopped() -> None:
    value = pod(containerStatuses=[{"name": "main", "restartCount": 0, "state": RAN}])
    rules = [{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]
    container = {"name": "main", "restartPolicy": "Never", "restartPolicyRules": rules}
    value["spec"] |= {"restartPolicy": "Never", "containers": [container]}
    assert not observed(value).stopped


@pytest.mark.parametrize(
    ("name", "state", "away"),
    [
        ("preflight", {"state": {"terminated": {"exitCode": 20}}}, True),
        (
            "preflight",
            {
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": 20}},
                "restartCount": 1,
            },
            True,
        ),
        ("preflight", {"state": {"terminated": {"exitCode": 1}}}, False),
        ("preflight", {"state": {"terminated": {"exitCode": 0}}}, False),
        ("fetch", {"state": {"terminated": {"exitCode": 20}}}, False),
    ],
)
@pytest.mark.parametrize("phase", ["Pending", "Failed"])
def test_pod_refused_by_its_preflight_is_recognized(phase, name, state, away) -> None:
    seen = observed(pod(phase, initContainerStatuses=[{"name": name, **state}]))
    assert seen.refused is away
    assert seen.disrupted is away
    if away:
        [failure] = seen.failures
        assert failure.cause.name == "PreflightNode"


def test_queued_pod_is_admitted_alone_unless_it_is_in_a_group() -> None:
    queued = pod()
    queued["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "research"
    assert observed(queued).queued_alone
    queued["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] = "mnist-one"
    assert not observed(queued).queued_alone
    assert not observed(pod()).queued_alone


def test_deleted_pod_has_no_failure_that_its_deletion_caused() -> None:
    """When it goes at last, its deletionTimestamp moves to that time: seen on a real node."""
    running = pod()
    running["metadata"] |= {
        "deletionTimestamp": "2026-11-23T10:05:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    ended = {"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-23T10:05:01Z"}
    container = {"name": "main", "restartCount": 0, "state": {"terminated": ended}}
    gone = pod("Failed", containerStatuses=[container])
    gone["metadata"] |= {
        "deletionTimestamp": "2026-11-23T10:05:02Z",
        "deletionGracePeriodSeconds": 0,
    }
    assert observed(gone, observed(running)).failures == ()
    failed = observed(pod("Failed", containerStatuses=[container]))
    assert [failure.code for failure in observed(gone, failed).failures] == [143]
    ended["finishedAt"] = "2026-11-23T10:04:59Z"  # and its kubelet says so late
    assert [failure.code for failure in observed(gone, observed(running)).failures] == [143]


def test_log_line_names_the_init_container_that_failed() -> None:
    ended = {"exitCode": 3, "reason": "Error", "finishedAt": "2026-11-23T10:05:01Z"}
    init = {"name": "fetch", "restartCount": 0, "state": {"terminated": ended}}
    state = observed(pod("Failed", initContainerStatuses=[init]))
    assert how_it_ended(state, "failed") == "failed (fetch: exit code 3)"


def test_log_line_of_a_joint_restart_does_not_call_deleted_pods_failures() -> None:
    ended = {"exitCode": 143, "reason": "Error", "finishedAt": "2026-11-23T10:05:01Z"}
    container = {"name": "main", "restartCount": 0, "state": {"terminated": ended}}
    going = pod("Failed", containerStatuses=[container])
    going["metadata"] |= {
        "deletionTimestamp": "2026-11-23T10:05:30Z",
        "deletionGracePeriodSeconds": 30,
    }
    assert how_it_ended(observed(going), "Restart") == "deleted"
