"""How far an object is, by what it says of itself; and how long each reason may last."""

import math

import pytest

from apply.kubelet import ended, ready, unschedulable, waiting
from etcompile.k8s.serverpath import place
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import ObjectRef, Plan, Step
from etcompile.rollout.machine.messages import (
    Choices,
    Hint,
    ProposedJob,
    Seen,
    Tick,
    Written,
    Wrote,
)
from etcompile.rollout.machine.reasons import ObjectState, object_state
from etcompile.rollout.machine.steps import Machine
from etcompile.rollout.machine.targets import Target
from etcompile.rollout.refusals import refusal
from specs import manifest

POD = ObjectRef("v1", "Pod", "ml", "w-0")


def pod(status, **spec):
    containers = [{"name": "main", "image": "horovod:1"}]
    return manifest("Pod", "w-0", spec={"containers": containers, **spec}, status=status)


def again(restarts, code):
    """The status of a Pod that runs again after its container has failed."""
    last = {"terminated": {"exitCode": code, "reason": "Error"}}
    main = {"name": "main", "restartCount": restarts, "ready": True, "lastState": last}
    return ready() | {"containerStatuses": [main | {"state": {"running": {}}}]}


def one(kind, status, **more):
    return {"kind": kind, "metadata": {"name": "x"}, "status": status} | more


def conditions(**statuses):
    return {"conditions": [{"type": key, "status": value} for key, value in statuses.items()]}


@pytest.mark.parametrize(
    ("value", "state", "words", "timeout"),
    [
        (pod(ready()), "ready", "", None),
        (pod(ended()), "ended", "", None),
        (pod(ended(code=3)), "failed", "container main ended with exit code 3", None),
        (pod({"phase": "Failed", "reason": "Evicted", "message": "disk"}), "failed",
         "Evicted: disk", None),
        (pod({"phase": "Failed", "reason": "Terminated", "message": "imminent node shutdown"}),
         "failed", "Terminated: by its node: imminent node shutdown", None),
        (pod(unschedulable("no gpu")), "waiting", "cannot be scheduled: no gpu", math.inf),
        (pod({}, schedulingGates=[{"name": "kueue"}]), "waiting", "gate kueue", math.inf),
        (pod(waiting("ErrImagePull", "denied")), "waiting",
         "cannot pull the image horovod:1: denied", 120),
        (pod(waiting("InvalidImageName")), "failed", "InvalidImageName horovod:1", None),
        (pod(waiting("ErrImageNeverPull")), "failed", "ErrImageNeverPull", None),
        (pod(waiting("CrashLoopBackOff")), "waiting", "keeps crashing", 120),
        (pod(waiting("CreateContainerConfigError", 'configmap "x" not found')), "waiting",
         'configmap "x" not found', None),
        (pod({}), "waiting", "not scheduled yet", None),
        (one("Job", conditions(Complete="True")), "ended", "", None),
        (one("Job", conditions(Failed="True")), "failed", "failed", None),
        (one("Job", {"active": 1}), "ready", "", None),
        (one("Job", {"active": 1, "failed": 3}), "ready", "3 Pods of it failed before", None),
        (pod(again(2, 1)), "ready",
         "container main was restarted 2 times, and last ended with exit code 1", None),
        (one("Job", {}), "waiting", "no Pod yet", None),
        (one("Job", {}, spec={"suspend": True}), "ready", "", None),
        (one("PersistentVolumeClaim", {"phase": "Bound"}), "ready", "", None),
        (one("PersistentVolumeClaim", {"phase": "Pending"}), "waiting", "not bound", None),
        (one("PersistentVolumeClaim", {"phase": "Lost"}), "failed", "lost", None),
        (one("Namespace", {"phase": "Active"}), "ready", "", None),
        (one("Namespace", {"phase": "Terminating"}), "failed", "deleted", None),
        (one("CustomResourceDefinition", conditions(Established="True")), "ready", "", None),
        (one("ExternalSecret", conditions(Ready="True")), "ready", "", None),
        (one("ExternalSecret", conditions(Ready="False")), "waiting", "not Ready", 60),
        (one("ConfigMap", None), "ready", "", None),
    ],
)  # fmt: skip
def test_how_far_an_object_is(value, state, words, timeout):
    observed = object_state(value)
    assert (observed.state, observed.timeout) == (state, timeout)
    assert words in observed.reason


def test_an_object_that_is_being_deleted_says_what_keeps_it():
    value = pod(ready())
    value["metadata"] |= {"deletionTimestamp": "now", "finalizers": ["example.com/hold"]}
    assert (
        object_state(value).reason == "it is being deleted, kept by the finalizers example.com/hold"
    )


def test_a_launcher_that_runs_again_says_how_often_it_failed():
    launcher = Target(POD, ("batch/v1", "Job", "ml", "l"), "ml/j", "create Job ml/l", "ended", 0.0)
    launcher.see(object_state(one("Job", {"active": 1})), 1.0)
    assert launcher.why == "running"
    launcher.see(object_state(one("Job", {"active": 1, "failed": 2})), 9.0)
    assert launcher.is_running
    assert launcher.why == "running again: 2 Pods of it failed before"
    assert launcher.since == 9.0  # and so it is reported


@pytest.fixture
def target():
    return Target(POD, ("v1", "Pod", "ml", "w-0"), "ml/j", "create Pod ml/w-0", "ready", 0.0)


