"""Run the watcher: streams, a queue of jobs, and threads that reconcile one job each.

Events of Pods come by the thousand, late, and not in the order of the answers to our requests. So
an event decides nothing: it changes what is known (`Store`) and puts its job into the queue.

A job is only reconciled while all kinds have been listed once (or a Pod that was not listed yet
would be created again), this watcher leads, and it is not stopping. When that changes, all jobs are
queued. One thread at a time reconciles a job, and one job that fails, also by a bug of ours, does
not stop another. Nothing has to be resumed: after a failed request, the next decision starts again.

**The supervised run** is the copy of the job beside the run record: if an apply changes the
ConfigMap and is then refused the Pods, the Pods of the old run stay. The declared job becomes the
supervised one when a Pod of it is there, or no Pod of the old run is left.

**A Pod is the job's** if the job declares its name, it has the run's hash, and no other controller
owns it. Anybody who may create Pods may set labels and annotations (docs/security.md).
"""

import logging
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Literal

from msgspec import Struct, field, structs
from prometheus_client.core import GaugeMetricFamily

from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.endpoints import Answer
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.informer import Informer
from etcompile.kubeapi.controller.lease import Lease
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.kubeapi.controller.work_queue import WorkQueue
from etcompile.model.protocol import JOB_LABEL, WATCHER
from etcompile.model.run_record import (
    ANOTHER_RUN,
    RUN,
    UNREADABLE,
    RunRecord,
    newer_version,
    read_record,
    unreadable,
)
from etcompile.watch.core.act import (
    RECONCILE,
    ActionExecutor,
    BlockedError,
    Case,
    Ledger,
    NotLeaderError,
    OutdatedError,
)
from etcompile.watch.core.decide import decide
from etcompile.watch.core.observe import REPLICAS, SeenJob, SeenMap, Store
from etcompile.watch.core.reports import report, say
from etcompile.watch.core.run import (
    EmitEvent,
    JobView,
    Listener,
    Requeue,
    Timeouts,
    hosts_record,
)
from etcompile.watch.metrics import Metrics, gauge

_log = logging.getLogger("etcompile.watch")

Result = Literal["done", "again", "stopped"]
"""Nothing is left to do now; something failed, or more is to be done; nothing may be done."""

# In seconds, unless said otherwise.
_AFTER_A_BUG = 60.0  # until a job is reconciled again that the watcher failed at
_LONGEST_UNTIL = 86_400.0  # until a job is reconciled again, whatever times are in it
_HEAL_AFTER = 60.0  # until jobs that were beyond a cap are read again
_STOPPING = 10.0  # for reconciliations under way when the watcher is to stop
_FIRST_WAIT = 0.05
_TRIES = 5  # reconciliations that fail before `--once` gives a job up
_ROUNDS = 8  # of acting in a row on one job that mean that something undoes what is done
_PAGE = 100  # objects of a list's page: with more, their JSON would be most of the memory used
_PAGES = {"ConfigMap": 20}  # whose objects may have a megabyte each
_BUG = (
    "InternalError",
    "the watcher cannot supervise this job because of a bug; see its log. Other jobs go on",
)


class Choices(Struct, frozen=True):
    """What a watcher is to do."""

    namespaces: tuple[str, ...] | None  # None for all
    threads: int = 8  # jobs that are reconciled side by side
    requests: int = 16  # about Pods of these, side by side
    timeouts: Timeouts = Timeouts()


class ReadRun(Struct, frozen=True):
    """What a job's ConfigMap says, or the copy beside the run record."""

    source: tuple[object, ...]  # what it was read from
    run: StoredRun | None = None  # None if it cannot be read
    problem: str = ""


class JobMemory(Struct):
    """What is remembered of a job that cannot be seen in the cluster.

    All of it may be forgotten at any time; that costs a compilation or a line of the log. Only the
    thread that reconciles the job uses it.
    """

    ledger: Ledger = field(default_factory=Ledger)
    declared: ReadRun = ReadRun(())  # what its ConfigMap says
    previous: ReadRun = ReadRun(())  # the run of its Pods, if the ConfigMap describes another one
    status: SeenMap | None = None  # the `J-status` that was last read
    record: RunRecord | None = None  # what that says
    is_newer: bool = False  # only a newer watcher can read it
    secrets: tuple[str, str] = ("", "")  # the ConfigMap's UID, and the Secret that has a key pair
    view: JobView | None = None  # of the last decision
    requeue: float | None = None  # when the rules want to decide again, in seconds since 1970
    rounds: int = 0  # of acting in a row
    reason: str = ""  # why the job is not supervised
    since: float | None = None  # when that began; None if it was never supervised

    def unsupervised(self, reason: str) -> bool:
        """Note why the job is not supervised; return whether that reason is new."""
        before, self.reason = self.reason, reason
        if not before:
            self.since = time.monotonic()
        return before != reason


