"""Requests that were refused or changed nothing: not again before their time.

Whatever happens to a job makes the watcher look at it, a hundred times a second if a hundred of its
Pods change. What the API server has refused is decided again each time, and must not be sent again
each time. Apart from the wait of a whole job, because what else is to be done about it is not held
up: a dead host leaves the list while its replacement is refused.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence

from etcompile.watch.workqueue import JobKey

LONGEST = 30.0
"""Seconds that a request is held, at most."""
_FIRST = 0.05
_DOUBLINGS = 20


class RequestBackoff:
    """What is held back of which job, and until when; safe to share between threads.

    Args:
        clock: The time in seconds, of a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[JobKey, dict[str, tuple[int, float]]] = {}

    def failed(self, key: JobKey, what: str, longest: float = LONGEST) -> None:
        """A request was refused or changed nothing: it is held twice as long as the last time.

        Args:
            key: The job.
            what: What was asked for, the same words each time.
            longest: Seconds that it is held, at most.
        """
        with self._lock:
            held = self._held.setdefault(key, {})
            count, until = held.get(what, (0, 0.0))
            if self._clock() < until:
                return  # another request like it has failed at the same time
            wait = min(_FIRST * 2.0 ** min(count, _DOUBLINGS), longest)
            held[what] = count + 1, self._clock() + wait * random.uniform(0.5, 1.0)  # noqa: S311

    def failed_alike(self, key: JobKey, these: Sequence[str]) -> None:
        """Requests would all be refused for the same reason: they are held until the same time.

        Args:
            key: The job.
            these: What was, or would have been, asked for.
        """
        with self._lock:
            held = self._held.setdefault(key, {})
            count = max((held.get(what, (0, 0.0))[0] for what in these), default=0)
            wait = min(_FIRST * 2.0 ** min(count, _DOUBLINGS), LONGEST)
            until = self._clock() + wait * random.uniform(0.5, 1.0)  # noqa: S311
            held.update(dict.fromkeys(these, (max(count, 1), until)))

    def succeeded(self, key: JobKey, what: str) -> None:
        """A request was carried out: the next one like it is sent at once."""
        with self._lock:
            held = self._held.get(key, {})
            held.pop(what, None)
            if not held:
                self._held.pop(key, None)

    def holds(self, key: JobKey, what: str) -> bool:
        """Whether it is too early for a request."""
        with self._lock:
            _, until = self._held.get(key, {}).get(what, (0, 0.0))
            return self._clock() < until

    def wait(self, key: JobKey) -> float | None:
        """Seconds until the first of a job's requests that are held may be sent; None for none."""
        with self._lock:
            now = self._clock()
            untils = [until for _, until in self._held.get(key, {}).values() if until > now]
            return min(untils) - now if untils else None

    def keep(self, key: JobKey, wanted: set[str]) -> None:
        """Forgets what is held of a job but is not wanted any more."""
        with self._lock:
            held = self._held.get(key)
            if held is None:
                return
            for what in held.keys() - wanted:
                del held[what]
            if not held:
                del self._held[key]

    def forget(self, key: JobKey) -> None:
        """Lets go what is held of a job: what was in the way may be gone."""
        with self._lock:
            self._held.pop(key, None)
