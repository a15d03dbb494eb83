"""What the watcher remembers of each job besides what it sees of it: one bounded value a job.

All of it may be forgotten at any time, and then costs a request, a compilation or a line of the log
more. What must survive a crash is in the run record.

The ledger is the one place where the watcher remembers a failure. A **request** that was refused or
changed nothing is not sent again before its time, however often the job is reconciled; what else is
to be done about the job goes on. A **problem** is reported once. A job that is not **supervised**
is in it, with since when and why.
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
from etcompile.watch.core.config_maps import SeenMap
from etcompile.watch.core.view import JobView

Request = tuple[str, str]
"""A verb and an object: two requests with the same are one that is sent again."""

_LONGEST_REPORT = 300  # characters of a problem that are compared with those of others
_MOST_REPORTS = 200  # problems of a job that are remembered as reported


class Ledger:
    """What is not in order with a job; safe to share between threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        # How often a request has failed in a row, and until when it is held.
        self._held: dict[Request, tuple[int, float]] = {}
        self.failed_looks = 0  # in a row; only the thread that looks at the job counts them
        self._reported: dict[tuple[str, str], None] = {}
        self._met = False
        # Why the job is not supervised, and since when; None if it is, or is no job of ours.
        self._unsupervised: tuple[str, float] | None = None

    def failed(self, request: Request, longest: float = LONGEST) -> None:
        """Note that a request was refused or changed nothing: hold it twice as long as before."""
        with self._lock:
            count, until = self._held.get(request, (0, 0.0))
            if self._clock() >= until:  # else another request like it has failed at the same time
                wait = min(backoff(count + 1), longest)
                self._held[request] = count + 1, self._clock() + wait

    def succeeded(self, request: Request) -> None:
        """Note that a request was carried out: the next one like it is sent at once."""
        with self._lock:
            self._held.pop(request, None)

    def holds(self, request: Request) -> bool:
        """Return whether it is too early for a request."""
        with self._lock:
            _, until = self._held.get(request, (0, 0.0))
            return self._clock() < until

    def wait(self) -> float | None:
        """Return the seconds until the first request that is held may be sent; None for none."""
        with self._lock:
            now = self._clock()
            untils = [until for _, until in self._held.values() if until > now]
            return min(untils) - now if untils else None

    def retain(self, wanted: AbstractSet[Request] = frozenset()) -> None:
        """Forget all requests that are held but these: the others are not wanted any more."""
        with self._lock:
            for request in self._held.keys() - wanted:
                del self._held[request]

    def is_news(self, kind: str, text: str) -> bool:
        """Return whether a problem of this kind has not been reported yet; from now on it has."""
        with self._lock:
            entry = kind, text[:_LONGEST_REPORT]
            if entry in self._reported:
                return False
            if len(self._reported) >= _MOST_REPORTS:
                del self._reported[next(iter(self._reported))]
            self._reported[entry] = None
            return True

    def resolved(self, kind: str) -> None:
        """Note that problems of a kind are over: the next one is reported."""
        with self._lock:
            self._reported = {entry: None for entry in self._reported if entry[0] != kind}

    @property
    def reason(self) -> str:
        """Why the job is not supervised; empty if it is, or is no job of ours."""
        return self._unsupervised[0] if self._unsupervised else ""

    def unsupervised(self, reason: str) -> bool:
        """Note that the watcher cannot supervise the job; return whether that is new."""
        with self._lock:
            before, self._met = self._unsupervised, True
            self._unsupervised = reason, before[1] if before else self._clock()
            return before is None or before[0] != reason

    def supervised(self) -> float | None:
        """Note that the job is supervised; return the seconds that it was not, None for none."""
        with self._lock:
            before, new = self._unsupervised, not self._met
            self._unsupervised, self._met = None, True
            if before is not None:
                return self._clock() - before[1]
            return 0.0 if new else None

    def ended(self) -> bool:
        """Note that there is no such job any more; return whether there was one."""
        with self._lock:
            met = self._met
            self._unsupervised, self._met = None, False
            return met


class ReadRun(Struct, frozen=True):
    """What a version of a job's ConfigMap says, or of the copy beside the run record."""

    version: str
    run: StoredRun | None  # None if it cannot be read
    problem: str = ""


class RunMemory(Struct):
    """What is remembered while there is a run to look after."""

    secrets: tuple[str, str] = ("", "")  # the ConfigMap's UID, and the Secret that has a key pair
    requeue: float | None = None  # when the rules want to be asked again, in seconds since 1970
    # The ConfigMap's UID, and until when nothing is done about it: its namespace is being deleted.
    # None if the job was removed, and the stream is to show it.
    paused: tuple[str, float | None] = ("", 0.0)
    view: JobView | None = None  # what the rules were shown last
    status: SeenMap | None = None  # the `J-status` that was read for it


class JobMemory(Struct):
    """What is remembered of a job."""

    ledger: Ledger
    declared: ReadRun | None = None  # what its ConfigMap says
    previous: ReadRun | None = None  # the run of its Pods, if the ConfigMap describes another one
    run: RunMemory = field(default_factory=RunMemory)


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
                memory = self._jobs[key] = JobMemory(Ledger(self._clock))
            return memory

    def forget(self, key: JobKey) -> None:
        """Forget a job of which nothing is left."""
        with self._lock:
            self._jobs.pop(key, None)

    def jobs(self) -> Mapping[JobKey, JobMemory]:
        """Return all jobs of which anything is remembered."""
        with self._lock:
            return dict(self._jobs)

    def unsupervised(self) -> Mapping[str, int]:
        """Count the jobs that are not supervised, by reason; an old reason stays, at 0."""
        jobs = Counter(memory.ledger.reason for memory in self.jobs().values())
        del jobs[""]
        with self._lock:
            self._reasons.update(jobs)
            return {reason: jobs[reason] for reason in self._reasons}
