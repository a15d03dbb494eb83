"""What a rollout does next, by what it heard: any order of answers, without a cluster."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import ObjectRef, Plan, Step
from etcompile.rollout.machine.messages import (
    Choices,
    Command,
    Event,
    Follow,
    Interrupted,
    Listed,
    Lost,
    NotWritten,
    Relist,
    Seen,
    StepEvent,
    Tick,
    Write,
    Written,
    Wrote,
)
from etcompile.rollout.machine.reasons import ObjectState
from etcompile.rollout.machine.steps import Failed, Machine, Waiting
from specs import manifest

JOB = "ml/bert"
READY = ObjectState("ready")
FULL = ClusterError("Forbidden", "exceeded quota: pods, requested: pods=1, used: 1", status=403)
FORBIDDEN = ClusterError("Forbidden", 'User "me" cannot delete pods', status=403)


def step(action: str, name: str, kind: str = "Pod", **fields: Any) -> Step:
    identity = {"uid": f"{name}-1"} if action not in ("create", "wait") else {}
    return Step(
        action,  # type: ignore[arg-type]
        ObjectRef("v1", kind, "ml", name),
        **{"job": JOB, **identity, **fields},
    )


def live(step: Step, uid: str = "") -> dict[str, Any]:
    name = step.ref.name
    uid = uid or f"{name}-2"
    return manifest(step.ref.kind, name, metadata={"namespace": "ml", "uid": uid})


def going(step: Step, grace: int = 30) -> Wrote:
    left = live(step, step.uid or "")
    left["metadata"] |= {"deletionTimestamp": "now", "deletionGracePeriodSeconds": grace}
    return Wrote(step, "delete", Written("deleting", left))


def wrote(step: Step, phase: Any = "create") -> Wrote:
    return Wrote(step, phase, Written("created", live(step)))


def seen(step: Step, observed: ObjectState | None, uid: str | None = None, **more: Any) -> Seen:
    ref = step.ref
    place = (ref.api_version, ref.kind, ref.namespace)
    return Seen(place, ref.name, step.uid or "" if uid is None else uid, observed, **more)


class Played:
    """A machine with a clock, and what it has asked for."""

    def __init__(self, *steps: Step, **choices: Any) -> None:
        self.machine = Machine(Plan(steps), Choices(**choices), "default")
        self.now = 100.0
        self.commands: list[Command] = self.machine.begin(self.now)

    def hear(self, event: Event, after: float = 0.0) -> list[Command]:
        self.now += after
        commands = self.machine.advance(event, self.now)
        self.commands += commands
        return commands

    def left(self) -> dict[str, str]:
        left = self.machine.outcome().left
        return {str(step.ref.name): reason for step, reason in left}


def writes(commands: list[Command]) -> list[tuple[str, str]]:
    return [(one.step.ref.name, one.phase) for one in commands if isinstance(one, Write)]


def said(commands: list[Command]) -> list[str]:
    return [one.status for one in commands if isinstance(one, StepEvent)]


def test_what_is_seen_to_go_before_the_answer_is_not_waited_for() -> None:
    pod = step("replace", "a")
    played = Played(pod)
    played.hear(seen(pod, None))
    assert writes(played.hear(going(pod))) == [("a", "create")]


def test_replacement_interrupted_between_its_phases_is_reported() -> None:
    pod = step("replace", "a")
    played = Played(pod)
    played.hear(Wrote(pod, "delete", Written("deleted", None)))
    played.hear(Interrupted())
    outcome = played.machine.outcome()
    assert outcome.deleted == (pod,)
    assert outcome.left == ((pod, "deleted, but not recreated: interrupted"),)


def test_a_quota_that_stays_full_fails_the_step_after_ten_minutes() -> None:
    pod, next_pod = step("create", "a"), step("create", "b", wave=1)
    played = Played(pod, next_pod)
    played.hear(NotWritten(pod, "create", FULL))
    for _ in range(1000):
        if not writes(played.hear(Tick(), after=5)):
            break
        played.hear(NotWritten(pod, "create", FULL))
    assert 600 <= played.now - 100 < 610
    assert played.machine.state(pod) == Failed(FULL.message, "create")
    assert played.machine.state(next_pod) == "queued"
    assert played.left() == {
        "a": FULL.message,
        "b": f"not started, because an earlier step was not done: {FULL.message}",
    }


def test_without_a_wait_a_full_quota_ends_the_creation_and_is_said() -> None:
    pod, other, replaced = step("create", "a"), step("create", "b"), step("replace", "c")
    played = Played(pod, other, wait="none")
    assert said(played.hear(NotWritten(pod, "create", FULL))) == ["failed"]
    assert said(played.hear(wrote(other))) == ["created"]
    assert played.machine.settled
    assert played.left() == {"a": FULL.message}
    # What was deleted first frees the room for what replaces it, a moment later.
    played = Played(replaced, wait="none")
    assert said(played.hear(NotWritten(replaced, "create", FULL))) == ["held"]


def test_steps_after_a_failed_pod_do_not_begin() -> None:
    first, second = step("create", "a"), step("create", "b", wave=1)
    played = Played(first, second)
    assert writes(played.commands) == [("a", "create")]
    played.hear(wrote(first))
    assert isinstance(played.machine.state(first), Waiting)
    failed = ObjectState("failed", "container main ended with exit code 1")
    assert writes(played.hear(seen(first, failed, "a-2"))) == []
    assert played.left()["a"] == "Pod ml/a is not ready: container main ended with exit code 1"
    assert played.machine.state(second) == "queued"


def test_an_interrupted_step_says_what_held_it() -> None:
    pod = step("create", "a")
    played = Played(pod)
    played.hear(NotWritten(pod, "create", FULL))
    played.hear(Interrupted())
    assert writes(played.hear(Tick(), after=10)) == []
    assert played.left() == {"a": f"interrupted: {FULL.message}"}


def test_a_timeout_says_what_each_step_was_at() -> None:
    pod = step("create", "a")
    played = Played(pod, step("create", "b", wave=1), timeout=30)
    played.hear(wrote(pod))
    played.hear(Tick(), after=31)
    outcome = played.machine.outcome()
    assert outcome.timed_out
    assert played.left() == {"a": "timed out", "b": "timed out"}


def test_a_deletion_that_lasts_fails_with_what_keeps_it() -> None:
    pod = step("delete", "a")
    played = Played(pod)
    answer = going(pod, grace=30)
    assert answer.written.live is not None
    answer.written.live["metadata"]["finalizers"] = ["example.com/slow"]  # type: ignore[index]
    played.hear(answer)
    played.hear(Tick(), after=89)
    assert isinstance(played.machine.state(pod), Waiting)
    played.hear(Tick(), after=2)
    assert played.left() == {"a": "it is being deleted, kept by the finalizers example.com/slow"}


def test_an_object_that_no_list_has_is_gone() -> None:
    pod = step("wait", "a", until="gone", uid="a-1")
    played = Played(pod)
    played.hear(Listed(("v1", "Pod", "ml"), {"a": "a-1", "b": "b-1"}))
    assert isinstance(played.machine.state(pod), Waiting)
    played.hear(Listed(("v1", "Pod", "ml"), {"b": "b-1"}))
    assert played.machine.state(pod) == "done"


def test_a_drain_ends_with_its_time_or_with_the_pod() -> None:
    for end in (
        lambda played, pod: played.hear(Tick(), after=20),
        lambda played, pod: played.hear(seen(pod, ObjectState("ended"))),
        lambda played, pod: played.hear(seen(pod, None)),
    ):
        pod = step("wait", "a", until="drained", uid="a-1", limit=20)
        removal = step("delete", "a", after=(pod.id,))
        played = Played(pod, removal)
        assert writes(played.hear(Tick(), after=1)) == []
        assert writes(end(played, pod)) == [("a", "delete")]


def test_a_watch_that_cannot_be_opened_fails_its_step_only() -> None:
    pod, other = step("wait", "a", until="gone", uid="a-1"), step("create", "b")
    played = Played(pod, other, wait="none")
    played.hear(Lost(pod.ref, FORBIDDEN, pod))
    assert isinstance(played.machine.state(pod), Failed)
    assert not played.machine.stopping
    played.hear(wrote(other))
    assert played.machine.settled


def test_a_watch_that_breaks_ends_the_rollout() -> None:
    pod, later = step("create", "a"), step("create", "b", wave=1)
    played = Played(pod, later)
    played.hear(Lost(pod.ref, FORBIDDEN))
    assert played.machine.stopping
    assert writes(played.hear(wrote(pod))) == []
    assert list(played.left()) == ["a", "b"]


# Any order ------------------------------------------------------------------------------------


class Simulated(Struct):
    """A cluster that answers and tells in any order, and some of it twice or never."""

    rng: random.Random
    there: dict[str, str]
    pending: list[Event]
    clock: int = 0
    waits: bool = True

    def take(self, command: Command) -> None:
        if isinstance(command, Follow):
            for kind in ("Pod", "ConfigMap"):
                self.pending.append(Listed(("v1", kind, "ml"), dict(self.there)))
        if not isinstance(command, Write):
            return
        step, name = command.step, command.step.ref.name
        if self.rng.random() < 0.15 and (self.waits or step.action != "create"):
            self.pending.append(NotWritten(step, command.phase, FULL))
        elif command.phase == "delete":
            self.pending += self._deleted(step, name)
        else:
            assert command.phase == "update" or name not in self.there
            self.clock += 1
            self.there[name] = uid = f"{name}-{self.clock}x"
            self.pending.append(Wrote(step, command.phase, Written("created", live(step, uid))))
            self.pending.append(seen(step, READY, uid))

    def _deleted(self, step: Step, name: str) -> Iterator[Event]:
        uid = self.there.pop(name, None)
        if uid is None or self.rng.random() < 0.3:
            yield Wrote(step, "delete", Written("deleted", None))
        else:
            yield going(step)
        yield seen(step, None, step.uid)


def random_plan(rng: random.Random) -> list[Step]:
    steps = []
    for number in range(rng.randint(1, 12)):
        action = rng.choice(("create", "update", "replace", "delete"))
        kind = rng.choice(("Pod", "ConfigMap"))
        steps.append(step(action, f"o{number}", kind, wave=rng.randint(0, 2)))
        if action == "delete" and rng.random() < 0.5:
            wait = step("wait", f"o{number}", kind, until="gone", uid=f"o{number}-1")
            steps.append(Step("wait", wait.ref, after=(steps[-1].id,), until="gone", uid=wait.uid))
    return steps


def begun(rng: random.Random, **choices: Any) -> tuple[list[Step], Simulated, Played]:
    """A random plan that a simulated cluster has heard the first commands of."""
    steps = random_plan(rng)
    names = {one.ref.name: f"{one.ref.name}-1" for one in steps if one.uid}
    cluster = Simulated(rng, names, [], waits=choices.get("wait") != "none")
    played = Played(*steps, **choices)
    for command in played.commands:
        cluster.take(command)
    return steps, cluster, played


def goes_on(cluster: Simulated, played: Played) -> None:
    """Something is heard, whichever the cluster comes up with; or nothing, and time passes."""
    event: Event = Tick()
    if cluster.pending:
        event = cluster.pending.pop(cluster.rng.randrange(len(cluster.pending)))
    for command in played.hear(event, after=1.0):
        cluster.take(command)


@pytest.mark.parametrize("seed", range(300))
def test_plan_ends_in_any_order_of_answers_and_events(seed: int) -> None:
    rng = random.Random(seed)
    steps, cluster, played = begun(rng, wait=rng.choice(("ready", "none")))
    for _ in range(10_000):
        if played.machine.settled:
            break
        goes_on(cluster, played)
    assert played.left() == {}
    assert played.machine.outcome().code == 0
    remaining = {one.ref.name for one in steps if one.action not in ("delete", "wait")}
    assert set(cluster.there) == remaining
    assert all(played.machine.state(one) == "done" for one in steps)
    done = played.machine.outcome().done
    assert sorted(one.id for one in done) == sorted(one.id for one in steps if one.action != "wait")


@pytest.mark.parametrize("seed", range(100))
def test_nothing_begins_after_an_interrupt(seed: int) -> None:
    rng = random.Random(seed)
    steps, cluster, played = begun(rng)
    for _ in range(rng.randint(0, 10)):
        goes_on(cluster, played)
    queued = [one for one in steps if played.machine.state(one) == "queued"]
    played.hear(Interrupted())
    while cluster.pending:
        played.hear(cluster.pending.pop(), after=1.0)
    assert [one for one in steps if played.machine.state(one) == "queued"] == queued
    outcome = played.machine.outcome()
    assert outcome.interrupted
    reported = {one.id for one in outcome.done} | {one.id for one, _ in outcome.left}
    assert {one.id for one in steps if one.action != "wait"} <= reported


FAILED = ObjectState("failed", "exit code 1", over=True)


def test_unchanged_pod_that_the_watcher_replaces_does_not_fail_the_rollout() -> None:
    worker, added = step("unchanged", "worker-0"), step("create", "worker-1")
    played = Played(worker, added)
    played.hear(wrote(added))
    played.hear(seen(worker, FAILED))
    played.hear(seen(added, READY, uid="worker-1-2"))
    assert not played.machine.settled
    played.hear(seen(worker, None))
    played.hear(seen(worker, READY, uid="worker-0-2"), after=3)
    assert played.machine.settled
    assert not played.machine.outcome().unready


def test_unchanged_pod_that_nobody_replaces_fails_without_advice_to_restart() -> None:
    worker, added = step("unchanged", "worker-0"), step("create", "worker-1")
    played = Played(worker, added)
    played.hear(wrote(added))
    played.hear(seen(worker, FAILED))
    played.hear(seen(added, READY, uid="worker-1-2"))
    for _ in range(3):
        played.hear(Tick(), after=5)
    [unready] = played.machine.outcome().unready
    assert (unready.ref.name, unready.failed, unready.over) == ("worker-0", True, False)


REFUSED = ClusterError("Forbidden", "a policy denies it", status=403)


def test_refusal_while_another_pod_is_being_deleted_ends_with_6() -> None:
    pod, config = step("replace", "a"), step("create", "b", "ConfigMap")
    played = Played(pod, config, wait="none")
    played.hear(going(pod))
    played.hear(NotWritten(config, "create", REFUSED))
    assert played.machine.outcome().code == 6


def test_refusal_before_any_answer_ends_with_the_code_of_the_refusal() -> None:
    config = step("create", "b", "ConfigMap")
    played = Played(config, wait="none")
    played.hear(NotWritten(config, "create", REFUSED))
    assert played.machine.outcome().code == 7


def looks(played: Played) -> int:
    return sum(isinstance(command, Relist) for command in played.commands)


def test_everything_is_listed_again_before_the_time_is_up() -> None:
    played = Played(step("create", "a"), timeout=60.0)
    played.hear(wrote(step("create", "a")))
    played.hear(Tick(), after=57)
    assert looks(played) == 0
    played.hear(Tick(), after=1)
    played.hear(Tick(), after=1)
    assert looks(played) == 1
    assert not played.machine.stopping
    played.hear(seen(step("create", "a"), READY, uid="a-2"))
    assert played.machine.settled
    assert played.machine.outcome().code == 0


def test_all_objects_are_listed_again_before_a_deletion_times_out() -> None:
    pod = step("delete", "a")
    played = Played(pod, wait="none")
    played.hear(going(pod, grace=30))
    played.hear(Tick(), after=89)
    assert looks(played) == 1
    played.hear(Listed(("v1", "Pod", "ml"), {}))
    assert played.machine.state(pod) == "done"