class Watcher:
    """A watcher.

    Args:
        cluster: Sends each request once: after a failure, the watcher decides again.
        identity: Which watcher this is.
        leading: The election that says who may act; None for this watcher, always.
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
        self._cluster, self._choices, self._leading = cluster, choices, leading
        self._listeners = listeners
        if leading is not None:
            leading.changed = self.led
        counters = [listener.counters for listener in listeners]
        self.metrics = Metrics(
            {name: counter for part in counters for name, counter in part.items()}
        )
        self._stop = threading.Event()
        self._queue = WorkQueue()
        observers = [listener.observe for listener in listeners]
        self._store = Store(
            self._queue.enqueue, cluster.now, observers, namespaced=choices.namespaces is not None
        )
        self._memory: dict[JobKey, JobMemory] = {}
        self._reasons: set[str] = set()  # why jobs were not supervised: the metric keeps them, at 0
        self._synced_at = 0.0
        self._forbidden: set[str] = set()
        self._reading = threading.Lock()  # reading a large job takes many times its size
        self._events = EventRecorder(
            cluster,
            WATCHER,
            identity,
            may_act=self._may_act,
            counted=lambda status: self.metrics.increment("api_writes", "create", "Event", status),
            busy=lambda: not self._queue.idle,
        )
        self._pool = ThreadPoolExecutor(choices.requests, thread_name_prefix="requests")
        self._executor = ActionExecutor(
            cluster, self._store, self._may_act, self.metrics, self._events, self._pool
        )
        # ConfigMaps first: a Pod means nothing without its job.
        self._informers = [
            Informer(
                cluster,
                version,
                kind,
                namespace,
                partial(self._store.observe, kind),
                partial(self._store.left, kind, namespace),
                partial(self._restarted, kind),
                labels=JOB_LABEL,
                limit=_PAGES.get(kind, _PAGE),
            )
            for version, kind in (("v1", "ConfigMap"), ("batch/v1", "Job"), ("v1", "Pod"))
            for namespace in choices.namespaces or (None,)
        ]
        self._threads: list[threading.Thread] = []
        self.metrics.computed(self._gauges)

    def start(self) -> None:
        for informer in self._informers:
            self._run(f"informer of {informer.kind}", informer.run)
        self._run("events", self._events.run)
        for number in range(self._choices.threads):
            self._run(f"look {number}", self._reconcile_jobs)
        self._run("sync", self._sync)

    def stop(self) -> None:
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
            failures = 0
            while failures < _TRIES:
                again, outcome = self.reconcile(key)
                failures += outcome == "again"
                if again is None or (outcome == "done" and again > self.now):
                    break
                time.sleep(self._until(again))
        self._pool.shutdown()
        self._events.close()
        self._events.run()

    def led(self, leads: bool) -> None:  # noqa: FBT001 - an event's value
        self.metrics.leads.set(leads)
        if leads:
            _log.info("became leader")
            self._enqueue_all()
            return
        leading, why = self._leading, "the Lease was renewed too late"
        if leading is None or self._stop.is_set():
            why = "it was told to stop"
        elif leading.problem:
            why = f"the Lease cannot be renewed: {leading.problem}"
        elif leading.holder:
            why = f"{leading.holder} leads"
        _log.warning("stopped leading: %s", why)

    def ready(self) -> Answer:
        missing = [informer.kind for informer in self._informers if not informer.synced.is_set()]
        return not missing, f"not synced yet: {', '.join(missing)}" if missing else "ready"

    def healthy(self) -> Answer:
        dead = [t.name for t in self._threads if not t.is_alive() and t.name != "sync"]
        well = not dead or self._stop.is_set()
        return well, "healthy" if well else f"threads have ended: {', '.join(dead)}"

    def views(self) -> Iterator[tuple[JobKey, JobView]]:
        for key, memory in [*self._memory.items()] if self._may_act() else ():
            if memory.view is not None:
                yield key, memory.view

    @property
    def now(self) -> float:
        """Return the time of the API server, in seconds since 1970."""
        return self._cluster.now()

    @property
    def idle(self) -> bool:
        return self._queue.idle

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _reconcile_jobs(self) -> None:
        while (key := self._queue.take()) is not None:
            begun = time.monotonic()
            due: float | None = begun + _AFTER_A_BUG
            try:
                again, outcome = self.reconcile(key)
                self.metrics.increment("reconciles", outcome)
                self.metrics.seconds["reconcile_seconds"].observe(time.monotonic() - begun)
                due = None if again is None else time.monotonic() + self._until(again)
            except Exception:
                _log.exception("%s/%s: this is a bug", *key)
            finally:
                self._queue.done(key, due)

    def _until(self, at: float) -> float:
        return max(0.0, min(at - self.now, _LONGEST_UNTIL))

    def _may_act(self) -> bool:
        return self._leading is None or self._leading.valid

    def _enqueue_all(self) -> None:
        for key in {*self._memory, *self._store.known()}:
            self._queue.enqueue(key)

    def _sync(self) -> None:
        for informer in self._informers:
            while not informer.synced.wait(0.2):
                if self._stop.is_set():
                    return
        self._synced()
        while not self._stop.wait(_HEAL_AFTER):
            if self._store.refused:
                self._store.refused = False
                for memory in [*self._memory.values()]:
                    if memory.declared.problem:
                        memory.declared = ReadRun(())
                for informer in self._informers:
                    if informer.kind == "ConfigMap":
                        informer.relist()
                self._enqueue_all()

    def _synced(self) -> None:
        self._synced_at = self.now
        _log.info("watching: jobs: %d, Pods: %d", *self._store.counts())
        self._enqueue_all()

    def _restarted(self, kind: str, error: ClusterError) -> bool:
        self.metrics.increment("stream_restarts", kind, "expired" if error.expired else "error")
        # A missing right is reported once, and the watch goes on when it is there.
        if not (error.status == 403 and kind in self._forbidden):
            _log.warning("restarting the watch of %s: %s", kind, error)
        if error.status == 403:
            self._forbidden.add(kind)
        return True

    def _gauges(self) -> Iterator[GaugeMetricFamily]:
        jobs, pods = self._store.counts()
        blocked = Counter(memory.reason for memory in [*self._memory.values()] if memory.reason)
        self._reasons |= blocked.keys()
        reasons: dict[tuple[str, ...], float] = {}
        reasons |= {(reason,): blocked[reason] for reason in self._reasons if self._may_act()}
        words = "Jobs that the watcher cannot look after, by reason."
        yield gauge("unsupervised", words, reasons, "reason")
        yield gauge("queue_depth", "Jobs in the work queue.", {(): self._queue.depth})
        yield gauge("jobs", "Number of watched jobs.", {(): jobs})
        yield gauge("pods", "Number of watched Pods.", {(): pods})

    # ---- one job -------------------------------------------------------------------------------

    def reconcile(self, key: JobKey) -> tuple[float | None, Result]:
        """Reconcile a job.

        Returns:
            When to reconcile it again, in seconds since 1970, None if nothing calls for it; and
            the result.
        """
        if self._synced_at == 0.0 or not self._may_act():
            return None, "stopped"  # all jobs are queued once that changes
        memory = self._memory.setdefault(key, JobMemory())
        memory.requeue = None
        try:
            again = self._settle(key, memory)
        except NotLeaderError:
            return None, "stopped"
        except Exception as error:
            if self._stop.is_set() or (
                isinstance(error, ClusterError) and error.reason == "Interrupted"
            ):
                return None, "stopped"
            memory.ledger.failed(RECONCILE, least=self._reported(key, memory, error))
            again = memory.requeue  # what the rules wait for does not wait for what has failed
            if again is not None:
                again = max(again, self.now + _FIRST_WAIT)
        wait = memory.ledger.wait
        if wait is None:
            return again, "done"
        # What is refused is not sent before its time, and stays a failure until it was accepted.
        return min(again or float("inf"), self.now + wait), "again"

    def _reported(self, key: JobKey, memory: JobMemory, error: Exception) -> float:
        """Report what went wrong; return the least seconds until the job is reconciled again."""
        match error:
            case OutdatedError():
                return 0.0
            case BlockedError(reason=reason):
                self._blocked(key, memory, reason, str(error))
                return 0.0
            case ClusterError(terminating=True):
                message = "its namespace is being deleted: nothing is created in it"
                if memory.ledger.is_new(message):
                    say(logging.INFO, key, message)
                return 0.0
            case ClusterError(status=status):
                # Did the API server say no, rather than nothing or later?
                if status is not None and 400 <= status < 500 and status != 429:
                    self._blocked(key, memory, "Refused", str(error))
                else:
                    say(logging.WARNING, key, str(error))
                return error.retry_after or 0.0
        known = isinstance(error, StoredJobError)  # it was read, but no Pods made of it
        _log.error("%s/%s: %s", *key, error if known else "this is a bug", exc_info=error)
        reason, message = (UNREADABLE, f"cannot be read: {error}") if known else _BUG
        self._blocked(key, memory, reason, message)
        return _AFTER_A_BUG

    def _settle(self, key: JobKey, memory: JobMemory) -> float | None:
        """Decide on a job and act; return when to decide again: at once, if anything was done."""
        seen = self._store.job(key)
        if seen is None or seen.config is None:
            if self._memory.pop(key, memory).since is not None:
                say(logging.INFO, key, "no longer supervised: its ConfigMap is gone")
            if seen is not None:
                self._executor.take_back(key, seen)
            return None
        declared, status, ledger = self._declared(key, memory, seen), seen.status, memory.ledger
        if memory.status is not status:
            # It may be of thousands of replicas, and mostly was read before.
            memory.status, data = status, status.data if status is not None else {}
            memory.record, memory.is_newer = read_record(data), newer_version(data) is not None
            if status is not None and (message := unreadable(data)):
                event = EmitEvent("UnreadableRecord", message, warning=True)
                version, line = str(status.version), f"ConfigMap {status.name}: {message}"
                report(self._events, key, event, status.metadata, version, line)
        previous = self._previous(key, memory, seen, declared)
        run = (previous or declared).run or declared.run
        if run is None or memory.is_newer:
            memory.view = None
            ledger.retain()
            memory.unsupervised(UNREADABLE if run is None else "NewerRecord")
            return None
        case = Case(key, run, seen, ledger)
        credentials = run.job.credentials
        pair = run.uid, credentials.secret if credentials else ""
        if credentials is not None and not run.job.run.suspended and memory.secrets != pair:
            self._executor.create_secrets(case)
            memory.secrets = pair
        memory.view = self._view(case, memory.record, declared)
        actions = decide(memory.view, self.now, self._listeners)
        _log.debug("%s/%s: %s", *key, actions)
        times = (action.at for action in actions if isinstance(action, Requeue))
        memory.requeue = again = next(times, None)
        if self._executor.act(case, actions):
            memory.rounds += 1
            if memory.rounds % _ROUNDS == 0:
                raise OutdatedError  # there is always more to do
            return self.now
        memory.rounds = 0
        ledger.succeeded(RECONCILE)
        if previous is not None and previous.run is None:
            memory.unsupervised(ANOTHER_RUN)  # nobody can read any more what that was
        elif ledger.wait is None and (memory.reason or memory.since is None):
            message = f"supervised: run {run.spec_hash}, Pods: {len(run.names)}"
            if memory.reason and memory.since is not None:
                message = f"supervised again after {time.monotonic() - memory.since:.1f} s"
                ledger.resolved()
            memory.reason, memory.since = "", time.monotonic()
            say(logging.INFO, key, message, reason="Supervised")
        return again

    def _declared(self, key: JobKey, memory: JobMemory, seen: SeenJob) -> ReadRun:
        config = seen.config
        assert config is not None  # noqa: S101 - for the type checker
        maps = seen.maps.values()
        problem = next((f"{each.name}: {each.problem}" for each in maps if each.problem), "")
        if memory.declared.source == (source := (config.version, problem)):
            return memory.declared
        run = None
        try:
            if problem:
                raise StoredJobError(problem)
            with self._reading:
                run = StoredRun({"metadata": config.metadata, "data": config.data}, REPLICAS)
            if not self._store.counts_replicas(key, len(run.names)):
                many = f"more than {REPLICAS} replicas"
                raise StoredJobError(f"the jobs of its namespace have {many}")
        except StoredJobError as error:
            run, problem = None, str(error)
            event = EmitEvent(UNREADABLE, f"cannot be read: {error}", warning=True)
            report(self._events, key, event, config.metadata, line=f"not supervised: {error}")
        memory.declared = ReadRun(source, run, problem)
        return memory.declared

    def _previous(
        self, key: JobKey, memory: JobMemory, seen: SeenJob, declared: ReadRun
    ) -> ReadRun | None:
        """Read the run that is supervised instead of the declared one; None if that is."""
        run, config, status, record = declared.run, seen.config, seen.status, memory.record
        if config is None or config.problem or status is None or record is None:
            return None
        if run is not None and record.run == run.spec_hash:
            return None
        pods = [pod.view for pod in seen.pods.values()]
        of_record = [pod for pod in pods if pod.spec_hash == record.run]
        is_left = all(pod.deleting for pod in of_record) and record.phase != "Restarting"
        if not of_record or is_left or (run and any(p.spec_hash == run.spec_hash for p in pods)):
            return None
        text = status.data.get(RUN)
        if memory.previous.source != (source := (config.version, record.run, text)):
            memory.previous = ReadRun(source)
            try:
                copied = StoredRun.copied(config.metadata, text, record.run, REPLICAS)
                memory.previous = ReadRun(source, copied)
            except StoredJobError as error:
                describes = f"describes run {run.spec_hash}" if run else "cannot be read"
                message = (
                    f"the ConfigMap {describes}, but the Pods are of run {record.run}, which the "
                    f"watcher can no longer manage: {error}"
                )
                event = EmitEvent(ANOTHER_RUN if run else UNREADABLE, message, warning=True)
                report(self._events, key, event, config.metadata, str(config.version))
        return memory.previous

    def _view(self, case: Case, record: RunRecord | None, declared: ReadRun) -> JobView:
        seen, run = case.seen, case.run
        jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
        roles = {role.name: role for role in run.job.roles}

        def of_run(pod: PodState) -> PodState:
            """Return a Pod; without its hash if it only looks like the job's."""
            role = roles.get(pod.role)
            if pod.spec_hash != run.spec_hash or role is None:
                return pod
            is_ours = not pod.controller and run.names.get(pod.name, role) is role
            if role.batch is not None:
                is_ours = pod.controller in jobs
            return pod if is_ours else structs.replace(pod, spec_hash="")

        batch = next((role for role in run.job.roles if role.batch), None)
        name = batch.pod_name(batch.members[0]) if batch and batch.members else ""
        known = seen.batch.get(name)
        return JobView(
            job=run.job,
            settings=run.settings,
            namespace=case.key[0],
            spec_hash=run.spec_hash,
            pods={name: of_run(pod.view) for name, pod in seen.pods.items()},
            gone={
                name: structs.replace(gone, pod=of_run(gone.pod))
                for name, gone in seen.gone.items()
                # Deleting a job and applying it again creates its Pods again, too.
                if gone.pod.created >= run.created
            },
            record=record,
            hosts=hosts_record(seen.hosts.data, seen.hosts.metadata) if seen.hosts else None,
            batch=known.view if known else None,
            git_managed=run.git_managed,
            watched_since=max(seen.since, self._synced_at),
            declared_at=seen.config.written if seen.config else None,
            timeouts=self._choices.timeouts,
            logs={pod.view.uid: pod.logs for pod in seen.pods.values() if pod.logs},
            notes=seen.status.data if seen.status else {},
            config_uid=run.uid,
            config_created=run.created,
            copied=not seen.status or run.text == seen.status.data.get(RUN),
            superseded=run is not declared.run,
            unreadable=declared.problem,
        )

    def _blocked(self, key: JobKey, memory: JobMemory, reason: str, message: str) -> None:
        """Report what prevents the watcher from supervising a job, each problem once."""
        # Only the refused request waits; other work on the job goes on.
        how = "not fully" if reason in ("NameTaken", "Refused", "NotRemoved") else "not"
        line, seen = f"{how} supervised: {message}", self._store.job(key)
        is_new_reason = memory.unsupervised(reason)
        # Another number is no other refusal: replicas and quotas have many.
        text = re.sub(r"[0-9]+", "#", message) if reason == "Refused" else message
        if memory.ledger.is_new(f"{reason} {text}"):
            config = seen.config_metadata if seen is not None else {}
            report(self._events, key, EmitEvent(reason, message, warning=True), config, line=line)
        elif is_new_reason:
            say(logging.WARNING, key, line, reason=reason)
