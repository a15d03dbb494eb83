"""A plan, step by step, until it is done or cannot go on: the loop that strings the parts together.

One thread decides and hears from all others through one queue: threads that write, watches, and
whoever interrupts. So what happens next depends on what was heard and on nothing else. Nothing is
remembered between runs: the plan of the next run is made from what is there.
"""

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan.order import DRAIN, drains
from etcompile.plan.schedule import Schedule
from etcompile.plan.step import MAKES, ObjectRef, Plan, Step
from etcompile.rollout.inventory import Inventories, members_left
from etcompile.rollout.outcome import Outcome, Refusal, RefusedError, Status, StepEvent
from etcompile.rollout.readiness import Readiness
from etcompile.rollout.reasons import BARRIERS, ObjectState, deleting
from etcompile.rollout.refusals import may_pass, refusal
from etcompile.rollout.targets import Key, Target
from etcompile.rollout.waits import Waiting, Waits
from etcompile.rollout.watches import Broken, Hint, Listed, Message, Seen
from etcompile.rollout.writer import Writer
from etcompile.rollout.writer_pool import NotWritten, Phase, WriterPool, Wrote

Wait = Literal["ready", "complete", "none"]
_TICK = 0.25
_HOLD = 5.0
"""Seconds between attempts to make what is refused for now, by a quota."""
_HELD = 600.0
_AFTER_GRACE = 60.0
_PATIENCE = 10.0
"""Seconds that requests under way may take once the rollout is stopped."""


class Choices(Struct, frozen=True):
    """How to roll out.

    Args:
        wait: For objects to be ready; for the run to end; or only where the order needs it.
        timeout: Seconds for all of it; None for no limit.
        drain: Seconds for a Pod to drain that left the host list; None for the plan's.
        concurrency: How many writes at once.
    """

    wait: Wait = "ready"
    timeout: float | None = None
    drain: float | None = None
    concurrency: int = 16


class _Stop(Struct, frozen=True):
    pass


