"""A plan, step by step, until it is done or cannot go on: the loop that strings the parts together.

One thread decides and hears from all others through one queue: threads that write, watches, and
whoever interrupts. So what happens next depends on what was heard and on nothing else. Nothing is
remembered between runs: the plan of the next run is made from what is there.
"""

import queue
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from msgspec import Struct

from etcompile.cluster.client import Cluster
from etcompile.cluster.errors import ClusterError
from etcompile.cluster.rollout.inventory import Inventories, members_left
from etcompile.cluster.rollout.outcome import (
    Happening,
    Outcome,
    Refusal,
    RefusedError,
    Status,
    Unready,
)
from etcompile.cluster.rollout.reasons import BARRIERS, READY, Standing, has_rule, standing
from etcompile.cluster.rollout.refusing import over_quota, refusal
from etcompile.cluster.rollout.targets import Key, Target, Targets
from etcompile.cluster.rollout.watching import Broken, Hint, Listed, Message, Place, Seen, Watches
from etcompile.cluster.rollout.writing import Writer, Written
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan.ordering import DRAIN
from etcompile.plan.step import ObjectRef, Plan, Step
from etcompile.plan.turns import Turns

Wait = Literal["ready", "complete", "none"]
_TICK = 0.25
_HOLD = 5.0
"""Seconds between attempts to make what a quota refuses."""
_HELD = 600.0
_AFTER_GRACE = 60.0
_PATIENCE = 10.0
"""Seconds that requests under way may take once the rollout is stopped."""
_ASKED = 20
"""So many objects that are not ready are asked for their last event, at the end."""
_MAKING = frozenset({"create", "update", "adopt", "replace"})


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


class _Wrote(Struct, frozen=True):
    step: Step
    phase: str
    written: Written


class _Failed(Struct, frozen=True):
    step: Step
    phase: str
    error: BaseException


class _Stop(Struct, frozen=True):
    pass


class _Waiting(Struct):
    """A step that waits for something to be seen."""

    step: Step
    what: Literal["ready", "gone", "drained"]
    key: Key
    uid: str | None
    until: float | None
    why: str = ""


