"""Follow the objects that a rollout waits for: how far each is, why it waits, and for how long.

Nothing here knows about steps and their order: it learns which object a step has made and what is
observed, and reports which objects changed between good, waiting and failed.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec import Struct, structs

from etcompile.k8s.objects import Object
from etcompile.model.protocol import status_name
from etcompile.plan.step import MAKES, ObjectRef, Plan, Step
from etcompile.rollout.machine.messages import (
    Choices,
    Command,
    Follow,
    FollowNotes,
    Hint,
    Place,
    ProposedJob,
    RunEnded,
    Seen,
    Status,
    StepEvent,
    Unready,
)
from etcompile.rollout.machine.reasons import (
    READY,
    Key,
    ObjectState,
    has_rule,
    is_barrier,
    limit,
    object_state,
)

_CALM = 60.0
"""Seconds without trouble after which earlier trouble is forgotten: a container that crashes
again and again runs in between."""
_LASTING = 1.0
"""Seconds that a reason must last to be reported: most pass by themselves."""
_REPLACED_WITHIN = 10.0
"""Seconds in which a watcher replaces a Pod that fails."""
_WORKLOADS = frozenset({"Job", "Pod"})
_OF_THE_CLUSTER = frozenset({"CustomResourceDefinition", "Namespace"})


class Target(Struct, eq=False):
    """An object that a rollout waits for.

    Attributes:
        goal: Whether to be ready is enough.
        since: Since when it has this reason.
        troubled: When it was in trouble last.
        trouble: Since when it has been in trouble; None if it is not.
        hint: What a Kubernetes Event says that it waits for, or how the Pod of a Job fails.
    """

    ref: ObjectRef
    key: Key
    job: str | None
    step: str
    goal: Literal["ready", "ended"]
    began: float
    since: float = 0.0
    troubled: float = 0.0
    trouble: float | None = None
    uid: str | None = None
    state: Literal["waiting", "good", "failed"] = "waiting"
    observed: ObjectState = ObjectState("waiting")
    reason: str = ""
    hint: str = ""
    reported: str = ""

    def __post_init__(self) -> None:
        self.since = self.troubled = self.began

    def see(self, observed: ObjectState, now: float) -> bool:
        """Note how far the object is; return whether that settles or unsettles it."""
        before = self.state
        if observed.timeout == math.inf:
            self.began = now  # its limit does not run while it waits for a node
        if observed.timeout is not None and observed.timeout != math.inf:
            self.trouble = now if self.trouble is None else self.trouble
            self.troubled = now
        elif observed.good or now - self.troubled > _CALM:
            self.trouble = None
        if (observed.reason, observed.good) != (self.reason, self.observed.good):
            self.reason, self.since = observed.reason, now
        self.observed = observed
        if observed.state == "failed":
            self.state = "failed"
        elif observed.state == "ended" or (observed.good and self.goal == "ready"):
            self.state = "good"
        else:
            self.state = "waiting"
        return self.state != before

    @property
    def is_running(self) -> bool:
        """Return whether it works and has not completed yet, if its completion is awaited."""
        return self.state == "waiting" and self.observed.good

    @property
    def says(self) -> str:
        """What the object says, or an Event or the Pod of a Job if it does not know; or empty."""
        knows = not self.observed.vague and not (self.ref.kind == "Job" and self.is_running)
        return self.reason if knows else self.hint or self.reason

    @property
    def why(self) -> str:
        return self.says or ("running" if self.is_running else "")

    def over_limit(self, now: float) -> str | None:
        timeout = self.observed.timeout
        if self.state != "waiting" or self.observed.good or timeout == math.inf:
            return None
        if self.trouble is not None and timeout is not None and now - self.trouble >= timeout:
            return f"{self.why} (for {timeout:.0f} s)"
        most = limit(self.ref.kind)
        if most is not None and now - self.began >= most:
            return f"{self.why} (for {most:.0f} s)"
        return None


class Targets:
    """The objects of a rollout, as they become ready.

    Args:
        states: How far the objects were before.
        changed: Is called for each target whose state has changed, or may have.
        command: Takes what has to be done: to follow objects, and to say something of one.
    """

    def __init__(
        self,
        plan: Plan,
        choices: Choices,
        namespace: str,
        jobs: Mapping[str, ProposedJob],
        states: Mapping[Key, ObjectState],
        *,
        changed: Callable[[Target], None],
        command: Callable[[Command], None],
    ) -> None:
        self._plan = plan
        self._namespace = namespace
        self._jobs = jobs
        self._before = states
        self._changed = changed
        self._command = command
        self._waits = choices.wait != "none"
        """Whether all is to be ready; else only what others cannot do without."""
        self._until_end = choices.wait == "complete"
        self._ended = {job: each.ended for job, each in jobs.items() if each.ended}
        """By job, the record of its run, if that is over: nothing waits for its Pods."""
        self._records = {
            (ref.namespace or namespace, ref.name): job
            for job, each in jobs.items()
            for ref in [_record(job)]
            if each.runs and self._until_end
        }
        """The jobs whose records end waits, by namespace and name of the record."""
        self._deciders = {
            job: {name for group in each.deciding for name in group} for job, each in jobs.items()
        }
        self._running: set[Key] = set()
        """Pods that were there before: a watcher may replace one that fails."""
        self._over: set[str | None] = set()
        """Jobs whose run is over."""
        self._targets: dict[Key, Target] = {}
        self._of_step: dict[str, Target] = {}
        self.observed: dict[Key, Seen] = {}
        """What was last seen of each object that is there."""
        self.deleted: dict[str | None, ObjectState] = {}
        """The objects that were seen to go, by UID."""
        self._uids: dict[Key, str] = {}
        self._after = {step.id: step.after for step in plan.steps if step.action in MAKES}

    def key(self, ref: ObjectRef) -> Key:
        return (*place_of(ref, self._namespace), ref.name)

    def get(self, key: Key) -> Target | None:
        return self._targets.get(key)

    @property
    def waiting(self) -> bool:
        return any(target.state == "waiting" for target in self._targets.values())

    def resume(self, now: float) -> None:
        """Make the unchanged objects targets: an earlier run may have ended before they were."""
        for namespace in dict.fromkeys(namespace for namespace, _ in self._records):
            self._command(FollowNotes("ConfigMap", namespace))
        for step in self._plan.steps:
            if step.action == "unchanged" and self._must_be_ready(step):
                target = self._target(step, now)
                target.uid = step.uid
                if step.ref.kind == "Pod":
                    self._running.add(target.key)
                if (observed := self._before.get(target.key)) is not None:
                    target.see(self._replaceable(target, observed), now)
                if target.state == "waiting":
                    self._command(Follow(target.ref))
        self._settle_runs()

    def add(self, step: Step, live: Object, now: float) -> Target | None:
        """Note an object that a step has made; return its target if anything waits for it."""
        key, uid = self.key(step.ref), live["metadata"].get("uid")
        self._uids[key] = uid
        if not self._must_be_ready(step):
            return None
        target = self._target(step, now)
        target.uid = uid
        seen = self.observed.get(key)
        if uid in self.deleted:
            self._observe(target, self.deleted[uid], now)
        elif seen is not None and seen.observed is not None and seen.uid == uid:
            self._observe(target, seen.observed, now)  # seen before the answer, and so newer
        else:
            self._observe(target, object_state(live), now)
        return target

    def wait_for(self, step: Step, now: float) -> None:
        target = self._target(step, now)
        seen = self.observed.get(target.key)
        if seen is not None and seen.observed is not None and target.uid in (None, seen.uid):
            target.uid = seen.uid
            self._observe(target, seen.observed, now)

    def see(self, seen: Seen, now: float) -> None:
        key: Key = (*seen.place, seen.name)
        if seen.observed is None:
            self.deleted[seen.uid] = ObjectState("failed", seen.going or "it was deleted")
            if key in self.observed and self.observed[key].uid == seen.uid:
                del self.observed[key]
        else:
            self.observed[key] = seen
        target = self._targets.get(key)
        if target is None:
            return
        if seen.observed is None:
            if target.uid == seen.uid and target.state != "failed":
                self._observe(target, self._replaceable(target, self.deleted[seen.uid]), now)
        elif target.uid in (None, seen.uid):
            target.uid = seen.uid
            self._observe(target, self._replaceable(target, seen.observed), now)

    def _replaceable(self, target: Target, observed: ObjectState) -> ObjectState:
        if target.key not in self._running or observed.state != "failed":
            return observed
        target.uid = None
        return structs.replace(observed, state="waiting", timeout=_REPLACED_WITHIN)

    def hint(self, hint: Hint, now: float) -> None:
        for version in ("v1", "batch/v1"):
            target = self._targets.get((version, hint.kind, hint.namespace, hint.name))
            if target is None or (hint.uid and target.uid and hint.uid != target.uid):
                continue  # or it is about the one that had the name before
            if not hint.unbound:
                target.hint = hint.text
            elif hint.kind == "PersistentVolumeClaim":
                self._observe(target, READY, now)

    def end(self, event: RunEnded) -> None:
        job = self._records.get((event.namespace, event.config_map))
        if job is not None and event.record.run in self._jobs[job].runs:
            self._ended[job] = event.record
            for target in self._finish(job, success=event.record.phase == "Succeeded"):
                self._changed(target)

    def due(self, now: float) -> set[Key]:
        targets = self._targets.values()
        return {target.key for target in targets if target.over_limit(now) is not None}

    def tick(self, now: float) -> None:
        for target in [*self._targets.values()]:
            words = target.over_limit(now)
            if words is None and target.state == "waiting":
                befores = map(self._of_step.get, self._after.get(target.step, ()))
                if failed := next((t for t in befores if t and t.state == "failed"), None):
                    words = f"it depends on {failed.ref.kind} {failed.ref.name}, which failed"
            if words is not None:
                over = target.observed.over
                self._observe(target, ObjectState("failed", words, over=over), now)
        for target in self._targets.values():
            lasts = target.state == "waiting" and now - target.since >= _LASTING
            if lasts and target.why and target.why != target.reported:
                target.reported = target.why
                if target.is_running:
                    self._say(target, "running", target.says)
                else:
                    self._say(target, "waiting", target.why)
                if target.observed.vague:
                    self._command(FollowNotes("Event", target.key[2]))

    def unready(self) -> Iterator[Unready]:
        for job, record in self._ended.items() if self._waits else ():
            if record.phase == "Failed":
                words = ": ".join(
                    filter(None, ("the run has failed", record.reason, record.message))
                )
                yield Unready(_record(job), words, failed=True, job=job, over=True)
        # A job whose other Pods work is not to be restarted, unless its run has failed.
        working = {
            target.job
            for target in self._targets.values()
            if target.ref.kind in _WORKLOADS and target.observed.state == "ready"
        } - self._over
        for target in self._targets.values():
            is_recorded = target.job in self._ended and target.ref.kind in _WORKLOADS
            if target.state != "good" and not is_recorded:
                words = target.why or "its state is not known yet"
                failed = target.state == "failed"
                decides = target.ref.name in self._deciders.get(target.job or "", ())
                over = target.observed.over and (decides or target.job not in working)
                yield Unready(target.ref, words, failed, target.job, over)

    def _must_be_ready(self, step: Step) -> bool:
        if step.ref.kind in _WORKLOADS and step.job in self._ended:
            return False
        return has_rule(step.ref.kind) and (self._waits or is_barrier(step.ref.kind))

    def _target(self, step: Step, now: float) -> Target:
        key = self.key(step.ref)
        target = self._targets.get(key)
        if target is None:
            decides = step.ref.name in self._deciders.get(step.job or "", ())
            ends = self._until_end and decides and step.ref.kind in _WORKLOADS
            goal: Literal["ready", "ended"] = "ended" if ends else "ready"
            target = Target(step.ref, key, step.job, step.id, goal, now)
            self._targets[key] = self._of_step[step.id] = target
        if target.uid is None:
            target.uid = self._uids.get(key)
        return target

    def _observe(self, target: Target, observed: ObjectState, now: float) -> None:
        if target.job in self._over and target.ref.kind in _WORKLOADS:
            return
        if target.see(observed, now):
            if target.state == "good":
                ended = target.observed.state == "ended"
                self._say(target, "succeeded" if ended else "ready")
            elif target.state == "failed" and target.why != target.reported:
                target.reported = target.why
                self._say(target, "failed", target.why)
            self._settle_runs()  # what it settles is reported at the end
        elif target.state == "waiting":
            self._command(Follow(target.ref))
        self._changed(target)

    def _settle_runs(self) -> None:
        """End runs that are over: all their other Pods count as good then, or as failed."""
        for job, each in self._jobs.items() if self._until_end else ():
            groups = each.deciding
            if job in self._over or not groups:
                continue
            members = [target for target in self._targets.values() if target.job == job]
            states = {target.ref.name: target.state for target in members if target.goal == "ended"}
            success = any(all(states.get(name) == "good" for name in group) for group in groups)
            failure = all(any(states.get(name) == "failed" for name in group) for group in groups)
            if not success and not failure:
                continue
            self._finish(job, success=success)

    def _finish(self, job: str, *, success: bool) -> list[Target]:
        self._over.add(job)
        members = [target for target in self._targets.values() if target.job == job]
        for target in members:
            if target.ref.kind in _WORKLOADS and (success or target.state == "waiting"):
                target.state = "good" if success else "failed"
                target.reason = "" if success else "the run has failed"
        return members

    def _say(self, target: Target, status: Status, reason: str = "") -> None:
        self._command(StepEvent(target.ref, "wait", status, reason, target.job))


def _record(job: str) -> ObjectRef:
    namespace, _, name = job.rpartition("/")
    return ObjectRef("v1", "ConfigMap", namespace, status_name(name))


def place_of(ref: ObjectRef, namespace: str) -> Place:
    home = "" if ref.kind in _OF_THE_CLUSTER else ref.namespace or namespace
    return ref.api_version, ref.kind, home