def test_a_pod_that_no_node_takes_is_waited_for_as_long_as_it_takes(target):
    for second in range(0, 100_000, 1000):
        target.see(ObjectState("waiting", "cannot be scheduled", math.inf), second)
        assert target.over_limit(second + 999) is None


def test_time_limit_starts_once_a_node_has_the_pod(target):
    target.see(ObjectState("waiting", "cannot be scheduled", math.inf), 5000.0)
    target.see(ObjectState("waiting", "the kubelet has not started it yet"), 5001.0)
    assert target.over_limit(5599.0) is None
    assert "not started it yet (for 600 s)" in target.over_limit(5601.0)


def test_a_container_that_crashes_again_and_again_fails_after_two_minutes(target):
    crash = ObjectState("waiting", "keeps crashing", 120.0)
    for second in range(0, 120, 20):
        target.see(crash, second)
        target.see(ObjectState("waiting", "runs, but is not ready"), second + 10)
    target.see(crash, 121.0)
    assert "(for 120 s)" in target.over_limit(121.0)


def test_trouble_that_is_over_is_forgotten(target):
    target.see(ObjectState("waiting", "cannot pull", 120.0), 0.0)
    target.see(ObjectState("ready"), 60.0)
    target.see(ObjectState("waiting", "cannot pull", 120.0), 300.0)
    assert target.over_limit(310.0) is None


@pytest.mark.parametrize(
    ("groups", "ends", "success"),
    [
        ((("w-0",),), {"w-0": "ended"}, True),
        ((("w-0",),), {"w-0": "failed"}, False),
        ((("w-0", "w-1"),), {"w-0": "ended"}, None),
        ((("w-0", "w-1"),), {"w-0": "ended", "w-1": "ended"}, True),
        ((("w-0",), ("w-1",)), {"w-0": "failed"}, None),
        ((("w-0",), ("w-1",)), {"w-0": "failed", "w-1": "ended"}, True),
    ],
)
def test_whose_success_is_the_runs(groups, ends, success):
    names = ("w-0", "w-1", "w-2")
    steps = [Step("create", ObjectRef("v1", "Pod", "ml", name), job="ml/j") for name in names]
    choices, jobs = Choices(wait="complete"), {"ml/j": ProposedJob(deciding=groups)}
    machine = Machine(Plan((*steps,)), choices, "ml", jobs)
    machine.begin(0.0)
    for step in steps:
        live = one("Pod", {}, metadata={"name": step.ref.name, "uid": step.ref.name})
        machine.advance(Wrote(step, "create", Written("created", live)), 1.0)
    for name in names:
        state = ObjectState(ends.get(name, "ready"))
        machine.advance(Seen(("v1", "Pod", "ml"), name, name, state), 2.0)
    assert machine.settled is (success is not None)
    if success is not None:
        assert (machine.outcome().unready == ()) is success


def test_a_job_that_runs_says_how_its_pod_fails_again_and_again():
    step = Step("create", ObjectRef("batch/v1", "Job", "ml", "launcher"), job="ml/j")
    jobs = {"ml/j": ProposedJob(deciding=(("launcher",),))}
    machine = Machine(Plan((step,)), Choices(wait="complete"), "ml", jobs)
    machine.begin(0.0)
    live = one("Job", {"active": 1}, metadata={"name": "launcher", "uid": "u"})
    machine.advance(Wrote(step, "create", Written("created", live)), 1.0)
    words = "Pod launcher-x: container main: keeps crashing with exit code 3"
    machine.advance(Hint("ml", "Job", "launcher", "of another one", uid="v"), 2.0)
    machine.advance(Hint("ml", "Job", "launcher", words, uid="u"), 2.0)
    [event] = machine.advance(Tick(), 60.0)
    assert (event.status, event.reason) == ("running", words)
    [unready] = machine.outcome().unready
    assert unready.reason == words


def test_field_is_located_where_the_server_says_it_is():
    value = {
        "metadata": {"labels": {"etcompile.dev/job": "a", "etcompile": "b"}},
        "spec": {
            "containers": [{"name": "main", "image": "i", "ports": [{"containerPort": 22}]}],
            "tolerations": [{"key": "a"}],
        },
    }

    def value_at(path):
        position = place(value, path)
        return position.value if position else None

    assert value_at(".metadata.labels.etcompile.dev/job") == "a"
    assert value_at('.spec.containers[name="main"].image') == "i"
    port = '.spec.containers[name="main"].ports[containerPort=22,protocol="TCP"].containerPort'
    assert value_at(port) == 22
    assert value_at(".spec.tolerations[0].key") == "a"
    assert value_at('.spec.containers[name="other"].image') is None
    assert value_at(".spec.nothing") is None


@pytest.mark.parametrize(
    ("error", "why", "fatal"),
    [
        (ClusterError("Invalid", "spec: bad", status=422), "invalid", False),
        (ClusterError("Invalid", "data: field is immutable when `immutable` is set", status=422),
         "replace", False),
        (ClusterError("Conflict", "the object has been modified", status=409), "conflict", False),
        (ClusterError("Forbidden", 'User "x" cannot patch pods', status=403), "rights", False),
        (ClusterError("Forbidden", "violates PodSecurity", status=403), "invalid", False),
        (ClusterError("Unauthorized", "Unauthorized", status=401), "cluster", True),
        (ClusterError("Unreachable", "refused"), "cluster", True),
    ],
)  # fmt: skip
def test_whose_business_a_refusal_is(error, why, fatal):
    result = refusal(POD, error)
    assert (result.cause, result.fatal) == (why, fatal)