class Rollout:
    """Does a plan, once.

    Args:
        cluster: The cluster.
        plan: The plan, without refusals and without a ring.
        writer: Does single steps.
        sets: The ApplySets of its jobs.
        choices: How.
        tell: Is told of each change of state, from the thread that calls `run`.
        seen: How far objects were when the plan was made, by `ObjectRef.key`.
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
        tell: Callable[[Happening], None],
        seen: Mapping[Key, Standing] | None = None,
        deciding: Mapping[str, tuple[tuple[str, ...], ...]] | None = None,
        kept: Mapping[str, Sequence[ObjectRef]] | None = None,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._writer = writer
        self._sets = sets
        self._choices = choices
        self._tell = tell
        self._seen = seen or {}
        self._kept = members_left(plan) if kept is None else kept
        self._queue: queue.SimpleQueue[Message | _Wrote | _Failed | _Stop] = queue.SimpleQueue()
        self._turns = Turns(plan.steps)
        self._targets = Targets((deciding or {}) if choices.wait == "complete" else {})
        self._watches = Watches(cluster, self._queue.put, self._selector)
        self._pool = ThreadPoolExecutor(choices.concurrency, "etcompile-write")
        self._backlog: deque[tuple[Step, str]] = deque()
        self._held: list[tuple[float, Step, str]] = []
        self._held_since: dict[str, float] = {}
        self._flying = 0
        self._waiting: dict[str, _Waiting] = {}
        self._waiting_for: dict[Key, dict[str, _Waiting]] = defaultdict(dict)
        self._observed: dict[Key, Seen] = {}
        self._uids: dict[Key, str] = {}
        self._deleted: set[str | None] = set()
        self._done: list[Step] = []
        self._finished: set[str] = set()
        self._broken: dict[str, str] = {}
        self._refusals: list[Refusal] = []
        self._interrupted = self._timed_out = self._fatal = False
        self._stopped_at: float | None = None
        self._later = _later(plan)
        self._dependents = _dependents(plan)
        self._bare = {self._place(ref) for ref in _unlabelled(plan)}

    def interrupt(self) -> None:
        """Ends the rollout after the requests under way; may be called from a signal handler."""
        self._queue.put(_Stop())

    def run(self) -> Outcome:
        """Does the plan.

        Returns:
            What came of it; nothing raises but a mistake of ours.
        """
        began = time.monotonic()
        end = None if self._choices.timeout is None else began + self._choices.timeout
        try:
            self._watch_standing(began)
            while True:
                if not self._stopping:
                    for step in self._turns.ready():
                        self._start(step)
                    self._pump()
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
            self._watches.close()
            self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def _stopping(self) -> bool:
        return self._interrupted or self._timed_out or self._fatal

    def _over(self) -> bool:
        if self._flying:
            return False
        if self._stopping:
            return True
        if self._backlog or self._held or self._waiting:
            return False
        # What was refused decides: nobody waits ten minutes to hear of it.
        return bool(self._refusals) or not self._targets.waiting

    # ---- steps ----------------------------------------------------------------------------------

    def _start(self, step: Step) -> None:
        if step.action == "wait":
            self._wait(step)
        elif step.action in ("delete", "replace"):
            self._backlog.append((step, "delete"))
        else:
            self._backlog.append((step, step.action))

    def _pump(self) -> None:
        while self._backlog and self._flying < self._choices.concurrency:
            step, phase = self._backlog.popleft()
            self._flying += 1
            self._pool.submit(self._work, step, phase)

    def _work(self, step: Step, phase: str) -> None:
        """Writes; runs in a thread of the pool."""
        try:
            if step.ref.kind != "Namespace":
                self._sets.widen(step.job)
            if phase == "delete":
                written = self._writer.delete(step.ref, step.uid)
            elif phase == "create":
                written = self._writer.create(step)
            else:
                written = self._writer.update(step)
        except BaseException as error:
            self._queue.put(_Failed(step, phase, error))
        else:
            self._queue.put(_Wrote(step, phase, written))

    def _wait(self, step: Step) -> None:
        now = time.monotonic()
        key = self._key(step.ref)
        if step.until == "drained":
            limit = self._choices.drain
            limit = float(step.limit or DRAIN) if limit is None else limit
            task = _Waiting(step, "drained", key, step.uid, now + limit)
        elif step.until == "gone":
            task = _Waiting(step, "gone", key, step.uid, now + (step.limit or _HELD))
        else:
            task = _Waiting(step, "ready", key, None, None)
            target = self._target(step, now)
            seen = self._observed.get(key)
            if seen is not None and seen.standing is not None and target.uid in (None, seen.uid):
                target.uid = seen.uid
                self._look(target, seen.standing)
        if not self._watch(step, step.ref):
            return
        self._await(task)
        words = ", ".join(step.reasons)
        self._say(step, "waiting", words)
        self._settle(task)

    def _await(self, task: _Waiting) -> None:
        self._waiting[task.step.id] = task
        self._waiting_for[task.key][task.step.id] = task

    def _no_longer(self, step: Step) -> None:
        if (task := self._waiting.pop(step.id, None)) is not None:
            del self._waiting_for[task.key][step.id]

    def _finish(self, step: Step) -> None:
        self._no_longer(step)
        self._finished.add(step.id)
        self._turns.done(step)

    def _break(self, step: Step, reason: str, found: Refusal | None = None) -> None:
        """A step that is not going to be done."""
        self._no_longer(step)
        self._broken[step.id] = reason
        if found is not None:
            self._refusals.append(found)
            self._fatal = self._fatal or found.fatal
        self._say(step, "failed", reason)

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

    def _handle(self, message: Message | _Wrote | _Failed | _Stop) -> None:
        if isinstance(message, _Wrote):
            self._flying -= 1
            self._wrote(message)
        elif isinstance(message, _Failed):
            self._flying -= 1
            self._not_written(message)
        elif isinstance(message, Seen):
            self._see(message)
        elif isinstance(message, Listed):
            self._list(message)
        elif isinstance(message, Hint):
            self._hint(message)
        elif isinstance(message, Broken):
            ref = ObjectRef(message.place[0], message.place[1], message.place[2], "")
            found = refusal(ref, message.error)
            self._refusals.append(found)
            self._fatal = True
        else:
            self._interrupted = True

    def _wrote(self, message: _Wrote) -> None:
        step, written = message.step, message.written
        if message.phase == "delete":
            if written.status == "deleting" and written.live is not None:
                self._going(step, written)
            else:
                self._gone(step)
            return
        self._done.append(step)
        self._say(step, written.status)
        live = written.live
        if live is not None:
            self._uids[self._key(step.ref)] = live["metadata"].get("uid") or ""
        self._held_since.pop(step.id, None)
        if live is not None and self._must_be_ready(step):
            target = self._target(step, time.monotonic())
            target.uid = live["metadata"].get("uid")
            seen = self._observed.get(target.key)
            if seen is not None and seen.standing is not None and seen.uid == target.uid:
                self._look(target, seen.standing)  # heard before the answer, and so newer
            elif target.uid in self._deleted:
                self._look(target, Standing("failed", "somebody has deleted it"))
            else:
                self._look(target, standing(live))
            if self._holds_up(step) and target.state != "good":
                self._await(_Waiting(step, "ready", target.key, target.uid, None))
                return
        self._finish(step)

    def _not_written(self, message: _Failed) -> None:
        step, error = message.step, message.error
        if isinstance(error, RefusedError):
            found = error.refusal
        elif isinstance(error, ClusterError):
            now = time.monotonic()
            if over_quota(error) and now - self._held_since.setdefault(step.id, now) < _HELD:
                self._held.append((now + _HOLD, step, message.phase))
                self._say(step, "held", error.message)
                return
            if over_quota(error):
                self._break(step, error.message)
                return
            found = refusal(step.ref, error)
        else:
            raise error
        self._break(step, "; ".join(found.reasons), found)

    def _going(self, step: Step, written: Written) -> None:
        metadata = (written.live or {}).get("metadata") or {}
        grace = metadata.get("deletionGracePeriodSeconds") or 0
        until = time.monotonic() + grace + _AFTER_GRACE
        if self._watch(step, step.ref):
            key = self._key(step.ref)
            self._await(_Waiting(step, "gone", key, step.uid, until))
            self._say(step, "deleting")

    def _gone(self, step: Step) -> None:
        self._no_longer(step)
        if step.action == "wait":
            self._finish(step)
            return
        self._say(step, "deleted")
        if step.action == "replace":
            self._backlog.append((step, "create"))
        else:
            self._done.append(step)
            self._finish(step)

    def _see(self, seen: Seen) -> None:
        key: Key = (*seen.place, seen.name)
        if seen.standing is None:
            self._deleted.add(seen.uid)
            if key in self._observed and self._observed[key].uid == seen.uid:
                del self._observed[key]
        else:
            self._observed[key] = seen
        target = self._targets.get(key)
        if target is not None:
            if seen.standing is None:
                if target.uid == seen.uid and target.state != "failed":
                    self._look(target, Standing("failed", "somebody has deleted it"))
            elif target.uid in (None, seen.uid):
                target.uid = target.uid or seen.uid
                self._look(target, seen.standing)
        for task in [*self._waiting_for.get(key, {}).values()]:
            if task.what == "gone" and (seen.standing is None or seen.uid != task.uid):
                self._gone(task.step)
            elif task.what == "drained" and seen.standing is None:
                self._finish(task.step)
            else:
                task.why = seen.going or task.why
                self._settle(task)

    def _list(self, listed: Listed) -> None:
        for task in [*self._waiting.values()]:
            if task.key[:3] != listed.place:
                continue
            if task.what == "gone" and listed.uids.get(task.key[3]) != task.uid:
                self._gone(task.step)
            elif task.what == "drained" and listed.uids.get(task.key[3]) != task.uid:
                self._finish(task.step)

    def _hint(self, hint: Hint) -> None:
        for version in ("v1", "batch/v1"):
            target = self._targets.get((version, hint.kind, hint.namespace, hint.name))
            if target is None:
                continue
            if not hint.unbound:
                target.hint = hint.text
            elif hint.kind == "PersistentVolumeClaim":
                self._look(target, READY)

    # ---- readiness ------------------------------------------------------------------------------

    def _watch_standing(self, now: float) -> None:
        """Makes the unchanged objects targets: an earlier run may have ended before they were."""
        for step in self._plan.steps:
            if step.action == "unchanged" and self._must_be_ready(step):
                target = self._target(step, now)
                target.uid = step.uid
                found = self._seen.get(self._key(step.ref))
                if found is not None:
                    target.see(found, now)
                    target.said = ""
                if target.state == "waiting" and not self._watch(step, step.ref):
                    return
        for _ in self._targets.settled_runs():
            continue

    def _must_be_ready(self, step: Step) -> bool:
        if not has_rule(step.ref.kind):
            return False
        return self._choices.wait != "none" or step.ref.kind in BARRIERS

    def _holds_up(self, step: Step) -> bool:
        """Whether steps that are still to come need this one's object to be ready."""
        if step.ref.kind in BARRIERS:
            return True
        return self._choices.wait != "none" and step.wave < self._later.get(step.job, step.wave)

    def _target(self, step: Step, now: float) -> Target:
        key = self._key(step.ref)
        target = self._targets.add(
            step.ref, key, step.job, step.id, now, decides=self._choices.wait == "complete"
        )
        if target.uid is None:
            target.uid = self._uids.get(key)
        return target

    def _look(self, target: Target, found: Standing) -> None:
        now = time.monotonic()
        if self._targets.is_over(target.job) and target.ref.kind in ("Pod", "Job"):
            return
        if target.see(found, now):
            self._turned(target)
        if target.state == "waiting":
            self._watch(None, target.ref)
            if target.standing.vague and now - target.since > 1.0:
                self._watches.need_events(target.key[2])
        for task in [*self._waiting_for.get(target.key, {}).values()]:
            self._settle(task)

    def _turned(self, target: Target) -> None:
        if target.state == "good":
            status: Status = "succeeded" if target.standing.state == "ended" else "ready"
            self._say(target, status)
        elif target.state == "failed":
            self._say(target, "failed", target.why)
            self._hold_up_others(target)
        for _ in self._targets.settled_runs():
            continue  # what it settles is told at the end

    def _hold_up_others(self, failed: Target) -> None:
        """What was to come after an object that failed is not going to be ready either."""
        for id_ in self._dependents.get(failed.step, ()):
            one = self._targets.of_step(id_)
            if one is not None and one.state == "waiting":
                one.state = "failed"
                one.reason = f"it waits for {failed.ref.kind} {failed.ref.name}, which failed"
                self._say(one, "failed", one.reason)
                self._hold_up_others(one)

    def _settle(self, task: _Waiting) -> None:
        """Ends a wait that is over."""
        if task.what == "ready":
            target = self._targets.get(task.key)
            if target is None:
                return
            if target.state == "good" or target.standing.good:
                self._finish(task.step)
            elif target.state == "failed":
                self._break(task.step, f"{target.ref} is not ready: {target.why}")
        elif task.what == "drained":
            seen = self._observed.get(task.key)
            if seen is not None and seen.standing is not None:
                ended = seen.standing.state in ("ended", "failed")
                if seen.uid != task.uid or ended:
                    self._finish(task.step)

    def _look_at_the_clock(self, now: float) -> None:
        if self._stopping:
            self._stopped_at = self._stopped_at or now
            if now - self._stopped_at > _PATIENCE:
                self._cluster.close()  # requests that are refused again and again end now
            return
        for target in self._targets:
            if (words := target.over_limit(now)) is not None:
                self._look(target, Standing("failed", words))
        for target in self._targets.unspoken(now):
            self._say(target, "waiting", target.why)
            if target.standing.vague:
                self._watches.need_events(target.key[2])
        for task in [*self._waiting.values()]:
            if task.until is None or now < task.until:
                continue
            if task.what == "drained":
                self._finish(task.step)
            else:
                self._break(task.step, task.why or "it is still there, and still being deleted")
        due = [one for one in self._held if one[0] <= now]
        self._held = [one for one in self._held if one[0] > now]
        self._backlog.extend((step, phase) for _, step, phase in due)

    def _watch(self, step: Step | None, ref: ObjectRef) -> bool:
        """Has an object followed; whether that can be done."""
        try:
            self._watches.need(ref)
        except ClusterError as error:
            found = refusal(ref, error)
            if step is not None:
                self._break(step, "; ".join(found.reasons), found)
            else:
                self._refusals.append(found)
            return False
        return True

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
        first = next(iter(self._broken.values()), "")
        default = (
            "interrupted"
            if self._interrupted
            else "the time is over"
            if self._timed_out
            else f"it comes after something that was not done: {first}"
        )
        left = []
        for step in self._left():
            task = self._waiting.get(step.id)
            words = self._broken.get(step.id) or (task.why if task and task.why else default)
            left.append((step, words))
        unready = [one for one in self._targets if one.state != "good"]
        return Outcome(
            done=tuple(self._done),
            left=tuple(left),
            unready=tuple(
                Unready(
                    one.ref,
                    self._last_word(one, asks=number < _ASKED),
                    one.state == "failed",
                    one.job,
                )
                for number, one in enumerate(unready)
            ),
            refusals=tuple(self._refusals),
            interrupted=self._interrupted,
            timed_out=self._timed_out,
        )

    def _last_word(self, target: Target, *, asks: bool) -> str:
        """Why an object is not ready: its own reason, or what its last warning says."""
        words = target.why or "nothing is known of it"
        if not (asks and target.standing.vague and not target.hint) or self._fatal:
            return words
        named = {"name": target.ref.name, "namespace": target.key[2], "uid": target.uid}
        try:
            events = self._cluster.events({"kind": target.ref.kind, "metadata": named})
        except ClusterError:
            return words
        told = [one for one in events if one.get("type") == "Warning"]
        return f"{words}; {told[-1].get('message')}" if told else words

    # ---- small things ---------------------------------------------------------------------------

    def _key(self, ref: ObjectRef) -> Key:
        # Only of kinds that live in namespaces anything is waited for by name and namespace;
        # those that have none are watched without one.
        return (*self._place(ref), ref.name)

    def _place(self, ref: ObjectRef) -> Place:
        if ref.kind in ("CustomResourceDefinition", "Namespace"):
            return ref.api_version, ref.kind, ""
        return ref.api_version, ref.kind, ref.namespace or self._cluster.namespace

    def _selector(self, place: Place) -> str:
        return "" if place in self._bare else JOB_LABEL

    def _say(self, about: Step | Target, status: Status, reason: str = "") -> None:
        if isinstance(about, Step):
            ref, action, job = about.ref, about.action, about.job
        else:
            ref, action, job = about.ref, "wait", about.job
        self._tell(Happening(ref, action, status, reason, job, time.time()))


def _later(plan: Plan) -> dict[str | None, int]:
    """By job, the last wave in which anything is made."""
    found: dict[str | None, int] = {}
    for step in plan.steps:
        if step.action in _MAKING:
            found[step.job] = max(found.get(step.job, step.wave), step.wave)
    shared = max(found.values(), default=0)
    return {job: shared if job is None else wave for job, wave in found.items()}


def _dependents(plan: Plan) -> dict[str, list[str]]:
    """By step, the steps that make something which comes after it."""
    found: dict[str, list[str]] = defaultdict(list)
    for step in plan.steps:
        if step.action in _MAKING:
            for before in step.after:
                found[before].append(step.id)
    return found


def _unlabelled(plan: Plan) -> Iterator[ObjectRef]:
    """Objects that do not say which job they belong to, so that no label finds them."""
    for step in plan.steps:
        labels = (step.manifest or {}).get("metadata", {}).get("labels") or {}
        if step.job is None or (step.manifest is not None and JOB_LABEL not in labels):
            yield step.ref
