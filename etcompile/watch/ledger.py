"""What is not in order: requests that wait, what people know of already, jobs left unsupervised.

The one place where the watcher remembers a failure; all of it may be forgotten at any time.

**Requests** that were refused or changed nothing are not sent again before their time.

Whatever happens to a job makes the watcher look at it, a hundred times a second if a hundred of its
Pods change. What the API server has refused is decided again each time, and must not be sent again
each time. Apart from the wait of a whole job, because what else is to be done about it is not held
up: a dead host leaves the list while its replacement is refused.

**Reports**: a problem is met at each look and reported once, however many others a job has.

**Supervision**: of each job, since when the watcher cannot look after it, and why. Whoever finds
that out says so here; a look that does all it wants to takes it back.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from etcompile.watch.workqueue import LONGEST, JobKey, backoff

_LONGEST_REPORT = 300
"""Characters of a problem by which it is told from others."""
_MOST_REPORTS = 200
"""Problems of a job that are remembered as reported."""


class Ledger:
    """What is not in order with which job; safe to share between threads.

    Args:
        clock: The time in seconds, of a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._held: dict[JobKey, dict[str, tuple[int, float]]] = {}
        self._reported: dict[JobKey, dict[tuple[str, str], None]] = {}
        # Of each job why it is not supervised, and since when; None if it is.
        self._supervised: dict[JobKey, tuple[str, float] | None] = {}
        self._reasons: set[str] = set()

    def failed(self, key: JobKey, what: str, longest: float = LONGEST) -> None:
        """A request was refused or changed nothing: it is held twice as long as the last time."""
        with self._lock:
            held = self._held.setdefault(key, {})
            count, until = held.get(what, (0, 0.0))
            if self._clock() >= until:  # else another request like it has failed at the same time
                wait = min(backoff(count + 1), longest)
                held[what] = count + 1, self._clock() + wait

    def failed_alike(self, key: JobKey, these: Sequence[str]) -> None:
        """Requests would all be refused for the same reason: they are held until the same time."""
        with self._lock:
            held = self._held.setdefault(key, {})
            count = max((held.get(what, (0, 0.0))[0] for what in these), default=0)
            until = self._clock() + backoff(count + 1)
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

    # ---- reports and supervision ---------------------------------------------------------------

    def is_news(self, key: JobKey, kind: str, text: str) -> bool:
        """Whether a problem of this kind has not been reported yet; from now on it has."""
        with self._lock:
            reported = self._reported.setdefault(key, {})
            if (kind, text[:_LONGEST_REPORT]) in reported:
                return False
            if len(reported) >= _MOST_REPORTS:
                del reported[next(iter(reported))]
            reported[kind, text[:_LONGEST_REPORT]] = None
            return True

    def resolved(self, key: JobKey, kind: str | None = None) -> None:
        """Problems of a kind, or of all kinds, are over: the next one is reported."""
        with self._lock:
            before = self._reported.pop(key, {})
            if left := dict.fromkeys(entry for entry in before if kind and entry[0] != kind):
                self._reported[key] = left

    def unsupervised(self, key: JobKey, reason: str) -> bool:
        """The watcher cannot look after a job; whether that is new."""
        with self._lock:
            before = self._supervised.get(key)
            self._supervised[key] = reason, before[1] if before else self._clock()
            return before is None or before[0] != reason

    def supervised(self, key: JobKey) -> float | None:
        """The watcher looks after a job; for how many seconds it did not, None if it did before."""
        with self._lock:
            before = self._supervised.get(key, ("", None))
            self._supervised[key] = None
            if before is None:
                return None
            return 0.0 if before[1] is None else self._clock() - before[1]

    def ended(self, key: JobKey) -> bool:
        """There is no such job any more, or it is not this watcher's; whether there was one."""
        with self._lock:
            known = key in self._supervised
            self._supervised.pop(key, None)
            return known

    def jobs(self) -> set[JobKey]:
        """The jobs of which anything is remembered."""
        with self._lock:
            return {*self._supervised, *self._reported}

    def counts(self) -> Mapping[str, int]:
        """How many jobs are not supervised, by reason."""
        with self._lock:
            lost = Counter(found[0] for found in self._supervised.values() if found)
            self._reasons.update(lost)
            return {reason: lost[reason] for reason in self._reasons}
