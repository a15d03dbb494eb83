"""Take the steps of a plan from state to state: `Machine.advance` decides what happens next.

Every step is in one state of a few, each a value that says all there is to know of it:

    queued -> Writing -> done                    an object is made, and nothing needs it
                 |  ^
                 v  |
           Writing (again)                       a quota is full: tried again later
    Writing -> Waiting -> done                   it has to be ready, or has to be gone
    Waiting (gone) -> Writing (create) -> done   a replacement
    any of them -> Failed

The machine knows the order of the steps (`plan.schedule`) and what waits for what; `targets` knows
the objects. Answers and watches may report the same twice, in either order: a step whose state does
not wait for an event stays as it is.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from etcompile.k8s.path import mapping_at
from etcompile.plan.schedule import DRAIN, Schedule, drains
from etcompile.plan.step import IDLE, MAKES, Plan, Step
from etcompile.rollout.machine.messages import (
    OURS,
    Choices,
    Command,
    Event,
    Follow,
    Hint,
    Interrupted,
    Listed,
    Lost,
    NotWritten,
    Outcome,
    Phase,
    ProposedJob,
    Relist,
    RunEnded,
    Seen,
    Status,
    StepEvent,
    Tick,
    Write,
    Wrote,
)
from etcompile.rollout.machine.reasons import Key, ObjectState, deleting, is_barrier
from etcompile.rollout.machine.targets import Targets
from etcompile.rollout.refusals import Refusal, RefusedError, may_pass, refusal

_HOLD = 5.0
"""Seconds between attempts to make what is refused for now, by a quota."""
_HELD = 600.0
"""Seconds until a step gives up that is held, or that waits for an object to be gone."""
_GRACE = "terminationGracePeriodSeconds"
_LAST_RELIST = 2.0
"""Seconds before a wait ends in which all is listed again: a watch may have gone silent."""
_AFTER_GRACE = 60.0
"""Seconds that an object may take to go beyond its own grace."""


class Writing(Struct, frozen=True):
    """A write of it is under way, or the next one to begin.

    Args:
        since: When it was refused for the first time; None if it never was.
        again: When it is tried again; None while it is under way.
    """

    phase: Phase
    since: float | None = None
    reason: str = ""
    again: float | None = None


class Waiting(Struct):
    """The step waits for an observation.

    Args:
        uid: The one of that name that is meant; None for any.
        until: When waiting ends; None for never.
    """

    what: Literal["ready", "gone", "drained"]
    key: Key
    uid: str | None
    until: float | None
    why: str = ""


class Failed(Struct, frozen=True):
    """The step will not be done."""

    reason: str
    phase: Phase | None = None


StepState = Literal["queued", "done"] | Writing | Waiting | Failed


class Machine:
    """A plan while it is done; times are seconds of any one clock.

    Args:
        ahead: How much the API server's clock, in seconds since 1970, is ahead of that one.
    """

    def __init__(
        self,
        plan: Plan,
        choices: Choices,
        namespace: str,
        jobs: Mapping[str, ProposedJob] = MappingProxyType({}),
        states: Mapping[Key, ObjectState] = MappingProxyType({}),
        *,
        ahead: float = 0.0,
    ) -> None:
        self._plan = plan
        self._ahead = ahead
        self._choices = choices
        self._turns = Schedule(plan.steps)
        self._states: dict[str, StepState] = {
            step.id: "queued" for step in plan.steps if step.action not in IDLE
        }
        self._written: list[Step] = []
        self._refusals: list[Refusal] = []
        self._interrupted = self._timed_out = self._fatal = self._changed = False
        self._end: float | None = None
        self._relisted: set[object] = set()
        self._last_relist = -_LAST_RELIST
        # By job, the last wave in which something is made; for objects of no job, that of all jobs.
        self._later: dict[str | None, int] = {}
        for step in plan.steps:
            if step.action in MAKES:
                self._later[step.job] = max(self._later.get(step.job, step.wave), step.wave)
        if None in self._later:
            self._later[None] = max(self._later.values())
        # Both follow from the states: the steps under way, and those that wait for an object.
        self._active: dict[str, Step] = {}
        self._waiting: dict[Key, dict[str, Step]] = defaultdict(dict)
        self._commands: list[Command] = []
        self._now = 0.0
        self._targets = Targets(
            plan,
            choices,
            namespace,
            jobs,
            states,
            changed=lambda target: self._settle(target.key),
            command=self._commands.append,
        )

    def begin(self, now: float) -> list[Command]:
        self._now = now
        self._end = None if self._choices.timeout is None else now + self._choices.timeout
        self._targets.resume(now)
        return self._commands_so_far()

    def advance(self, event: Event, now: float) -> list[Command]:
        self._now = now
        match event:
            case Wrote():
                self._wrote(event)
            case NotWritten():
                self._not_written(event)
            case Seen(place, name, uid, observed, going):
                self._targets.see(event, now)
                key = (*place, name)
                for step, state in self._waits_for(key):
                    state.why = going or state.why
                    if observed is None or (state.uid is not None and uid != state.uid):
                        if state.what == "gone":
                            self._gone(step)
                        elif state.what == "drained":
                            self._finish(step)
                self._settle(key)
            case Listed(place, uids):
                for key in [key for key in self._waiting if key[:3] == place]:
                    for step, state in self._waits_for(key):
                        if state.what == "gone" and uids.get(key[3]) != state.uid:
                            self._gone(step)
            case Hint():
                self._targets.hint(event, now)
            case RunEnded():
                self._targets.end(event)
            case Lost(ref, error, None):
                # Nobody can say any more what happens: nothing new begins.
                self._refusals.append(refusal(ref, error))
                self._fatal = True
            case Lost(ref, error, step):
                if isinstance(self._states[step.id], Waiting):
                    self._refuse(step, refusal(ref, error))
            case Interrupted():
                self._interrupted = True
            case Tick():
                self._tick()
        return self._commands_so_far()

    @property
    def stopping(self) -> bool:
        """Whether nothing more begins: what is under way ends, and that is all."""
        return self._interrupted or self._timed_out or self._fatal

    @property
    def is_written(self) -> bool:
        return not self._active

    @property
    def settled(self) -> bool:
        if self._active:
            return False
        # A refusal decides: it must not be reported ten minutes later.
        return bool(self._refusals) or not self._targets.waiting

    def state(self, step: Step) -> StepState:
        return self._states.get(step.id, "done")

    # ---- the end --------------------------------------------------------------------------------

    @property
    def is_broken_off(self) -> bool:
        return self._interrupted or self._fatal

    def left(self) -> list[Step]:
        return [step for step in self._plan.steps if self.state(step) != "done"]

    def outcome(self, refused: Sequence[Refusal] = ()) -> Outcome:
        reasons = (state.reason for state in self._states.values() if isinstance(state, Failed))
        words = "interrupted" if self._interrupted else "timed out" if self._timed_out else ""
        if not words:
            words = f"not started, because an earlier step was not done: {next(reasons, '')}"
        deleted: list[Step] = []
        left: list[tuple[Step, str]] = []
        for step in self.left():
            why = words
            match self.state(step):
                case Writing(phase="create") | Failed(phase="create") if step.action == "replace":
                    deleted.append(step)
                    why = f"deleted, but not recreated: {words}"
            match self.state(step):
                case Failed(reason):
                    why = reason
                case Waiting(why=seen) | Writing(reason=seen) if seen:
                    why = f"{why}: {seen}"
            left.append((step, why))
        return Outcome(
            done=tuple(self._written),
            deleted=tuple(deleted),
            left=tuple(left),
            unready=tuple(self._targets.unready()),
            refusals=(*self._refusals, *refused),
            interrupted=self._interrupted,
            timed_out=self._timed_out,
            changed=self._changed,
        )

    # ---- steps ----------------------------------------------------------------------------------

    def _commands_so_far(self) -> list[Command]:
        if not self.stopping:
            for step in self._turns.ready():
                if step.action == "wait":
                    self._wait(step)
                elif step.action in ("delete", "replace"):
                    self._write(step, Writing("delete"))
                else:
                    self._write(step, Writing("create" if step.action == "create" else "update"))
        commands, self._commands[:] = self._commands[:], ()
        return commands

    def _enter(self, step: Step, state: StepState) -> None:
        before = self._states[step.id]
        if isinstance(before, Waiting):
            del self._waiting[before.key][step.id]
        if isinstance(state, Waiting):
            self._waiting[state.key][step.id] = step
        if isinstance(state, Writing | Waiting):
            self._active[step.id] = step
        else:
            self._active.pop(step.id, None)
        self._states[step.id] = state

    def _write(self, step: Step, state: Writing) -> None:
        self._enter(step, state)
        self._commands.append(Write(step, state.phase))

    def _wait(self, step: Step) -> None:
        key, reasons = self._targets.key(step.ref), step.reasons
        if step.until == "drained":
            limit = self._choices.drain
            if limit is None:
                limit = float(DRAIN if step.limit is None else step.limit)
            else:
                reasons = (drains(limit, step.since),)
            begun = self._now if step.since is None else step.since - self._ahead
            state = Waiting("drained", key, step.uid, begun + limit)
        elif step.until == "gone":
            state = Waiting("gone", key, step.uid, self._now + (step.limit or _HELD))
        else:
            state = Waiting("ready", key, None, None)
        self._enter(step, state)
        self._commands.append(Follow(step.ref, step, None if state.what == "gone" else OURS))
        self._say(step, "waiting", ", ".join(reasons))
        if state.what == "ready":
            self._targets.wait_for(step, self._now)
        self._settle(key)

    def _finish(self, step: Step) -> None:
        self._enter(step, "done")
        self._turns.done(step)

    def _fail(self, step: Step, reason: str) -> None:
        state = self._states[step.id]
        self._enter(step, Failed(reason, getattr(state, "phase", None)))
        self._say(step, "failed", reason)

    def _refuse(self, step: Step, refused: Refusal) -> None:
        self._refusals.append(refused)
        self._fatal = self._fatal or refused.fatal
        self._fail(step, "; ".join(refused.reasons))

    # ---- events ---------------------------------------------------------------------------------

    def _wrote(self, event: Wrote) -> None:
        step, written = event.step, event.written
        self._changed = True
        if event.phase == "delete":
            if written.status != "deleting" or written.live is None:
                self._gone(step)
            elif step.uid in self._targets.deleted:
                self._gone(step)  # seen before the answer
            else:
                metadata = written.live["metadata"]
                pod = mapping_at(written.live, ("spec", "template", "spec"))
                grace = metadata.get("deletionGracePeriodSeconds") or pod.get(_GRACE) or 0
                key, until = self._targets.key(step.ref), self._now + grace + _AFTER_GRACE
                self._enter(step, Waiting("gone", key, step.uid, until, deleting(written.live)))
                self._commands.append(Follow(step.ref, step, metadata.get("labels") or ()))
                self._say(step, "deleting")
            return
        self._written.append(step)
        # What stays of a released object, and whose it is.
        self._say(step, written.status, ", ".join(step.reasons) if step.action == "release" else "")
        target = (
            self._targets.add(step, written.live, self._now) if written.live is not None else None
        )
        # Whether steps that are still to come need this one's object to be ready.
        holds_up = is_barrier(step.ref.kind) or (
            self._choices.wait != "none" and step.wave < self._later.get(step.job, step.wave)
        )
        if target is not None and target.state != "good" and holds_up:
            self._enter(step, Waiting("ready", target.key, target.uid, None))
            self._settle(target.key)
        else:
            self._finish(step)

    def _gone(self, step: Step) -> None:
        if step.action == "wait":
            self._finish(step)
            return
        self._say(step, "deleted")
        if step.action == "replace":
            self._write(step, Writing("create"))
        else:
            self._written.append(step)
            self._finish(step)

    def _not_written(self, event: NotWritten) -> None:
        step, error, state = event.step, event.error, self._states[event.step.id]
        if isinstance(error, RefusedError):
            self._refuse(step, error.refusal)
        elif not may_pass(error):
            self._refuse(step, refusal(step.ref, error))
        else:
            # It is tried again later: others may free quota.
            since, said = self._now, ""
            if isinstance(state, Writing) and state.since is not None:
                since, said = state.since, state.reason
            # Without a wait for Pods, do not wait for others to make room either.
            is_over = self._choices.wait == "none" and error.over_quota and step.action == "create"
            if is_over or self._now - since >= _HELD:
                self._fail(step, error.message)
                return
            self._enter(step, Writing(event.phase, since, error.message, self._now + _HOLD))
            if error.message != said:
                self._say(step, "held", error.message)

    def _settle(self, key: Key) -> None:
        for step, state in self._waits_for(key):
            if state.what == "ready":
                target = self._targets.get(key)
                if target is None:
                    continue
                if target.state == "good" or target.observed.good:
                    self._finish(step)
                elif target.state == "failed":
                    self._fail(step, f"{target.ref} is not ready: {target.why}")
            elif state.what == "drained":
                seen = self._targets.observed.get(key)
                if seen and seen.observed and seen.observed.state in ("ended", "failed"):
                    self._finish(step)

    def _tick(self) -> None:
        soon = self._now + _LAST_RELIST
        due: set[object] = {"the end"} if self._end is not None and soon >= self._end else set()
        due |= self._targets.due(soon)
        for name in self._active:
            match self._states[name]:
                case Waiting("gone", until=float(until)) if soon >= until:
                    due.add(name)
        if due - self._relisted and self._now - self._last_relist >= _LAST_RELIST:
            self._last_relist = self._now
            self._commands.append(Relist())
        self._relisted |= due
        if self._end is not None and self._now >= self._end and not self.stopping:
            self._timed_out = True
        if self.stopping:
            return
        self._targets.tick(self._now)
        for step in [*self._active.values()]:
            match self._states[step.id]:
                case Waiting("drained", until=float(until)) if self._now >= until:
                    self._finish(step)
                case Waiting(until=float(until), why=why) if self._now >= until:
                    self._fail(step, why or "still being deleted")
                case Writing(phase, since, reason, float(again)) if self._now >= again:
                    self._write(step, Writing(phase, since, reason))

    def _waits_for(self, key: Key) -> Iterator[tuple[Step, Waiting]]:
        for step in [*self._waiting.get(key, {}).values()]:
            if isinstance(state := self._states[step.id], Waiting):
                yield step, state

    def _say(self, step: Step, status: Status, reason: str = "") -> None:
        self._commands.append(StepEvent(step.ref, step.action, status, reason, step.job))
