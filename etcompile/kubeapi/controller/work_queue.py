"""A queue of keys to reconcile, now or at some time, each by one thread at a time.

Ten events of one object are one entry, and an entry says nothing but its key. `backoff` says after
how long a key that failed comes back.
"""

import heapq
import random
import threading
import time
from collections import deque

_MOST_STALE = 64  # times that were put off and may stay in the heap, besides one for each key
_LONGEST_WAIT = 3600.0

Key = tuple[str, str]
"""A namespace and a name."""

LONGEST = 30.0
"""Seconds to wait after failures in a row, at most."""
_MOST_DOUBLINGS = 30  # 2 to the power of a month of failures is no number


def backoff(failures: int, first: float = 0.05, longest: float = LONGEST) -> float:
    """Return the seconds to wait after so many failures in a row, with jitter."""
    doublings = max(0, min(failures - 1, _MOST_DOUBLINGS))
    return min(first * 2.0**doublings, longest) * random.uniform(0.5, 1.0)  # noqa: S311


class WorkQueue:
    """Keys to reconcile; safe to share between threads."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        # By namespace, in turns, so that one with a thousand keys does not delay all others.
        self._ready: dict[str, deque[Key]] = {}
        self._queued: set[Key] = set()
        self._processing: set[Key] = set()
        self._due: dict[Key, float] = {}
        self._timers: list[tuple[float, Key]] = []
        self._closed = False

    @property
    def depth(self) -> int:
        """Return how many keys wait for a thread; not those that wait for their time."""
        with self._condition:
            return len(self._queued)

    @property
    def idle(self) -> bool:
        with self._condition:
            return not self._queued and not self._processing

    def enqueue(self, key: Key) -> None:
        with self._condition:
            if key in self._queued:
                return
            self._queued.add(key)
            if key not in self._processing:
                self._offer(key)

    def take(self) -> Key | None:
        """Wait for the next key; None once the queue is closed.

        No other thread gets the key before `done`, but it may be enqueued again meanwhile.
        """
        with self._condition:
            while not self._closed:
                wait = self._fire()
                if self._ready:
                    namespace, keys = next(iter(self._ready.items()))
                    key = keys.popleft()
                    del self._ready[namespace]
                    if keys:
                        self._ready[namespace] = keys
                    self._queued.discard(key)
                    self._processing.add(key)
                    return key
                # A time that no clock can hold is looked at again.
                self._condition.wait(None if wait is None else min(wait, _LONGEST_WAIT))
        return None

    def done(self, key: Key, again: float | None = None) -> None:
        """Give a key back, to be reconciled again at a time of `time.monotonic`, if any.

        That time takes the place of an earlier one.
        """
        with self._condition:
            self._processing.discard(key)
            if key in self._queued:
                self._offer(key)
            if again is None:
                self._due.pop(key, None)
            elif self._due.get(key) != again:
                self._due[key] = again
                heapq.heappush(self._timers, (again, key))
                if len(self._timers) > 2 * len(self._due) + _MOST_STALE:
                    # Times that were put off would stay until they come: a deadline may be weeks
                    # away.
                    self._timers = [(due, key) for key, due in self._due.items()]
                    heapq.heapify(self._timers)
                self._condition.notify()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()

    def _offer(self, key: Key) -> None:
        self._ready.setdefault(key[0], deque()).append(key)
        self._condition.notify()

    def _fire(self) -> float | None:
        """Enqueue what is due; return the seconds until something else is, None for nothing."""
        now = time.monotonic()
        while self._timers:
            at, key = self._timers[0]
            if self._due.get(key) != at:
                heapq.heappop(self._timers)  # it was put off, or is no longer wanted
            elif at <= now:
                heapq.heappop(self._timers)
                del self._due[key]
                self.enqueue(key)
            else:
                return at - now
        return None
