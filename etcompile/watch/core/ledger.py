"""What the watcher remembers of each job besides what it sees of it: one bounded value a job.

All of it may be forgotten at any time, and then costs a request, a compilation or a line of the log
more. What must survive a crash is in the run record.

A **request** that was refused or changed nothing is not sent again before its time, however often
the job is reconciled; what else is to be done about the job goes on. A **problem** is reported
once. For a job that is not **supervised** stands why, and since when.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet

from msgspec import Struct, field

from etcompile.compiler.stored_run import StoredRun
from etcompile.kubeapi.controller.backoff import LONGEST, backoff
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.watch.core.observe import SeenMap
from etcompile.watch.core.view import JobView

Request = tuple[str, str]
"""A verb and an object: two requests with the same are one that is sent again."""

_LONGEST_REPORT = 300  # characters of a problem that are compared with those of others
_MOST_REPORTS = 200  # problems of a job that are remembered as reported


class ReadRun(Struct, frozen=True):
    """What a version of a job's ConfigMap says, or of the copy beside the run record."""

    version: str
    run: StoredRun | None  # None if it cannot be read
    problem: str = ""


class JobMemory(Struct):
    """What is remembered of a job.

    Only the thread that reconciles it uses it, and those that send its requests `failed`,
    `succeeded` and `holds`, each for another request.
    """

    clock: Callable[[], float] = time.monotonic
    declared: ReadRun | None = None  # what its ConfigMap says
    previous: ReadRun | None = None  # the run of its Pods, if the ConfigMap describes another one
    secrets: tuple[str, str] = ("", "")  # the ConfigMap's UID, and the Secret that has a key pair
    requeue: float | None = None  # when the rules want to be asked again, in seconds since 1970
    # The ConfigMap's UID, and until when nothing is done about it: its namespace is being deleted.
    # None if the job was removed, and the stream is to show it.
    paused: tuple[str, float | None] = ("", 0.0)
    view: JobView | None = None  # what the rules were shown last
    status: SeenMap | None = None  # the `J-status` that was read for it
    failures: int = 0  # reconciliations that failed in a row
    reason: str = ""  # why the job is not supervised; empty if it is, or is no job of ours
    _since: float | None = None  # when that began; None if nobody has looked at the job yet
    # How often a request has failed in a row, and until when it is held.
    _held: dict[Request, tuple[int, float]] = field(default_factory=dict)
    _reported: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def met(self) -> bool:
        """Whether somebody has looked at the job."""
        return self._since is not None

    def failed(self, request: Request, longest: float = LONGEST) -> None:
        """Note that a request was refused or changed nothing: hold it twice as long as before."""
        count, until = self._held.get(request, (0, 0.0))
        if self.clock() >= until:  # else another request like it has failed at the same time
            wait = min(backoff(count + 1), longest)
            self._held[request] = count + 1, self.clock() + wait

    def succeeded(self, request: Request) -> None:
        """Note that a request was carried out: the next one like it is sent at once."""
        self._held.pop(request, None)

    def holds(self, request: Request) -> bool:
        """Return whether it is too early for a request."""
        return bool(self._held) and self.clock() < self._held.get(request, (0, 0.0))[1]

    @property
    def is_refused(self) -> bool:
        """Whether a request that is still wanted failed, however soon it may be sent again."""
        return bool(self._held)

    def wait(self) -> float | None:
        """Return the seconds until the first request that is held may be sent; None for none."""
        now = self.clock()
        return min((until - now for _, until in self._held.values() if until > now), default=None)

    def retain(self, wanted: AbstractSet[Request] = frozenset()) -> None:
        """Forget all requests that are held but these: the others are not wanted any more."""
        for request in self._held.keys() - wanted:
            del self._held[request]

    def is_news(self, kind: str, text: str) -> bool:
        """Return whether a problem of this kind has not been reported yet; from now on it has."""
        entry = kind, text[:_LONGEST_REPORT]
        is_new = entry not in self._reported
        if is_new and len(self._reported) >= _MOST_REPORTS:
            del self._reported[next(iter(self._reported))]
        self._reported[entry] = None
        return is_new

    def unsupervised(self, reason: str) -> bool:
        """Note that the watcher cannot supervise the job; return whether that is new."""
        before, self.reason = self.reason, reason
        if not before:
            self._since = self.clock()
        return before != reason

    def supervised(self) -> float | None:
        """Note that the job is supervised; return the seconds that it was not, None for none."""
        reason, since = self.reason, self._since
        self.reason, self._since = "", self.clock()
        if reason and since is not None:
            self._reported = {}
            return self._since - since
        return 0.0 if since is None else None


class Memory:
    """What is remembered of all jobs; safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[JobKey, JobMemory] = {}
        self._reasons: set[str] = set()

    def of(self, key: JobKey) -> JobMemory:
        """Return what is remembered of a job; nothing at first."""
        with self._lock:
            memory = self._jobs.get(key)
            if memory is None:
                memory = self._jobs[key] = JobMemory(self._clock)
            return memory

    def forget(self, key: JobKey) -> JobMemory | None:
        """Forget a job that is gone; return what was remembered of it."""
        with self._lock:
            return self._jobs.pop(key, None)

    def jobs(self) -> Mapping[JobKey, JobMemory]:
        """Return all jobs of which anything is remembered."""
        with self._lock:
            return dict(self._jobs)

    def unsupervised(self) -> Mapping[str, int]:
        """Count the jobs that are not supervised, by reason; an old reason stays, at 0."""
        jobs = Counter(memory.reason for memory in self.jobs().values() if memory.reason)
        with self._lock:
            self._reasons.update(jobs)
            return {reason: jobs[reason] for reason in self._reasons}
