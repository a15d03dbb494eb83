"""How far the objects of a rollout are: what was seen of them, and what must still come.

Holds the watches and the targets, and knows nothing of steps and their order: it is told which
object a step has made, hears what is seen, and says which objects changed between good, waiting
and failed.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster, told_at
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan.step import MAKES, ObjectRef, Plan, Step
from etcompile.rollout.outcome import Status, Unready
from etcompile.rollout.reasons import BARRIERS, READY, ObjectState, has_rule, object_state
from etcompile.rollout.targets import RUNNING, Key, Target, Targets
from etcompile.rollout.watches import Hint, Message, Place, Seen, Watches

_LONGEST = 300
"""Characters of an event's message that are told."""
_WORKLOADS = ("Job", "Pod")


class Readiness:
    """The objects of a rollout, as they become ready.

    Args:
        cluster: The cluster.
        plan: The plan.
        waits: Whether all is to be ready; else only what others cannot do without.
        post: Takes what the watches see, from any thread.
        changed: Is told of each target whose state has changed, or may have.
        say: Is told what a person should know of a target.
        seen: How far objects were when the plan was made.
        deciding: By job, whose end is the run's; empty where to be ready is enough.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        *,
        waits: bool,
        post: Callable[[Message], None],
        changed: Callable[[Target], None],
        say: Callable[[Target, Status, str], None],
        seen: Mapping[Key, ObjectState],
        deciding: Mapping[str, tuple[tuple[str, ...], ...]],
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._waits = waits
        self._changed = changed
        self._say = say
        self._before = seen
        self._ends = bool(deciding)
        self.targets = Targets(deciding)
        self._observed: dict[Key, Seen] = {}
        self._deleted: dict[str | None, ObjectState] = {}
        self._uids: dict[Key, str] = {}
        self._dependents = _dependents(plan)
        self._after = {step.id: step.after for step in plan.steps if step.action in MAKES}
        self._bare = {self._place(ref) for ref in _unlabelled(plan)}
        self._watches = Watches(cluster, post, self._selector, self._bare.add)

    def close(self) -> None:
        """Ends all watches."""
        self._watches.close()

    def watch(self, ref: ObjectRef, labels: Mapping[str, str] | None) -> None:
        """Has an object followed, also one that no label of ours would find.

        Args:
            ref: The object.
            labels: Its labels; None if they are not known.

        Raises:
            ClusterError: the cluster does not serve its kind, or does not show the object.
        """
        if labels is None:
            resource = self._cluster.resource(ref.api_version, ref.kind)
            found = self._cluster.get(resource, ref.name, ref.namespace or None, metadata_only=True)
            labels = (found["metadata"].get("labels") or {}) if found else {JOB_LABEL: ""}
        place = self._place(ref)
        if JOB_LABEL not in labels and place not in self._bare:
            self._bare.add(place)
            self._watches.again(place)
        self._watches.need(ref)

    def is_there(self, ref: ObjectRef, uid: str | None) -> bool:
        """Whether an object that no list had is there nevertheless, without our labels.

        Raises:
            ClusterError: the cluster does not say.
        """
        place = self._place(ref)
        if place in self._bare or not self._watches.exists(ref, uid):
            return False
        self._bare.add(place)
        self._watches.again(place)
        return True

    def key(self, ref: ObjectRef) -> Key:
        """What tells an object from all others here."""
        return (*self._place(ref), ref.name)

    def seen(self, key: Key) -> Seen | None:
        """What was last seen of an object that is there."""
        return self._observed.get(key)

    def is_deleted(self, uid: str | None) -> bool:
        """Whether an object was seen to go."""
        return uid in self._deleted

    def must_be_ready(self, step: Step) -> bool:
        """Whether the rollout waits for a step's object."""
        return has_rule(step.ref.kind) and (self._waits or step.ref.kind in BARRIERS)

    def resume(self) -> None:
        """Makes the unchanged objects targets: an earlier run may have ended before they were.

        Raises:
            ClusterError: one cannot be followed.
        """
        now = time.monotonic()
        for step in self._plan.steps:
            if step.action == "unchanged" and self.must_be_ready(step):
                target = self._target(step)
                target.uid = step.uid
                found = self._before.get(self.key(step.ref))
                if found is not None:
                    target.see(found, now)
                if target.state == "waiting":
                    self._watches.need(step.ref)
        for _ in self.targets.settled_runs():
            continue

    def made(self, step: Step, live: Object) -> Target | None:
        """Takes note of an object that a step has made.

        Args:
            step: The step.
            live: The object, as the answer to the write shows it.

        Returns:
            The target that it is; None if nothing waits for it.
        """
        key, uid = self.key(step.ref), live["metadata"].get("uid")
        self._uids[key] = uid
        if not self.must_be_ready(step):
            return None
        target = self._target(step)
        target.uid = uid
        seen = self._observed.get(key)
        if uid in self._deleted:
            self._look(target, self._deleted[uid])
        elif seen is not None and seen.observed is not None and seen.uid == uid:
            self._look(target, seen.observed)  # heard before the answer, and so newer
        else:
            self._look(target, object_state(live))
        return target

    def wanted(self, step: Step) -> Target:
        """The target of an object that somebody waits for, whatever its kind's rule."""
        target = self._target(step)
        seen = self._observed.get(target.key)
        if seen is not None and seen.observed is not None and target.uid in (None, seen.uid):
            target.uid = seen.uid
            self._look(target, seen.observed)
        return target

    def hear(self, message: Seen | Hint) -> None:
        """Takes note of what a watch has seen."""
        if isinstance(message, Hint):
            self._hint(message)
            return
        key: Key = (*message.place, message.name)
        if message.observed is None:
            self._deleted[message.uid] = ObjectState("failed", message.going or "it was deleted")
            if key in self._observed and self._observed[key].uid == message.uid:
                del self._observed[key]
        else:
            self._observed[key] = message
        target = self.targets.get(key)
        if target is None:
            return
        if message.observed is None:
            if target.uid == message.uid and target.state != "failed":
                self._look(target, self._deleted[message.uid])
        elif target.uid in (None, message.uid):
            target.uid = message.uid
            self._look(target, message.observed)

    def look_at_the_clock(self, now: float) -> None:
        """Ends waits that have lasted long enough, and tells reasons that last."""
        for target in self.targets:
            if (words := target.over_limit(now)) is not None:
                self._look(target, ObjectState("failed", words))
        for target in self.targets.unspoken(now):
            if target.why == RUNNING:
                self._say(target, "running", "")
            else:
                self._say(target, "waiting", target.why)
            if target.observed.vague:
                self._watches.need_events(target.key[2])

    def unready(self, *, asks: bool) -> Iterator[Unready]:
        """The objects that are not as they should be.

        Args:
            asks: Whether the cluster can be asked what it says of them.
        """
        open_ = [one for one in self.targets if one.state != "good"]
        vague = [one for one in open_ if one.observed.vague and not one.hint]
        warnings = self._warnings({one.key[2] for one in vague}) if asks else {}
        for one in open_:
            said = warnings.get(one.uid) if one.observed.vague and not one.hint else None
            words = f"{one.why}; {said}" if said else one.why
            failed = one.state == "failed"
            words = words or "its state is not known yet"
            yield Unready(one.ref, words, failed, one.job, one.observed.over)

    def _target(self, step: Step) -> Target:
        key = self.key(step.ref)
        now = time.monotonic()
        target = self.targets.add(step.ref, key, step.job, step.id, now, decides=self._ends)
        if target.uid is None:
            target.uid = self._uids.get(key)
        return target

    def _look(self, target: Target, found: ObjectState) -> None:
        if self.targets.is_over(target.job) and target.ref.kind in _WORKLOADS:
            return
        held_up = target.state == "failed"
        turned = target.see(found, time.monotonic())
        failed = self._failed_before(target) if target.state == "waiting" else None
        if failed is not None:
            self._hold_up(target, failed, again=held_up)
        elif turned:
            self._turned(target)
        elif target.state == "waiting":
            self._watches.need(target.ref)
        self._changed(target)

    def _turned(self, target: Target) -> None:
        if target.state == "good":
            ended = target.observed.state == "ended"
            self._say(target, "succeeded" if ended else "ready", "")
        elif target.state == "failed":
            self._say(target, "failed", target.why)
            self._hold_up_others(target)
        for _ in self.targets.settled_runs():
            continue  # what it settles is told at the end

    def _hold_up_others(self, failed: Target) -> None:
        """What was to come after an object that failed is not going to be ready either."""
        for one in map(self.targets.of_step, self._dependents.get(failed.step, ())):
            if one is not None and one.state == "waiting":
                self._hold_up(one, failed)

    def _hold_up(self, one: Target, failed: Target, *, again: bool = False) -> None:
        one.state = "failed"
        one.reason = f"it depends on {failed.ref.kind} {failed.ref.name}, which failed"
        if not again:
            self._say(one, "failed", one.reason)
            self._hold_up_others(one)

    def _failed_before(self, target: Target) -> Target | None:
        """An object that failed, and that this one was to come after."""
        for one in map(self.targets.of_step, self._after.get(target.step, ())):
            if one is not None and one.state == "failed":
                return one
        return None

    def _hint(self, hint: Hint) -> None:
        for version in ("v1", "batch/v1"):
            target = self.targets.get((version, hint.kind, hint.namespace, hint.name))
            if target is None or (hint.uid and target.uid and hint.uid != target.uid):
                continue  # or it is about the one that had the name before
            if not hint.unbound:
                target.hint = hint.text
            elif hint.kind == "PersistentVolumeClaim":
                self._look(target, READY)

    def _warnings(self, namespaces: Iterable[str]) -> dict[str | None, str]:
        """The last warning about each object of some namespaces, by UID."""
        found: dict[str | None, tuple[str, str]] = {}
        for namespace in namespaces:
            try:
                events = self._cluster.resource("v1", "Event")
                for page in self._cluster.pages(events, namespace, fields="type=Warning"):
                    for event in page.items:
                        uid = (event.get("involvedObject") or {}).get("uid")
                        text = " ".join(str(event.get("message") or "").split())[:_LONGEST]
                        if text:
                            found[uid] = max(found.get(uid, ("", "")), (told_at(event), text))
            except ClusterError:
                continue  # events only explain; who may not read them goes without
        return {uid: text for uid, (_, text) in found.items()}

    def _place(self, ref: ObjectRef) -> Place:
        if ref.kind in ("CustomResourceDefinition", "Namespace"):
            return ref.api_version, ref.kind, ""
        return ref.api_version, ref.kind, ref.namespace or self._cluster.namespace

    def _selector(self, place: Place) -> str:
        return "" if place in self._bare else JOB_LABEL


def _dependents(plan: Plan) -> dict[str, list[str]]:
    """By step, the steps that make something which comes after it."""
    found: dict[str, list[str]] = defaultdict(list)
    for step in plan.steps:
        if step.action in MAKES:
            for before in step.after:
                found[before].append(step.id)
    return found


def _unlabelled(plan: Plan) -> Iterator[ObjectRef]:
    """Objects that do not say which job they belong to, so that no label finds them."""
    for step in plan.steps:
        labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
        if step.job is None or (step.manifest is not None and JOB_LABEL not in labels):
            yield step.ref
