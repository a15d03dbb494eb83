"""How far the objects of a rollout are: what was seen of them, and what must still come.

No requests and no clock of its own, and nothing about steps and their order: it is told which
object a step has made, hears what is seen, and says which objects changed between good, waiting
and failed. So the rules about limits can be read, and tested, without a cluster.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from etcompile.k8s.objects import Object
from etcompile.plan.step import MAKES, ObjectRef, Plan, Step
from etcompile.rollout.machine.messages import Command, Follow, FollowEvents, Hint, Place, Seen
from etcompile.rollout.machine.outcome import Status, StepEvent, Unready
from etcompile.rollout.machine.reasons import BARRIERS, READY, ObjectState, has_rule, object_state
from etcompile.rollout.machine.targets import WORKLOADS, Key, Target, Targets

_OF_THE_CLUSTER = ("CustomResourceDefinition", "Namespace")


class Readiness:
    """The objects of a rollout, as they become ready.

    Args:
        namespace: That of objects which name none.
        waits: Whether all is to be ready; else only what others cannot do without.
        changed: Is told of each target whose state has changed, or may have.
        command: Takes what has to be done: to follow objects, and to say something of one.
        seen: How far objects were when the plan was made.
        deciding: By job, whose end is the run's; empty where to be ready is enough.
    """

    def __init__(
        self,
        plan: Plan,
        namespace: str,
        *,
        waits: bool,
        changed: Callable[[Target], None],
        command: Callable[[Command], None],
        seen: Mapping[Key, ObjectState],
        deciding: Mapping[str, tuple[tuple[str, ...], ...]],
    ) -> None:
        self._plan = plan
        self._namespace = namespace
        self._waits = waits
        self._changed = changed
        self._command = command
        self._before = seen
        self._ends = bool(deciding)
        self.targets = Targets(deciding)
        self._observed: dict[Key, Seen] = {}
        self._deleted: dict[str | None, ObjectState] = {}
        self._uids: dict[Key, str] = {}
        self._dependents = _dependents(plan)
        self._after = {step.id: step.after for step in plan.steps if step.action in MAKES}

    def key(self, ref: ObjectRef) -> Key:
        """What tells an object from all others here."""
        return (*place_of(ref, self._namespace), ref.name)

    def seen(self, key: Key) -> Seen | None:
        """What was last seen of an object that is there."""
        return self._observed.get(key)

    def is_deleted(self, uid: str | None) -> bool:
        """Whether an object was seen to go."""
        return uid in self._deleted

    def must_be_ready(self, step: Step) -> bool:
        """Whether the rollout waits for a step's object."""
        return has_rule(step.ref.kind) and (self._waits or step.ref.kind in BARRIERS)

    def resume(self, now: float) -> None:
        """Makes the unchanged objects targets: an earlier run may have ended before they were."""
        for step in self._plan.steps:
            if step.action == "unchanged" and self.must_be_ready(step):
                target = self._target(step, now)
                target.uid = step.uid
                found = self._before.get(target.key)
                if found is not None:
                    target.see(found, now)
                if target.state == "waiting":
                    self._command(Follow(target.ref))
        for _ in self.targets.settled_runs():
            continue

    def made(self, step: Step, live: Object, now: float) -> Target | None:
        """Takes note of an object that a step has made.

        Args:
            step: The one that was carried out, a create, update or replacement.
            live: The object, as the answer to the write shows it.
            now: Seconds of the clock that all times here are of.

        Returns:
            The target that it is; None if nothing waits for it.
        """
        key, uid = self.key(step.ref), live["metadata"].get("uid")
        self._uids[key] = uid
        if not self.must_be_ready(step):
            return None
        target = self._target(step, now)
        target.uid = uid
        seen = self._observed.get(key)
        if uid in self._deleted:
            self._look(target, self._deleted[uid], now)
        elif seen is not None and seen.observed is not None and seen.uid == uid:
            self._look(target, seen.observed, now)  # heard before the answer, and so newer
        else:
            self._look(target, object_state(live), now)
        return target

    def wanted(self, step: Step, now: float) -> None:
        """Makes a target of an object that somebody waits for, whatever its kind's rule."""
        target = self._target(step, now)
        seen = self._observed.get(target.key)
        if seen is not None and seen.observed is not None and target.uid in (None, seen.uid):
            target.uid = seen.uid
            self._look(target, seen.observed, now)

    def see(self, seen: Seen, now: float) -> None:
        """Takes note of how far an object is."""
        key: Key = (*seen.place, seen.name)
        if seen.observed is None:
            self._deleted[seen.uid] = ObjectState("failed", seen.going or "it was deleted")
            if key in self._observed and self._observed[key].uid == seen.uid:
                del self._observed[key]
        else:
            self._observed[key] = seen
        target = self.targets.get(key)
        if target is None:
            return
        if seen.observed is None:
            if target.uid == seen.uid and target.state != "failed":
                self._look(target, self._deleted[seen.uid], now)
        elif target.uid in (None, seen.uid):
            target.uid = seen.uid
            self._look(target, seen.observed, now)

    def hint(self, hint: Hint, now: float) -> None:
        """Takes note of what a Kubernetes Event says about an object."""
        for version in ("v1", "batch/v1"):
            target = self.targets.get((version, hint.kind, hint.namespace, hint.name))
            if target is None or (hint.uid and target.uid and hint.uid != target.uid):
                continue  # or it is about the one that had the name before
            if not hint.unbound:
                target.hint = hint.text
            elif hint.kind == "PersistentVolumeClaim":
                self._look(target, READY, now)

    def look_at_the_clock(self, now: float) -> None:
        """Ends waits that have lasted long enough, and tells reasons that last."""
        for target in self.targets:
            if (words := target.over_limit(now)) is not None:
                self._look(target, ObjectState("failed", words), now)
        for target in self.targets.unspoken(now):
            if target.is_running:
                self._say(target, "running")
            else:
                self._say(target, "waiting", target.why)
            if target.observed.vague:
                self._command(FollowEvents(target.key[2]))

    def vague(self) -> set[str]:
        """Namespaces with objects that are not ready and do not say why; Events may."""
        return {target.key[2] for target in self._open() if _is_vague(target)}

    def unready(self, warnings: Mapping[str | None, str]) -> Iterator[Unready]:
        """The objects that are not as they should be.

        Args:
            warnings: By UID, what Kubernetes Events say of objects.
        """
        for target in self._open():
            said = warnings.get(target.uid) if _is_vague(target) else None
            words = f"{target.why}; {said}" if said else target.why
            failed = target.state == "failed"
            words = words or "its state is not known yet"
            yield Unready(target.ref, words, failed, target.job, target.observed.over)

    def _open(self) -> list[Target]:
        return [target for target in self.targets if target.state != "good"]

    def _target(self, step: Step, now: float) -> Target:
        key = self.key(step.ref)
        target = self.targets.add(step.ref, key, step.job, step.id, now, decides=self._ends)
        if target.uid is None:
            target.uid = self._uids.get(key)
        return target

    def _look(self, target: Target, found: ObjectState, now: float) -> None:
        if self.targets.is_over(target.job) and target.ref.kind in WORKLOADS:
            return
        held_up = target.state == "failed"
        turned = target.see(found, now)
        failed = self._failed_before(target) if target.state == "waiting" else None
        if failed is not None:
            self._hold_up(target, failed, again=held_up)
        elif turned:
            self._turned(target)
        elif target.state == "waiting":
            self._command(Follow(target.ref))
        self._changed(target)

    def _turned(self, target: Target) -> None:
        if target.state == "good":
            ended = target.observed.state == "ended"
            self._say(target, "succeeded" if ended else "ready")
        elif target.state == "failed":
            self._say(target, "failed", target.why)
            self._hold_up_others(target)
        for _ in self.targets.settled_runs():
            continue  # what it settles is told at the end

    def _hold_up_others(self, failed: Target) -> None:
        """What was to come after an object that failed is not going to be ready either."""
        for target in map(self.targets.of_step, self._dependents.get(failed.step, ())):
            if target is not None and target.state == "waiting":
                self._hold_up(target, failed)

    def _hold_up(self, target: Target, failed: Target, *, again: bool = False) -> None:
        target.state = "failed"
        target.reason = f"it depends on {failed.ref.kind} {failed.ref.name}, which failed"
        if not again:
            self._say(target, "failed", target.reason)
            self._hold_up_others(target)

    def _failed_before(self, target: Target) -> Target | None:
        """An object that failed, and that this one was to come after."""
        for before in map(self.targets.of_step, self._after.get(target.step, ())):
            if before is not None and before.state == "failed":
                return before
        return None

    def _say(self, target: Target, status: Status, reason: str = "") -> None:
        self._command(StepEvent(target.ref, "wait", status, reason, target.job))


def place_of(ref: ObjectRef, namespace: str) -> Place:
    """Where an object is followed.

    Args:
        ref: The object.
        namespace: That of objects which name none.
    """
    home = "" if ref.kind in _OF_THE_CLUSTER else ref.namespace or namespace
    return ref.api_version, ref.kind, home


def _is_vague(target: Target) -> bool:
    return target.observed.vague and not target.hint


def _dependents(plan: Plan) -> dict[str, list[str]]:
    """By step, the steps that make something which comes after it."""
    found: dict[str, list[str]] = defaultdict(list)
    for step in plan.steps:
        if step.action in MAKES:
            for before in step.after:
                found[before].append(step.id)
    return found
