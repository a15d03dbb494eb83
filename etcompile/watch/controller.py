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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from msgspec import Struct
from prometheus_client.core import GaugeMetricFamily

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.watch.action_executor import ActionExecutor
from etcompile.watch.authorization import report_missing, report_trust
from etcompile.watch.event_recorder import EventRecorder
from etcompile.watch.job_selector import Selector
from etcompile.watch.job_view import Timeouts
from etcompile.watch.leader_election import LeaderElection
from etcompile.watch.ledger import Memory
from etcompile.watch.log_reader import LogReader
from etcompile.watch.memory_limits import memory_budget
from etcompile.watch.metrics import Answer, Metrics, gauge
from etcompile.watch.notices import Notices
from etcompile.watch.object_control import ObjectControl
from etcompile.watch.reconciler import AFTER_A_BUG, Reconciler, Result
from etcompile.watch.reflector import Reflector
from etcompile.watch.runs import Runs
from etcompile.watch.store import Store
from etcompile.watch.workqueue import JobKey, WorkQueue

_log = logging.getLogger("etcompile.watch")

# In seconds, unless said otherwise.
_LONGEST_UNTIL = 86_400.0  # until a job is looked at again, whatever times are in it
_AFTER_QUOTA = 0.5  # after a quota has changed: more may change
_TRUST_AGAIN = 1.0  # between two looks for namespaces whose jobs the watcher has just met
_LEAST_REST = 5.0
_REST = 10  # times as long as a list took, until another one for what was turned away
_TRIES = 5  # looks at a job that fail before `--once` gives it up
_STOPPING = 10.0  # that looks under way have when the watcher is to stop


class Choices(Struct, frozen=True):
    """What a watcher is to do."""

    namespaces: tuple[str, ...] | None  # None for all
    selector: Selector = Selector()
    threads: int = 6  # jobs that are reconciled side by side
    requests: int = 16  # about Pods of these, side by side
    timeouts: Timeouts = Timeouts()


