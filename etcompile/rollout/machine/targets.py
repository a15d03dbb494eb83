"""One object that a rollout waits for: how far it is, what it waits for, and for how long it may.

Nothing here knows of steps or of other objects, but for the run of a job, which ends as the
objects do that decide it. `readiness` hears what is seen and tells each object.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Literal

from etcompile.plan.step import ObjectRef
from etcompile.rollout.machine.reasons import LIMITS, ObjectState

Key = tuple[str, str, str, str]
"""API version, kind, namespace and name."""
Goal = Literal["ready", "ended"]

_CALM = 60.0
"""Seconds without trouble after which earlier trouble is forgotten: a container that crashes
again and again runs in between."""
_LASTING = 1.0
"""Seconds that a reason must last to be told: most pass by themselves."""
WORKLOADS = frozenset({"Job", "Pod"})


class Target:
    """One object.

    Attributes:
        step: The id of its step.
        uid: Its UID; None until it is known.
        goal: Whether to be ready is enough.
        state: `waiting`, `good` or `failed`.
        observed: How far it is.
        reason: What it waits for, or why it failed.
    """

    __slots__ = (
        "began", "goal", "hint", "job", "key", "observed", "reason", "ref", "said", "since",
        "state", "step", "trouble", "troubled", "uid",
    )  # fmt: skip

    def __init__(
        self, ref: ObjectRef, key: Key, job: str | None, step: str, goal: Goal, now: float
    ) -> None:
        self.ref, self.key, self.job, self.step, self.goal = ref, key, job, step, goal
        self.uid: str | None = None
        self.state: Literal["waiting", "good", "failed"] = "waiting"
        self.observed = ObjectState("waiting")
        self.reason = self.hint = self.said = ""
        self.began = self.since = now
        self.trouble: float | None = None
        self.troubled = now

    def see(self, found: ObjectState, now: float) -> bool:
        """Takes note of how far the object is; whether that settles or unsettles it."""
        before = self.state
        if found.timeout == math.inf:
            self.began = now  # its limit does not run while it waits for room
        if found.timeout is not None and found.timeout != math.inf:
            self.trouble = now if self.trouble is None else self.trouble
            self.troubled = now
        elif found.good or now - self.troubled > _CALM:
            self.trouble = None
        if (found.reason, found.good) != (self.reason, self.observed.good):
            self.reason, self.since = found.reason, now
        self.observed = found
        if found.state == "failed":
            self.state = "failed"
        elif found.state == "ended" or (found.good and self.goal == "ready"):
            self.state = "good"
        else:
            self.state = "waiting"
        return self.state != before

    @property
    def is_running(self) -> bool:
        """Whether it works and has not completed yet, where its completion is awaited."""
        return self.state == "waiting" and self.observed.good

    @property
    def why(self) -> str:
        """What it waits for, with what an event said if the object itself does not know."""
        if self.observed.vague and self.hint:
            return self.hint
        return "running" if self.is_running else self.reason

    def over_limit(self, now: float) -> str | None:
        """Why it has waited long enough; None if it has not."""
        if self.state != "waiting" or self.observed.good:
            return None
        timeout = self.observed.timeout
        if timeout == math.inf:
            return None
        if self.trouble is not None and timeout is not None and now - self.trouble >= timeout:
            return f"{self.why} (for {timeout:.0f} s)"
        limit = LIMITS.get(self.ref.kind)
        if limit is not None and now - self.began >= limit:
            return f"{self.why} (for {limit:.0f} s)"
        return None


class Targets:
    """All objects that must become ready.

    Args:
        deciding: By job, sets of names of which all in one must end for the run to succeed; none
            where to be ready is enough.
    """

    def __init__(self, deciding: Mapping[str, tuple[tuple[str, ...], ...]]) -> None:
        self._deciding = deciding
        self._found: dict[Key, Target] = {}
        self._of_step: dict[str, Target] = {}
        self._over: set[str] = set()

    def get(self, key: Key) -> Target | None:
        """The target of an object, if it is one."""
        return self._found.get(key)

    def __iter__(self) -> Iterator[Target]:
        return iter([*self._found.values()])

    def add(
        self, ref: ObjectRef, key: Key, job: str | None, step: str, now: float, *, decides: bool
    ) -> Target:
        """Makes an object a target.

        Args:
            ref: The object.
            key: The same as what watches tell of it.
            job: The title of the job that it belongs to; None if it is of none.
            step: The id of its step.
            now: Seconds of the clock that all times here are of.
            decides: Whether the run's success may hang on it; else it needs to be ready only.
        """
        if (found := self._found.get(key)) is None:
            names = {name for group in self._deciding.get(job or "", ()) for name in group}
            ends = decides and ref.kind in WORKLOADS and ref.name in names
            goal: Goal = "ended" if ends else "ready"
            found = self._found[key] = Target(ref, key, job, step, goal, now)
            self._of_step[step] = found
        return found

    def of_step(self, step: str) -> Target | None:
        """The target that a step makes, if it makes one."""
        return self._of_step.get(step)

    @property
    def waiting(self) -> bool:
        """Whether anything is still to come."""
        return any(target.state == "waiting" for target in self._found.values())

    def settled_runs(self) -> Iterator[tuple[str, bool]]:
        """Jobs whose run is over since the last look, each with whether it has succeeded.

        All their other Pods count as good then, or as failed.
        """
        for job, groups in self._deciding.items():
            if job in self._over or not groups:
                continue
            mine = [target for target in self._found.values() if target.job == job]
            states = {target.ref.name: target.state for target in mine if target.goal == "ended"}
            success = any(all(states.get(name) == "good" for name in group) for group in groups)
            failure = all(any(states.get(name) == "failed" for name in group) for group in groups)
            if not success and not failure:
                continue
            self._over.add(job)
            for target in mine:
                if target.ref.kind in WORKLOADS and (success or target.state == "waiting"):
                    target.state = "good" if success else "failed"
                    target.reason = "" if success else "the run has failed"
            yield job, success

    def is_over(self, job: str | None) -> bool:
        """Whether the job's run is over."""
        return job in self._over

    def unspoken(self, now: float) -> Iterator[Target]:
        """Targets whose reason has lasted and was not told yet."""
        for target in self._found.values():
            lasts = target.state == "waiting" and now - target.since >= _LASTING
            if lasts and target.why and target.why != target.said:
                target.said = target.why
                yield target
