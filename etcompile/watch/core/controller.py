"""The watcher: streams, a queue of jobs, and threads that take one job each out of it.

Events of Pods come by the thousand, late, and not in the order of the answers to our own requests.
So an event decides nothing: it changes what is known (`store`) and puts its job into the queue.

A job is only reconciled while three things hold: all kinds have been listed once, or a Pod that was
not listed yet would be created again; this watcher leads; and it is not stopping. When that
changes, all jobs are queued, also those that went meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.endpoints import Answer
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.informer import Informer
from etcompile.kubeapi.controller.lease import Lease
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.kubeapi.controller.work_queue import WorkQueue
from etcompile.model.protocol import JOB_LABEL, WATCHER
from etcompile.watch.core.act import ActionExecutor
from etcompile.watch.core.decide import decide
from etcompile.watch.core.ledger import Memory
from etcompile.watch.core.listener import Listener
from etcompile.watch.core.logs import LogReader
from etcompile.watch.core.observe import Store, bounded
from etcompile.watch.core.reconciler import AFTER_A_BUG, Reconciler, Result
from etcompile.watch.core.reports import Metrics, gauge
from etcompile.watch.core.view import JobView, Timeouts

_log = logging.getLogger("etcompile.watch")

# In seconds, unless said otherwise.
_LONGEST_UNTIL = 86_400.0  # until a job is looked at again, whatever times are in it
_HEAL_AFTER = 60.0  # until jobs that were beyond a cap are read again
_TRIES = 5  # looks at a job that fail before `--once` gives it up
_PAGE = 100  # objects of a list's page: with more, their JSON would be most of the memory used
_PAGES = {"ConfigMap": 20}  # whose objects may have a megabyte each
_STOPPING = 10.0  # that looks under way have when the watcher is to stop


class Choices(Struct, frozen=True):
    """What a watcher is to do."""

    namespaces: tuple[str, ...] | None  # None for all
    threads: int = 6  # jobs that are reconciled side by side
    requests: int = 16  # about Pods of these, side by side
    timeouts: Timeouts = Timeouts()


class Watcher:
    """A watcher.

    Args:
        cluster: Its requests should be sent once: a job is decided about again after a failure.
        identity: Which watcher this is.
        leading: Who may act; None for this watcher, always.
        listeners: The optional features, in the order in which they are asked.
    """

    def __init__(
        self,
        cluster: Cluster,
        choices: Choices,
        *,
        identity: str,
        leading: Lease | None = None,
        listeners: Sequence[Listener] = (),
    ) -> None:
        counters = [listener.counters for listener in listeners]
        self.metrics = Metrics({name: own for part in counters for name, own in part.items()})
        self._cluster = cluster
        self._choices = choices
        self._leading = leading
        if leading is not None:
            leading.changed = self.led
        self._stop = threading.Event()
        self._queue = WorkQueue()
        observers = [listener.observe for listener in listeners]
        self._store = Store(
            self._queue.enqueue, cluster.now, observers, namespaced=choices.namespaces is not None
        )
        self._synced_at = 0.0
        self._forbidden: set[str] = set()
        self._events = EventRecorder(
            cluster,
            WATCHER,
            identity,
            may_act=self._may_act,
            counted=lambda status: self.metrics.writes.labels("create", "Event", status).inc(),
        )
        self._pool = ThreadPoolExecutor(choices.requests, thread_name_prefix="requests")
        self._memory = Memory()
        executor = ActionExecutor(
            cluster,
            self._store,
            self._may_act,
            self.metrics,
            self._events,
            LogReader(cluster, self._store, self._events, self._pool),
            self._pool,
            self._memory,
        )
        self._reconciler = Reconciler(
            cluster,
            self._store,
            executor,
            self._events,
            self._memory,
            choices.timeouts,
            self._stop.is_set,
            partial(decide, listeners=listeners),
        )
        # ConfigMaps first: a Pod means nothing without its job.
        self._informers = [
            Informer(
                cluster,
                version,
                kind,
                namespace,
                partial(_observe, changed),
                partial(self._store.left, kind, namespace),
                partial(self._restarted, kind),
                labels=JOB_LABEL,
                limit=_PAGES.get(kind, _PAGE),
            )
            for version, kind, changed in (
                ("v1", "ConfigMap", self._store.saw_map),
                ("batch/v1", "Job", self._store.saw_batch),
                ("v1", "Pod", self._store.saw_pod),
            )
            for namespace in choices.namespaces or (None,)
        ]
        self._threads: list[threading.Thread] = []
        self.metrics.computed(self._gauges)

    def start(self) -> None:
        """Start to follow everything, and to act once that is complete."""
        for informer in self._informers:
            self._run(f"informer of {informer.kind}", informer.run)
        self._run("events", self._events.run)
        for number in range(self._choices.threads):
            self._run(f"look {number}", self._reconcile_jobs)
        self._run("sync", self._sync)

    def stop(self) -> None:
        """Let reconciliations under way end, and end everything else."""
        self._stop.set()
        for informer in self._informers:
            informer.close()
        self._queue.close()
        self._events.close()
        end = time.monotonic() + _STOPPING
        for thread in self._threads:
            if not thread.name.startswith("informer"):
                thread.join(max(0.0, end - time.monotonic()))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def once(self) -> None:
        """List everything, do what is to be done now, and return.

        Raises:
            ClusterError: the cluster cannot be read.
        """
        for informer in self._informers:
            informer.list()
        self._synced()
        for key in sorted(self._store.known()):
            for _ in range(_TRIES):
                again, outcome = self._reconcile(key)
                if outcome != "again":
                    break
                time.sleep(self._until(again or 0.0))
        self._pool.shutdown()
        self._events.close()
        self._events.run()

    def led(self, leads: bool) -> None:  # noqa: FBT001 - an event's value
        """This watcher may act from now on, or may not any more."""
        self.metrics.leads.set(leads)
        if leads:
            _log.info("became leader")
            self._want_all()
        else:
            _log.warning("stopped leading: %s", self._why_not())

    def ready(self) -> Answer:
        """Return whether everything has been seen once."""
        missing = [informer.kind for informer in self._informers if not informer.synced.is_set()]
        return not missing, f"not synced yet: {', '.join(missing)}" if missing else "ready"

    def healthy(self) -> Answer:
        """Return whether all threads are alive."""
        dead = [t.name for t in self._threads if not t.is_alive() and t.name != "sync"]
        well = not dead or self._stop.is_set()
        return well, "healthy" if well else f"threads have ended: {', '.join(dead)}"

    def views(self) -> Iterator[tuple[JobKey, JobView]]:
        """Yield what was last known of each job, while this watcher leads."""
        for key, memory in self._memory.jobs().items() if self._may_act() else ():
            if memory.view is not None:
                yield key, memory.view

    @property
    def now(self) -> float:
        """The time of the API server, in seconds since 1970."""
        return self._cluster.now()

    @property
    def idle(self) -> bool:
        """Whether no job wants a look now."""
        return self._queue.idle

    def _reconcile_jobs(self) -> None:
        while (key := self._queue.take()) is not None:
            begun = time.monotonic()
            due: float | None = begun + AFTER_A_BUG
            try:
                again, outcome = self._reconcile(key)
                self.metrics.reconciles.labels(outcome).inc()
                self.metrics.reconcile_seconds.observe(time.monotonic() - begun)
                due = None if again is None else time.monotonic() + self._until(again)
            except Exception:
                _log.exception("%s/%s: this is a bug", *key)
            finally:
                self._queue.done(key, due)

    def _reconcile(self, key: JobKey) -> tuple[float | None, Result]:
        if self._synced_at == 0.0 or not self._may_act():
            return None, "stopped"  # all are wanted again once that is different
        return self._reconciler.reconcile(key, self._synced_at)

    def _until(self, at: float) -> float:
        left = at - self._cluster.now()
        return min(left, _LONGEST_UNTIL) if left > 0.0 else 0.0

    def _may_act(self) -> bool:
        return self._leading is None or self._leading.valid

    def _want_all(self) -> None:
        for key in {*self._memory.jobs(), *self._store.known()}:
            self._queue.enqueue(key)

    def _sync(self) -> None:
        """Wait until everything was listed once; then read again what was beyond a cap."""
        for informer in self._informers:
            while not informer.synced.wait(0.2):
                if self._stop.is_set():
                    return
        self._synced()
        while not self._stop.wait(_HEAL_AFTER):
            if self._store.may_read_again():
                for memory in self._memory.jobs().values():
                    if memory.declared is not None and memory.declared.problem:
                        memory.declared = None
                for informer in self._informers:
                    if informer.kind == "ConfigMap":
                        informer.relist()
                self._want_all()

    def _synced(self) -> None:
        self._synced_at = self._cluster.now()
        _log.info("watching: jobs: %d, Pods: %d", *self._store.counts())
        self._want_all()

    def _why_not(self) -> str:
        """Say why this watcher does not lead any more, and which one does."""
        leading = self._leading
        if leading is None or self._stop.is_set():
            return "it was told to stop"
        if leading.problem:
            return f"the Lease cannot be renewed: {leading.problem}"
        return f"{leading.holder} leads" if leading.holder else "the Lease was renewed too late"

    def _restarted(self, kind: str, error: ClusterError) -> bool:
        self.metrics.restarts.labels(kind, "expired" if error.expired else "error").inc()
        # A missing right is reported once, and the watch goes on when it is there.
        if not (error.status == 403 and kind in self._forbidden):
            _log.warning("restarting the watch of %s: %s", kind, error)
        if error.status == 403:
            self._forbidden.add(kind)
        return True

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _gauges(self) -> Iterator[GaugeMetricFamily]:
        reasons: dict[tuple[str, ...], float] = {}
        jobs, pods = self._store.counts()
        if self._may_act():
            reasons = {(reason,): own for reason, own in self._memory.unsupervised().items()}
        words = "Jobs that the watcher cannot look after, by reason."
        yield gauge("unsupervised", words, reasons, "reason")
        yield gauge("queue_depth", "Jobs in the work queue.", {(): self._queue.depth})
        yield gauge("jobs", "Number of watched jobs.", {(): jobs})
        yield gauge("pods", "Number of watched Pods.", {(): pods})


def _observe(saw: Callable[..., None], value: LiveObject, gone: bool) -> None:  # noqa: FBT001
    saw(bounded(value), gone=gone)
