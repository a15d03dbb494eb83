"""What is not in order with a job: held requests, reported problems, and whether it is supervised.

The one place where the watcher remembers a failure; all of it may be forgotten at any time.

**Requests** that were refused or changed nothing are not sent again before their time.

Whatever happens to a job makes the watcher look at it, a hundred times a second if a hundred of its
Pods change. What the API server has refused is decided again each time, and must not be sent again
each time. Apart from the wait of a whole job, because what else is to be done about it is not held
up: a dead host leaves the list while its replacement is refused.

**Reports**: a problem is met at each look and reported once, however many others a job has.

**Supervision**: since when the watcher cannot look after the job, and why. Whoever finds that out
says so here; a look that does all it wants to takes it back.
"""

import threading
import time
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from etcompile.watch.workqueue import LONGEST, backoff

_LONGEST_REPORT = 300
"""Characters of a problem by which it is told from others."""
_MOST_REPORTS = 200
"""Problems of a job that are remembered as reported."""


class Ledger:
    """What is not in order with a job; safe to share between threads.

    Args:
        clock: The time in seconds, of a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # How often a request has failed in a row, and until when it is held.
        self._held: dict[str, tuple[int, float]] = {}
        self._reported: dict[tuple[str, str], None] = {}
        self._met = False
        # Why the job is not supervised, and since when; None if it is, or is no job of ours.
        self._lost: tuple[str, float] | None = None

    def failed(self, what: str, longest: float = LONGEST) -> None:
        """A request was refused or changed nothing: it is held twice as long as the last time."""
        with self._lock:
            count, until = self._held.get(what, (0, 0.0))
            if self._clock() >= until:  # else another request like it has failed at the same time
                wait = min(backoff(count + 1), longest)
                self._held[what] = count + 1, self._clock() + wait

    def failed_alike(self, these: Sequence[str]) -> None:
        """Requests would all be refused for the same reason: they are held until the same time."""
        with self._lock:
            count = max((self._held.get(what, (0, 0.0))[0] for what in these), default=0)
            until = self._clock() + backoff(count + 1)
            self._held.update(dict.fromkeys(these, (max(count, 1), until)))

    def succeeded(self, what: str) -> None:
        """A request was carried out: the next one like it is sent at once."""
        with self._lock:
            self._held.pop(what, None)

    def holds(self, what: str) -> bool:
        """Whether it is too early for a request."""
        with self._lock:
            _, until = self._held.get(what, (0, 0.0))
            return self._clock() < until

    def wait(self) -> float | None:
        """Seconds until the first of the requests that are held may be sent; None for none."""
        with self._lock:
            now = self._clock()
            untils = [until for _, until in self._held.values() if until > now]
            return min(untils) - now if untils else None

    def keep(self, wanted: AbstractSet[str]) -> None:
        """Lets go all requests that are held but these: they are not wanted any more."""
        with self._lock:
            for what in self._held.keys() - wanted:
                del self._held[what]

    # ---- reports and supervision ---------------------------------------------------------------

    def is_news(self, kind: str, text: str) -> bool:
        """Whether a problem of this kind has not been reported yet; from now on it has."""
        with self._lock:
            entry = kind, text[:_LONGEST_REPORT]
            if entry in self._reported:
                return False
            if len(self._reported) >= _MOST_REPORTS:
                del self._reported[next(iter(self._reported))]
            self._reported[entry] = None
            return True

    def resolved(self, kind: str) -> None:
        """Problems of a kind are over: the next one is reported."""
        with self._lock:
            self._reported = {entry: None for entry in self._reported if entry[0] != kind}

    @property
    def lost(self) -> str:
        """Why the job is not supervised; empty if it is, or is no job of ours."""
        return self._lost[0] if self._lost else ""

    def unsupervised(self, reason: str) -> bool:
        """The watcher cannot look after the job; whether that is new."""
        with self._lock:
            before, self._met = self._lost, True
            self._lost = reason, before[1] if before else self._clock()
            return before is None or before[0] != reason

    def supervised(self) -> float | None:
        """The watcher looks after the job; for how many seconds it did not, None if it did."""
        with self._lock:
            lost, new = self._lost, not self._met
            self._lost, self._met = None, True
            if lost is not None:
                return self._clock() - lost[1]
            return 0.0 if new else None

    def ended(self) -> bool:
        """There is no such job any more, or it is not this watcher's; whether there was one."""
        with self._lock:
            met = self._met
            self._lost, self._met = None, False
            return met