class Rollout:
    """Does a plan, once.

    Args:
        cluster: The cluster.
        plan: The plan, without refusals and without a ring.
        writer: Does single steps.
        sets: The ApplySets of its jobs.
        choices: How.
        tell: Is told of each change of state, from the thread that calls `run`.
        seen: How far objects were when the plan was made.
        deciding: By job, whose success is the run's (`JobObjects.deciding`).
        kept: By job, the members of its set that are not declared and stay; those that the plan
            leaves alone if None.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        writer: Writer,
        sets: Inventories,
        choices: Choices,
        tell: Callable[[StepEvent], None],
        seen: Mapping[Key, ObjectState] | None = None,
        deciding: Mapping[str, tuple[tuple[str, ...], ...]] | None = None,
        kept: Mapping[str, Sequence[ObjectRef]] | None = None,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._sets = sets
        self._choices = choices
        self._tell = tell
        self._kept = members_left(plan) if kept is None else kept
        self._queue: queue.SimpleQueue[Message | Wrote | NotWritten | _Stop] = queue.SimpleQueue()
        self._turns = Schedule(plan.steps)
        self._objects = Readiness(
            cluster,
            plan,
            waits=choices.wait != "none",
            post=self._queue.put,
            changed=lambda target: self._settle_all(target.key),
            say=self._say,
            seen=seen or {},
            deciding=(deciding or {}) if choices.wait == "complete" else {},
        )
        self._workers = WriterPool(writer, sets, choices.concurrency, self._queue.put)
        self._held: list[tuple[float, Step, Phase]] = []
        self._held_since: dict[str, float] = {}
        self._held_by: dict[str, str] = {}
        self._waits = Waits()
        self._done: list[Step] = []
        self._half: set[str] = set()
        self._asked_again: set[str] = set()
        self._finished: set[str] = set()
        self._broken: dict[str, str] = {}
        self._refusals: list[Refusal] = []
        self._interrupted = self._timed_out = self._fatal = False
        self._stopped_at: float | None = None
        self._later = _later(plan)

    def interrupt(self) -> None:
        """Ends the rollout after the requests under way; may be called from a signal handler."""
        self._queue.put(_Stop())

    def run(self) -> Outcome:
        """Does the plan.

        Returns:
            What came of it; nothing raises but a mistake of ours.
        """
        timeout = self._choices.timeout
        end = None if timeout is None else time.monotonic() + timeout
        try:
            try:
                self._objects.resume()
            except ClusterError as error:
                self._lose(ObjectRef("", "the cluster", "", ""), error)
            while True:
                if not self._stopping:
                    for step in self._turns.ready():
                        self._start(step)
                    self._workers.go_on()
                if self._over():
                    break
                self._hear()
                now = time.monotonic()
                if end is not None and now >= end and not self._stopping:
                    self._timed_out = True
                self._look_at_the_clock(now)
            self._narrow()
            return self._outcome()
        finally:
            self._objects.close()
            self._workers.close()

    @property
    def _stopping(self) -> bool:
        return self._interrupted or self._timed_out or self._fatal

    def _over(self) -> bool:
        if self._stopping:
            return not self._workers.flying
        if not self._workers.idle or self._held or self._waits:
            return False
        # What was refused decides: nobody waits ten minutes to hear of it.
        return bool(self._refusals) or not self._objects.targets.waiting

    # ---- steps ----------------------------------------------------------------------------------

    def _start(self, step: Step) -> None:
        if step.action == "wait":
            self._wait(step)
        elif step.action in ("delete", "replace"):
            self._workers.add(step, "delete")
        else:
            self._workers.add(step, "create" if step.action == "create" else "update")

    def _wait(self, step: Step) -> None:
        now, key = time.monotonic(), self._objects.key(step.ref)
        reasons = step.reasons
        if step.until == "drained":
            limit = self._choices.drain
            if limit is None:
                limit = float(step.limit or DRAIN)
            else:
                reasons = (drains(limit),)
            task = Waiting(step, "drained", key, step.uid, now + limit)
        elif step.until == "gone":
            task = Waiting(step, "gone", key, step.uid, now + (step.limit or _HELD))
        else:
            task = Waiting(step, "ready", key, None, None)
        if not self._watch(step, None if task.what == "gone" else {JOB_LABEL: ""}):
            return
        self._waits.add(task)
        self._say(step, "waiting", ", ".join(reasons))
        if task.what == "ready":
            self._objects.wanted(step)
        self._settle_all(key)

    def _finish(self, step: Step) -> None:
        self._waits.end(step)
        self._finished.add(step.id)
        self._turns.done(step)

    def _break(self, step: Step, reason: str, found: Refusal | None = None) -> None:
        """A step that is not going to be done."""
        self._waits.end(step)
        self._broken[step.id] = reason
        if found is not None:
            self._refusals.append(found)
            self._fatal = self._fatal or found.fatal
        self._say(step, "failed", reason)

    def _lose(self, ref: ObjectRef, error: ClusterError) -> None:
        """Nobody can say any more what happens: nothing new is begun."""
        self._refusals.append(refusal(ref, error))
        self._fatal = True

    def _watch(self, step: Step, labels: Mapping[str, str] | None) -> bool:
        """Has a step's object followed, which has these labels; whether that can be done."""
        try:
            self._objects.watch(step.ref, labels)
        except ClusterError as error:
            found = refusal(step.ref, error)
            self._break(step, "; ".join(found.reasons), found)
            return False
        return True

    # ---- what is heard --------------------------------------------------------------------------

    def _hear(self) -> None:
        try:
            message = self._queue.get(timeout=_TICK)
        except queue.Empty:
            return
        while True:
            self._handle(message)
            try:
                message = self._queue.get_nowait()
            except queue.Empty:
                return

    def _handle(self, message: Message | Wrote | NotWritten | _Stop) -> None:
        if isinstance(message, Wrote):
            self._workers.landed()
            self._wrote(message)
        elif isinstance(message, NotWritten):
            self._workers.landed()
            self._not_written(message)
        elif isinstance(message, Seen):
            self._objects.hear(message)
            self._see(message)
        elif isinstance(message, Listed):
            self._list(message)
        elif isinstance(message, Hint):
            self._objects.hear(message)
        elif isinstance(message, Broken):
            version, kind, namespace = message.place
            self._lose(ObjectRef(version, kind, namespace, "(all)"), message.error)
        else:
            self._interrupted = True

    def _wrote(self, message: Wrote) -> None:
        step, written = message.step, message.written
        again = message.phase == "delete" and step.id in self._asked_again
        if again and self._waits.of(step) is None:
            return  # heard before the answer
        self._held_since.pop(step.id, None)
        if message.phase == "delete":
            if written.status == "deleting" and written.live is not None:
                self._going(step, written.live)
            else:
                self._gone(step)
            return
        self._half.discard(step.id)
        self._done.append(step)
        # What stays of a released object, and whose it is.
        self._say(step, written.status, ", ".join(step.reasons) if step.action == "release" else "")
        target = self._objects.made(step, written.live) if written.live is not None else None
        if target is not None and target.state != "good" and self._holds_up(step):
            self._waits.add(Waiting(step, "ready", target.key, target.uid, None))
            self._settle_all(target.key)
        else:
            self._finish(step)

    def _not_written(self, message: NotWritten) -> None:
        step, error = message.step, message.error
        again = message.phase == "delete" and step.id in self._asked_again
        if again and isinstance(error, ClusterError):
            return  # who may not delete it waits for somebody who may
        if isinstance(error, RefusedError):
            found = error.refusal
        elif isinstance(error, ClusterError):
            if may_pass(error):
                self._hold(step, message.phase, error.message)
                return
            found = refusal(step.ref, error)
        else:
            raise error
        self._break(step, "; ".join(found.reasons), found)

    def _hold(self, step: Step, phase: Phase, reason: str) -> None:
        """Tries again later: others may make room."""
        now = time.monotonic()
        said = self._held_by.get(step.id)
        self._held_by[step.id] = reason
        if now - self._held_since.setdefault(step.id, now) < _HELD:
            self._held.append((now + _HOLD, step, phase))
            if reason != said:
                self._say(step, "held", reason)
        else:
            self._break(step, reason)

    def _going(self, step: Step, live: Object) -> None:
        if self._objects.is_deleted(step.uid):
            self._gone(step)  # heard before the answer
            return
        grace = live["metadata"].get("deletionGracePeriodSeconds") or 0
        until = time.monotonic() + grace + _AFTER_GRACE
        if self._watch(step, live["metadata"].get("labels") or {}):
            task = Waiting(step, "gone", self._objects.key(step.ref), step.uid, until)
            task.why = deleting(live)
            self._waits.add(task)
            self._say(step, "deleting")

    def _gone(self, step: Step) -> None:
        self._waits.end(step)
        if step.action == "wait":
            self._finish(step)
            return
        self._say(step, "deleted")
        if step.action == "replace":
            self._half.add(step.id)
            self._workers.add(step, "create")
        else:
            self._done.append(step)
            self._finish(step)

    def _see(self, seen: Seen) -> None:
        for task in self._waits.on((*seen.place, seen.name)):
            task.why = seen.going or task.why
            if seen.observed is None or (task.uid is not None and seen.uid != task.uid):
                self._vanish(task)
            elif task.what == "gone" and seen.half_deleted:
                self._ask_again(task.step)
        self._settle_all((*seen.place, seen.name))

    def _ask_again(self, step: Step) -> None:
        """Finishes a deletion that somebody began: else the object would stay for ever."""
        if step.id not in self._asked_again:
            self._asked_again.add(step.id)
            self._workers.add(step, "delete")

    def _list(self, listed: Listed) -> None:
        for task in self._waits.in_place(listed.place):
            if listed.uids.get(task.key[3]) != task.uid and not self._is_there(task):
                self._vanish(task)

    def _is_there(self, task: Waiting) -> bool:
        """Whether an object that was not listed has only lost its labels."""
        if task.what == "ready":
            return True
        try:
            return self._objects.is_there(task.step.ref, task.uid)
        except ClusterError as error:
            self._lose(task.step.ref, error)
            return True

    def _vanish(self, task: Waiting) -> None:
        """The object that a step waits for is not there any more."""
        if task.what == "gone":
            self._gone(task.step)
        elif task.what == "drained":
            self._finish(task.step)

    def _settle_all(self, key: Key) -> None:
        """Ends the waits for an object that are over."""
        for task in self._waits.on(key):
            if task.what == "ready":
                target = self._objects.targets.get(key)
                if target is not None and (target.state == "good" or target.observed.good):
                    self._finish(task.step)
                elif target is not None and target.state == "failed":
                    self._break(task.step, f"{target.ref} is not ready: {target.why}")
            elif task.what == "drained":
                seen = self._objects.seen(key)
                if seen and seen.observed and seen.observed.state in ("ended", "failed"):
                    self._finish(task.step)

    def _look_at_the_clock(self, now: float) -> None:
        if self._stopping:
            self._stopped_at = self._stopped_at or now
            if now - self._stopped_at > _PATIENCE:
                self._cluster.close()  # requests that are refused again and again end now
            return
        try:
            self._objects.look_at_the_clock(now)
        except ClusterError as error:
            self._lose(ObjectRef("", "the cluster", "", ""), error)
        for task in self._waits.over(now):
            if task.what == "drained":
                self._finish(task.step)
            else:
                self._break(task.step, task.why or "still being deleted")
        due = [one for one in self._held if one[0] <= now]
        self._held = [one for one in self._held if one[0] > now]
        for _, step, phase in due:
            self._workers.add(step, phase)

    def _holds_up(self, step: Step) -> bool:
        """Whether steps that are still to come need this one's object to be ready."""
        if step.ref.kind in BARRIERS:
            return True
        return self._choices.wait != "none" and step.wave < self._later.get(step.job, step.wave)

    # ---- the end --------------------------------------------------------------------------------

    def _narrow(self) -> None:
        """Lets the inventories name what is there, of jobs all of whose steps are done."""
        if self._interrupted or self._fatal:
            return
        open_jobs = {step.job for step in self._left()}
        for job in dict.fromkeys(step.job for step in self._plan.steps):
            if job is None or job in open_jobs:
                continue
            try:
                self._sets.narrow(job, self._kept.get(job, ()))
            except ClusterError as error:
                self._refusals.append(refusal(self._sets.parent(job), error))

    def _left(self) -> list[Step]:
        return [
            step
            for step in self._plan.steps
            if step.action not in ("unchanged", "unmanaged") and step.id not in self._finished
        ]

    def _outcome(self) -> Outcome:
        stopped = self._stopped_at
        asks = not self._fatal and (stopped is None or time.monotonic() - stopped < _PATIENCE)
        return Outcome(
            done=tuple(self._done),
            deleted=tuple(step for step in self._left() if step.id in self._half),
            left=tuple((step, self._why_left(step)) for step in self._left()),
            unready=tuple(self._objects.unready(asks=asks)),
            refusals=tuple(self._refusals),
            interrupted=self._interrupted,
            timed_out=self._timed_out,
        )

    def _why_left(self, step: Step) -> str:
        if step.id in self._broken:
            return self._broken[step.id]
        task = self._waits.of(step)
        if self._interrupted:
            words = "interrupted"
        elif self._timed_out:
            words = "timed out"
        else:
            first = next(iter(self._broken.values()), "")
            words = f"not started, because an earlier step was not done: {first}"
        if step.id in self._half:
            words = f"deleted, but not recreated: {words}"
        seen = task.why if task is not None else ""
        seen = seen or self._held_by.get(step.id, "")
        return f"{words}: {seen}" if seen else words

    def _say(self, about: Step | Target, status: Status, reason: str = "") -> None:
        if isinstance(about, Step):
            ref, action, job = about.ref, about.action, about.job
        else:
            ref, action, job = about.ref, "wait", about.job
        self._tell(StepEvent(ref, action, status, reason, job, time.time()))


def _later(plan: Plan) -> dict[str | None, int]:
    """By job, the last wave in which anything is made."""
    found: dict[str | None, int] = {}
    for step in plan.steps:
        if step.action in MAKES:
            found[step.job] = max(found.get(step.job, step.wave), step.wave)
    shared = max(found.values(), default=0)
    return {job: shared if job is None else wave for job, wave in found.items()}
