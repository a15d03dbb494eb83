"""Which jobs want a look, now or at some time, each in one pair of hands at once.

An event of one of a thousand Pods says only that its job wants a look; ten of them at once are
one look. Apart from the loop because this is all that its threads share besides the observations.
"""

import heapq
import threading
import time
from collections import deque

JobKey = tuple[str, str]
"""Namespace and name of a job."""


class JobQueue:
    """Jobs that want a look; safe to share between threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._ready: deque[JobKey] = deque()
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

    def others_wait(self, key: JobKey) -> bool:
        """Whether a job other than this one waits for a look."""
        with self._condition:
            return len(self._wanted) > (key in self._wanted)

    @property
    def idle(self) -> bool:
        """Whether no job wants a look now, and none is in hand."""
        with self._condition:
            return not self._wanted and not self._in_hand

    def want(self, key: JobKey) -> None:
        """A job wants a look."""
        with self._condition:
            self._want(key)

    def take(self) -> JobKey | None:
        """The next job, when there is one; None once the queue is closed.

        The job is in hand until `done`: what happens to it meanwhile is another look later.
        """
        with self._condition:
            while not self._closed:
                wait = self._fire()
                if self._ready:
                    key = self._ready.popleft()
                    self._wanted.discard(key)
                    self._in_hand.add(key)
                    return key
                self._condition.wait(wait)
        return None

    def done(self, key: JobKey, again: float | None = None) -> None:
        """A job is out of hand.

        Args:
            key: The job.
            again: The time, as `time.monotonic` tells it, of its next look if nothing happens
                before; it takes the place of an earlier wish.
        """
        with self._condition:
            self._in_hand.discard(key)
            if key in self._wanted:
                self._put(key)
            if again is None:
                self._due.pop(key, None)
            else:
                self._due[key] = again
                heapq.heappush(self._timers, (again, key))
                self._condition.notify()

    def close(self) -> None:
        """Lets everybody who waits go; jobs in hand are finished."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _want(self, key: JobKey) -> None:
        if key in self._wanted:
            return
        self._wanted.add(key)
        if key not in self._in_hand:
            self._put(key)

    def _put(self, key: JobKey) -> None:
        self._ready.append(key)
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
                self._want(key)
            else:
                return at - now
        return None
