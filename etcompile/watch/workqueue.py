"""Which jobs want a look, now or at some time, each in one pair of hands at once.

An event of one of a thousand Pods says only that its job wants a look; ten of them are one look.
"""

import heapq
import random
import threading
import time
from collections import deque

_SUPERSEDED = 64  # times that were put off and may be kept, besides one for each job that waits
_LONGEST_WAIT = 3600.0
_FIRST_BACKOFF = 0.05
LONGEST = 30.0
"""Seconds that a request, or a job, waits after a failure, at most."""
_MOST_DOUBLINGS = 30  # 2 to the power of what a job may come to in a month is no number

JobKey = tuple[str, str]
"""Namespace and name of a job."""


def backoff(failures: int) -> float:
    """Seconds until what has failed so often in a row is tried again."""
    doublings = min(failures - 1, _MOST_DOUBLINGS)
    longest = min(_FIRST_BACKOFF * 2.0**doublings, LONGEST)
    return longest * random.uniform(0.5, 1.0)  # noqa: S311


class WorkQueue:
    """Jobs that want a look; safe to share between threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        # By namespace, in turns: whoever has a thousand jobs makes no other one wait for all.
        self._ready: dict[str, deque[JobKey]] = {}
        self._wanted: set[JobKey] = set()
        self._in_hand: set[JobKey] = set()
        self._due: dict[JobKey, float] = {}
        self._timers: list[tuple[float, JobKey]] = []
        self._closed = False

    @property
    def depth(self) -> int:
        """How many jobs wait for a look; not those that wait for their time."""
        with self._condition:
            return len(self._wanted)

    @property
    def idle(self) -> bool:
        """Whether no job wants a look now, and none is in hand."""
        with self._condition:
            return not self._wanted and not self._in_hand

    def want(self, key: JobKey) -> None:
        """A job wants a look."""
        with self._condition:
            if key in self._wanted:
                return
            self._wanted.add(key)
            if key not in self._in_hand:
                self._put(key)

    def take(self) -> JobKey | None:
        """The next job, when there is one; None once the queue is closed.

        The job is in hand until `done`: what happens to it meanwhile is another look later.
        """
        with self._condition:
            while not self._closed:
                wait = self._fire()
                if self._ready:
                    namespace, jobs = next(iter(self._ready.items()))
                    key = jobs.popleft()
                    del self._ready[namespace]
                    if jobs:
                        self._ready[namespace] = jobs
                    self._wanted.discard(key)
                    self._in_hand.add(key)
                    return key
                # What no clock can hold is asked for again: a thread must not end for it.
                self._condition.wait(None if wait is None else min(wait, _LONGEST_WAIT))
        return None

    def done(self, key: JobKey, again: float | None = None) -> None:
        """A job is out of hand, and looked at again at a time of `time.monotonic`, if any.

        That time takes the place of an earlier one; what happens before is looked at before.
        """
        with self._condition:
            self._in_hand.discard(key)
            if key in self._wanted:
                self._put(key)
            if again is None:
                self._due.pop(key, None)
            else:
                self._plan(key, again)

    def soon(self, key: JobKey, at: float) -> None:
        """A job wants a look at a time of `time.monotonic`, or before."""
        with self._condition:
            if at < self._due.get(key, float("inf")):
                self._plan(key, at)

    def close(self) -> None:
        """Lets everybody who waits go; jobs in hand are finished."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _plan(self, key: JobKey, at: float) -> None:
        if self._due.get(key) == at:
            return
        self._due[key] = at
        heapq.heappush(self._timers, (at, key))
        if len(self._timers) > 2 * len(self._due) + _SUPERSEDED:
            # Times that were put off would stay until they come: a deadline may be weeks away.
            self._timers = [(due, key) for key, due in self._due.items()]
            heapq.heapify(self._timers)
        self._condition.notify()

    def _put(self, key: JobKey) -> None:
        self._ready.setdefault(key[0], deque()).append(key)
        self._condition.notify()

    def _fire(self) -> float | None:
        """Moves on what is due; the seconds until something else is, None for nothing."""
        now = time.monotonic()
        while self._timers:
            at, key = self._timers[0]
            if self._due.get(key) != at:
                heapq.heappop(self._timers)  # it was put off, or is no longer wanted
            elif at <= now:
                heapq.heappop(self._timers)
                del self._due[key]
                self.want(key)
            else:
                return at - now
        return None
