"""What the watcher remembers of each job besides what it sees of it: one bounded value a job.

All of it may be forgotten at any time, and then costs a request, a compilation or a line of the log
more. What must survive a crash is in the run record, in `J-status`.

A job is in the hands of one thread at a time (`workqueue`). Only its ledger is shared with those
that carry out requests about several of its Pods side by side.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from etcompile.watch.ledger import Ledger
from etcompile.watch.run_pods import StoredRun
from etcompile.watch.state import JobView
from etcompile.watch.workqueue import JobKey


class DeclaredRun(Struct, frozen=True):
    """What a version of a job's ConfigMap says.

    Args:
        version: The version, and why its data is not kept.
        run: The run; None if the ConfigMap cannot be read, or the selector does not match it.
        problem: Why it cannot be read.
        rooms: How often there has been room again for what had none before.
    """

    version: tuple[int, str]
    run: StoredRun | None
    problem: str
    rooms: int


class FormerRun(Struct, frozen=True):
    """The run of the Pods of a job that describes another one.

    Args:
        version: Of the ConfigMap and of the copy beside the run record.
        run: The run; None if there is no copy of it.
    """

    version: str
    run: StoredRun | None


class RunMemory(Struct):
    """What is remembered while there is a run to look after.

    Args:
        secrets: The UID of the ConfigMap and the Secret for which a key pair was made.
        requeue: When the rules want to be asked again, in seconds since 1970.
        paused: The UID of the ConfigMap, and until when nothing is done about it: its namespace is
            being deleted. None if the job was removed, and the stream is to tell so.
        over_quota: A quota has refused Pods.
        shown: What the rules were shown last.
        services: Services that are being looked up.
    """

    secrets: tuple[str, str] = ("", "")
    requeue: float | None = None
    paused: tuple[str, float | None] = ("", 0.0)
    over_quota: bool = False
    shown: JobView | None = None
    services: set[str] = field(default_factory=set)


class JobMemory(Struct):
    """What is remembered of a job.

    Args:
        ledger: What is not in order with it.
        declared: What its ConfigMap says.
        former: The run of its Pods, if it describes another one.
        run: What is remembered of the run that is looked after.
        failures: How often looks at it have failed in a row.
    """

    ledger: Ledger
    declared: DeclaredRun | None = None
    former: FormerRun | None = None
    run: RunMemory = field(default_factory=RunMemory)
    failures: int = 0


class Memory:
    """What is remembered of all jobs; safe to share between threads.

    Args:
        clock: The time in seconds, of a clock that is never set.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[JobKey, JobMemory] = {}
        self._reasons: set[str] = set()

    def of(self, key: JobKey) -> JobMemory:
        """What is remembered of a job; nothing at first."""
        with self._lock:
            memory = self._jobs.get(key)
            if memory is None:
                memory = self._jobs[key] = JobMemory(Ledger(self._clock))
            return memory

    def forget(self, key: JobKey) -> None:
        """Forgets a job of which nothing is left."""
        with self._lock:
            self._jobs.pop(key, None)

    def jobs(self) -> Mapping[JobKey, JobMemory]:
        """All jobs of which anything is remembered."""
        with self._lock:
            return dict(self._jobs)

    def unsupervised(self) -> Mapping[str, int]:
        """How many jobs are not supervised, by reason; a reason that was one once stays, at 0."""
        lost = Counter(memory.ledger.lost for memory in self.jobs().values())
        del lost[""]
        with self._lock:
            self._reasons.update(lost)
            return {reason: lost[reason] for reason in self._reasons}