class Watcher:
    """A watcher.

    Args:
        cluster: Its requests should be sent once: a job is decided about again after a failure.
        identity: Which watcher this is.
        leading: Who may act; None for this watcher, always.
    """

    def __init__(
        self,
        cluster: Cluster,
        choices: Choices,
        *,
        identity: str,
        leading: LeaderElection | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._cluster = cluster
        self._choices = choices
        self._leading = leading
        if leading is not None:
            leading.changed = self.led
        self._stop = threading.Event()
        self._queue = WorkQueue()
        shared = choices.namespaces is None or len(choices.namespaces) > 1
        self._store = Store(self._queue.want, memory_budget(shared=shared), cluster.now)
        self._synced_at = 0.0
        self._trusted: set[str] = set()  # namespaces of which it was reported
        self._events = EventRecorder(
            cluster,
            may_act=self._may_act,
            identity=identity,
            counted=lambda status: self.metrics.writes.labels("create", "Event", status).inc(),
        )
        self._pool = ThreadPoolExecutor(choices.requests, thread_name_prefix="requests")
        self._memory = Memory()
        executor = ActionExecutor(
            ObjectControl(cluster, self._store, self._may_act, self.metrics),
            self._events,
            LogReader(cluster, self._store, self._events, self._pool),
            self._pool,
            self._memory,
        )
        notices = Notices(self._store, self._events, self._memory)
        self._reconciler = Reconciler(
            cluster,
            self._store,
            executor,
            Runs(cluster, self._store, choices.selector, notices, self._memory),
            notices,
            self._memory,
            choices.timeouts,
            self._stop.is_set,
        )
        # ConfigMaps first: a Pod means nothing without its job.
        store, places = self._store, choices.namespaces or (None,)
        self._streams = [
            Reflector(cluster, version, kind, place, JOB_LABEL, saw, store.left, self._restarted)
            for version, kind, saw in (
                ("v1", "ConfigMap", store.saw_map),
                ("batch/v1", "Job", store.saw_batch),
                ("v1", "Pod", store.saw_pod),
            )
            for place in places
        ]
        # A Pod that a quota refused is tried again as soon as the quota changes. Nothing waits for
        # these streams.
        kind, saw = "ResourceQuota", self._saw_quota
        self._quotas = [
            Reflector(cluster, "v1", kind, place, "", saw, None, self._restarted)
            for place in places
        ]
        self._threads: list[threading.Thread] = []
        self.metrics.computed(self._gauges)

    def start(self) -> None:
        """Starts to follow everything, and to act once that is complete."""
        for stream in (*self._streams, *self._quotas):
            self._run(f"stream {stream.kind}", partial(stream.run, self._stop))
        self._run("events", self._events.run)
        for number in range(self._choices.threads):
            self._run(f"look {number}", self._reconcile_jobs)
        self._run("sync", self._sync)

    def stop(self) -> None:
        """Lets looks under way end, and ends everything else."""
        self._stop.set()
        self._queue.close()
        self._events.close()
        end = time.monotonic() + _STOPPING
        for thread in self._threads:
            if not thread.name.startswith("stream"):
                thread.join(max(0.0, end - time.monotonic()))
        self._pool.shutdown(wait=False, cancel_futures=True)

    def once(self) -> None:
        """Lists everything, does what is to be done now, and returns.

        Raises:
            ClusterError: the cluster cannot be read.
        """
        self._list()
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
        _log.info("became leader" if leads else "stopped leading")
        if leads:
            self._want_all()

    def ready(self) -> Answer:
        """Whether everything has been seen once."""
        missing = [stream.kind for stream in self._streams if not stream.synced.is_set()]
        return not missing, f"not synced yet: {', '.join(missing)}" if missing else "ready"

    def healthy(self) -> Answer:
        """Whether all threads are alive."""
        dead = [t.name for t in self._threads if not t.is_alive() and t.name != "sync"]
        well = not dead or self._stop.is_set()
        return well, "healthy" if well else f"threads have ended: {', '.join(dead)}"

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
            self._queue.want(key)

    def _sync(self) -> None:
        """Waits until everything was listed once; then looks after what is true of all jobs."""
        for stream in self._streams:
            while not stream.synced.wait(0.2):
                if self._stop.is_set():
                    return
        self._synced()
        listed_at = rest = 0.0
        while not self._stop.wait(_TRUST_AGAIN):
            self._report_trust()
            begun = time.monotonic()
            if begun > listed_at + rest and self._store.memory_freed():
                # Looks again at what there was no memory for when it was seen.
                try:
                    self._list()
                except ClusterError as error:
                    _log.warning("cannot list the objects that memory was too small for: %s", error)
                    self._store.list_again()
                self._want_all()
                # Who fills the memory and empties it again must not keep the watcher busy.
                listed_at = time.monotonic()
                rest = _REST * (listed_at - begun) + _LEAST_REST

    def _list(self) -> None:
        for stream in self._streams:
            stream.list(self._cluster.resource(stream.api_version, stream.kind))

    def _synced(self) -> None:
        self._synced_at = self._cluster.now()
        _log.info("watching: jobs: %d, Pods: %d", *self._store.counts())
        self._want_all()
        self._report_trust()
        report_missing(self._cluster, self._choices.namespaces)

    def _report_trust(self) -> None:
        """Says once whom the watcher trusts in namespaces: all that it has jobs in."""
        jobs = {namespace for namespace, _ in self._store.known()}
        before, self._trusted = self._trusted, {*(self._choices.namespaces or jobs)}
        if new := self._trusted - before:
            report_trust(self._cluster, sorted(new))

    def _saw_quota(self, quota: LiveObject, *, gone: bool) -> None:  # noqa: ARG002 - as the store
        at = time.monotonic() + _AFTER_QUOTA
        for key in self._reconciler.quota_changed(quota["metadata"]["namespace"]):
            self._queue.soon(key, at)

    def _restarted(self, kind: str, reason: str, error: ClusterError) -> None:
        if kind == "ResourceQuota" and error.status == 403:
            return  # `report_missing` says so once
        self.metrics.restarts.labels(kind, reason).inc()
        _log.warning("restarting the watch of %s: %s", kind, error)

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _gauges(self) -> Iterator[GaugeMetricFamily]:
        ratios: dict[tuple[str, ...], float] = {}
        reasons: dict[tuple[str, ...], float] = {}
        jobs, pods = self._store.counts()
        if self._may_act():
            ratios = {key: own.ratio for key, own in self._reconciler.goodputs()}
            reasons = {(reason,): own for reason, own in self._memory.unsupervised().items()}
        words = "Seconds in training divided by the seconds since the run began, by job."
        yield gauge("goodput_ratio", words, ratios, "job_namespace", "job_name")
        words = "Jobs that the watcher cannot look after, by reason."
        yield gauge("unsupervised", words, reasons, "reason")
        yield gauge("queue_depth", "Jobs in the work queue.", {(): self._queue.depth})
        yield gauge("jobs", "Number of watched jobs.", {(): jobs})
        yield gauge("pods", "Number of watched Pods.", {(): pods})
