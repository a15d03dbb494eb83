"""Remember, per job, what cannot be seen in the cluster: one bounded value a job.

All of it may be forgotten at any time; that costs a request, a compilation or a line of the log.
What must survive a crash is in the run record.

A **request** that was refused or changed nothing is held back for a time, however often the job is
reconciled; other work on the job goes on. A **problem** is reported once. A job that is not
**supervised** has a reason, and a time since when.
"""

import time
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from msgspec import Struct, field

from etcompile.compiler.stored_run import StoredRun
from etcompile.kubeapi.controller.backoff import LONGEST, backoff
from etcompile.watch.core.observe import SeenMap
from etcompile.watch.core.view import JobView

Request = tuple[str, str]
"""A verb and an object."""

_LONGEST_REPORT = 300  # characters of a problem that are compared with those of others
_MOST_REPORTS = 200  # problems of a job that are remembered as reported


class ReadRun(Struct, frozen=True):
    """What a version of a job's ConfigMap says, or of the copy beside the run record."""

    version: str
    run: StoredRun | None  # None if it cannot be read
    problem: str = ""


class JobMemory(Struct):
    """What is remembered of a job.

    Only the thread that reconciles the job uses it; those that send its requests call `failed`,
    `succeeded` and `holds`, each for another request.
    """

    clock: Callable[[], float] = time.monotonic
    declared: ReadRun | None = None  # what its ConfigMap says
    previous: ReadRun | None = None  # the run of its Pods, if the ConfigMap describes another one
    secrets: tuple[str, str] = ("", "")  # the ConfigMap's UID, and the Secret that has a key pair
    requeue: float | None = None  # when the rules want to decide again, in seconds since 1970
    # The ConfigMap's UID, and until when nothing is done about it: its namespace is being deleted.
    # None if the job was removed, until its ConfigMap is seen to go.
    paused: tuple[str, float | None] = ("", 0.0)
    view: JobView | None = None  # of the last decision
    status: SeenMap | None = None  # the `J-status` that was read for it
    failures: int = 0  # reconciliations that failed in a row
    reason: str = ""  # why the job is not supervised
    since: float | None = None  # when that began; None if the job was never reconciled
    # How often a request has failed in a row, and until when it is held.
    _held: dict[Request, tuple[int, float]] = field(default_factory=dict)
    _reported: dict[tuple[str, str], None] = field(default_factory=dict)

    def failed(self, request: Request, longest: float = LONGEST) -> None:
        """Hold a request that was refused or changed nothing, twice as long as before."""
        count, until = self._held.get(request, (0, 0.0))
        if self.clock() >= until:  # else another request like it has failed at the same time
            wait = min(backoff(count + 1), longest)
            self._held[request] = count + 1, self.clock() + wait

    def succeeded(self, request: Request) -> None:
        self._held.pop(request, None)

    def holds(self, request: Request) -> bool:
        return bool(self._held) and self.clock() < self._held.get(request, (0, 0.0))[1]

    @property
    def is_refused(self) -> bool:
        """Return whether a request that is still wanted failed, however soon it is sent again."""
        return bool(self._held)

    def wait(self) -> float | None:
        """Return the seconds until the first request that is held may be sent; None for none."""
        now = self.clock()
        return min((until - now for _, until in self._held.values() if until > now), default=None)

    def retain(self, wanted: AbstractSet[Request] = frozenset()) -> None:
        """Forget all requests that are held but these: the others are not wanted any more."""
        for request in self._held.keys() - wanted:
            del self._held[request]

    def is_new(self, kind: str, text: str) -> bool:
        """Return whether a problem of this kind was not reported yet; from now on it is."""
        entry = kind, text[:_LONGEST_REPORT]
        is_new = entry not in self._reported
        if is_new and len(self._reported) >= _MOST_REPORTS:
            del self._reported[next(iter(self._reported))]
        self._reported[entry] = None
        return is_new

    def unsupervised(self, reason: str) -> bool:
        """Note why the job is not supervised; return whether that reason is new."""
        before, self.reason = self.reason, reason
        if not before:
            self.since = self.clock()
        return before != reason

    def supervised(self) -> float | None:
        """Note that the job is supervised; return the seconds that it was not, None for none."""
        reason, since = self.reason, self.since
        self.reason, self.since = "", self.clock()
        if reason and since is not None:
            self._reported = {}
            return self.since - since
        return 0.0 if since is None else None
