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
from typing import Any, Literal

from msgspec import Struct, structs
from prometheus_client.core import GaugeMetricFamily

from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import LARGEST_COPY, StoredRun
from etcompile.k8s.objects import LiveObject
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.backoff import backoff
from etcompile.kubeapi.controller.endpoints import Answer
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.informer import Informer
from etcompile.kubeapi.controller.lease import Lease
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.kubeapi.controller.work_queue import WorkQueue
from etcompile.model.protocol import JOB_LABEL, STORED_JOB, WATCHER
from etcompile.model.run_record import (
    ANOTHER_RUN,
    RUN,
    UNREADABLE,
    VERSION,
    RunRecord,
    newer_version,
    read_record,
)
from etcompile.watch.core.act import (
    ActionExecutor,
    BlockedError,
    Case,
    NotLeaderError,
    OutdatedError,
)
from etcompile.watch.core.actions import EmitEvent, RemoveJob, Requeue
from etcompile.watch.core.decide import decide
from etcompile.watch.core.ledger import JobMemory, ReadRun
from etcompile.watch.core.observe import REPLICAS, SeenJob, SeenMap, Store, bounded
from etcompile.watch.core.reports import Metrics, gauge, report, say
from etcompile.watch.core.run import Listener
from etcompile.watch.core.view import JobView, Timeouts, hosts_record

_log = logging.getLogger("etcompile.watch")

Result = Literal["done", "again", "stopped"]
"""Nothing is left to do now; something failed, or more is to be done; nothing may be done."""

# In seconds, unless said otherwise.
_AFTER_A_BUG = 60.0  # until a job is reconciled again that the watcher failed at
_LONGEST_UNTIL = 86_400.0  # until a job is reconciled again, whatever times are in it
_HEAL_AFTER = 60.0  # until jobs that were beyond a cap are read again
_STOPPING = 10.0  # for reconciliations under way when the watcher is to stop
_FIRST_WAIT = 0.05
_WHILE_TERMINATING = 60.0  # until something is created again in such a namespace
_UNTIL_REMOVAL_IS_ALLOWED = 3600.0
_TRIES = 5  # reconciliations that fail before `--once` gives a job up
_ROUNDS = 8  # of one job in a row; then others have their turn
_MOST_GONE = 100  # Pods that are remembered, besides as many as a job has replicas
_PAGE = 100  # objects of a list's page: with more, their JSON would be most of the memory used
_PAGES = {"ConfigMap": 20}  # whose objects may have a megabyte each
_BUG = (
    "InternalError",
    "the watcher cannot supervise this job because of a bug; see its log. Other jobs go on",
)


class Choices(Struct, frozen=True):
    """What a watcher is to do."""

    namespaces: tuple[str, ...] | None  # None for all
    threads: int = 6  # jobs that are reconciled side by side
    requests: int = 16  # about Pods of these, side by side
    timeouts: Timeouts = Timeouts()


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
            counted=lambda status: self.metrics.writes.labels("create", "Event", status).inc(),
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
                partial(_observe, changed),
                partial(self._store.left, kind, namespace),
                partial(self._restarted, kind),
                labels=JOB_LABEL,
                limit=_PAGES.get(kind, _PAGE),
            )
            for version, kind, changed in (
                ("v1", "ConfigMap", self._store.observe_map),
                ("batch/v1", "Job", self._store.observe_batch),
                ("v1", "Pod", self._store.observe_pod),
            )
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
            for _ in range(_TRIES):
                again, outcome = self.reconcile(key)
                if outcome != "again":
                    break
                time.sleep(self._until(again or 0.0))
        self._pool.shutdown()
        self._events.close()
        self._events.run()

    def led(self, leads: bool) -> None:  # noqa: FBT001 - an event's value
        self.metrics.leads.set(leads)
        if leads:
            _log.info("became leader")
            self._enqueue_all()
            return
        leading, why = self._leading, "it was told to stop"
        if leading is not None and not self._stop.is_set():
            why = f"{leading.holder} leads" if leading.holder else "the Lease was renewed too late"
            if leading.problem:
                why = f"the Lease cannot be renewed: {leading.problem}"
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
                self.metrics.reconciles.labels(outcome).inc()
                self.metrics.reconcile_seconds.observe(time.monotonic() - begun)
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
            if self._store.may_read_again():
                for memory in [*self._memory.values()]:
                    if memory.declared is not None and memory.declared.problem:
                        memory.declared = None
                for informer in self._informers:
                    if informer.kind == "ConfigMap":
                        informer.relist()
                self._enqueue_all()

    def _synced(self) -> None:
        self._synced_at = self.now
        _log.info("watching: jobs: %d, Pods: %d", *self._store.counts())
        self._enqueue_all()

    def _restarted(self, kind: str, error: ClusterError) -> bool:
        self.metrics.restarts.labels(kind, "expired" if error.expired else "error").inc()
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
        """Reconcile a job until nothing is left to do.

        Returns:
            When to reconcile it again, in seconds since 1970, None if nothing calls for it; and
            the result.
        """
        if self._synced_at == 0.0 or not self._may_act():
            return None, "stopped"  # all jobs are queued once that changes
        memory = self._memory.setdefault(key, JobMemory())
        try:
            again = self._settle(key, memory)
        except NotLeaderError:
            return None, "stopped"
        except OutdatedError:
            return self._later(memory), "again"
        except BlockedError as error:
            self._blocked(key, memory, error.reason, str(error))
            removal = self.now + _UNTIL_REMOVAL_IS_ALLOWED
            return removal if error.reason == "NotRemoved" else self._later(memory), "again"
        except ClusterError as error:
            if error.reason == "Interrupted" or self._stop.is_set():
                return None, "stopped"
            if error.terminating:
                # Every Pod of it that goes is an event, and none of them can come back.
                due, seen = self.now + _WHILE_TERMINATING, self._store.job(key)
                memory.paused = seen.config_metadata.get("uid", "") if seen else "", due
                say(logging.INFO, key, "its namespace is being deleted: nothing is created in it")
                return due, "stopped"
            # Did the API server say no, rather than nothing or later?
            if error.status is not None and 400 <= error.status < 500 and error.status != 429:
                self._blocked(key, memory, "Refused", str(error))
            else:
                say(logging.WARNING, key, str(error))
            return max(self._later(memory), self.now + (error.retry_after or 0)), "again"
        except Exception as error:
            known = isinstance(error, StoredJobError)  # it could be read, but no Pods made of it
            _log.exception("%s/%s: %s", *key, error if known else "this is a bug")
            reason, message = (UNREADABLE, f"cannot be read: {error}") if known else _BUG
            self._blocked(key, memory, reason, message)
            return self.now + _AFTER_A_BUG, "again"
        if not memory.is_refused:
            memory.failures = 0
            return again, "done"
        # What is refused is not sent before its time, and stays a failure until it was accepted.
        wait = self.now + (memory.wait() or 0.1)  # none if its time is over by now
        return wait if again is None else min(again, wait), "again"

    def _settle(self, key: JobKey, memory: JobMemory) -> float | None:
        """Decide and act until nothing more is decided; return when to decide again."""
        for _ in range(_ROUNDS):
            seen = self._store.job(key)
            if seen is None or seen.config is None:
                if self._memory.pop(key, memory).since is not None:
                    say(logging.INFO, key, "no longer supervised: its ConfigMap is gone")
                if seen is not None:
                    self._executor.take_back(key, seen)
                return None
            declared, status = self._declared(key, memory, seen), seen.status
            # A record may be of thousands of replicas, and mostly was read before.
            record = memory.view.record if memory.view and memory.status is status else None
            if record is None and status is not None and (declared.run or declared.problem):
                record = read_record(status.data)
            previous = self._previous(key, memory, seen, declared, record)
            run = (previous.run if previous is not None else None) or declared.run
            if run is None:
                memory.view = None
                memory.retain()
                memory.unsupervised(UNREADABLE)
                return None
            if status is not None and not self._reads_record(key, memory, status, record):
                memory.unsupervised("NewerRecord")
                return None
            uid, until = memory.paused
            if uid == run.uid and (until is None or self.now < until):
                return until
            most = _MOST_GONE + sum(len(role.members) for role in run.job.roles)
            if len(seen.gone) > most:
                self._store.forget_gone(key, most)
            case = Case(key, run, seen, record, memory)
            self._executor.create_secrets(case)
            memory.view, memory.status = self._view(case, declared), status
            actions = decide(memory.view, self.now, self._listeners)
            _log.debug("%s/%s: %s", *key, actions)
            times = [action.at for action in actions if isinstance(action, Requeue)]
            memory.requeue = again = min(times, default=None)
            acted = self._executor.act(case, actions)
            if any(isinstance(action, RemoveJob) for action in actions):
                memory.paused = run.uid, None
            if acted:
                continue
            if previous is not None and previous.run is None:
                memory.unsupervised(ANOTHER_RUN)  # nobody can read any more what that was
            elif not memory.is_refused and (lost := memory.supervised()) is not None:
                first = f"supervised: run {run.spec_hash}, Pods: {len(run.names)}"
                message = f"supervised again after {lost:.1f} s" if lost else first
                say(logging.INFO, key, message, reason="Supervised")
            return again
        # There was always more to do: others have their turn.
        raise OutdatedError

    def _later(self, memory: JobMemory) -> float:
        memory.failures += 1
        wait = backoff(memory.failures)
        if memory.requeue is not None:
            # What the rules wait for does not wait for what has failed.
            wait = max(min(wait, memory.requeue - self.now), _FIRST_WAIT)
            memory.requeue = None
        return self.now + wait

    def _declared(self, key: JobKey, memory: JobMemory, seen: SeenJob) -> ReadRun:
        config, maps = seen.config, seen.maps.values()
        problem = next(
            (f"{seen_map.name}: {seen_map.problem}" for seen_map in maps if seen_map.problem), ""
        )
        known, version = memory.declared, f"{config.version if config else 0} {problem}"
        if known is not None and known.version == version:
            return known
        run = None
        try:
            if problem or config is None:
                raise StoredJobError(problem)
            with self._reading:
                run = StoredRun(config.value, REPLICAS)
            replicas = sum(len(role.members) for role in run.job.roles)
            if not self._store.counts_replicas(key, replicas):
                many = f"more than {REPLICAS} replicas"
                raise StoredJobError(f"the jobs of its namespace have {many}")
        except StoredJobError as error:
            run, problem = None, str(error)
            event = EmitEvent(UNREADABLE, f"cannot be read: {error}", warning=True)
            report(self._events, key, event, seen.config_metadata, line=f"not supervised: {error}")
        memory.declared = read = ReadRun(version, run, problem)
        return read

    def _previous(
        self,
        key: JobKey,
        memory: JobMemory,
        seen: SeenJob,
        declared: ReadRun,
        record: RunRecord | None,
    ) -> ReadRun | None:
        """Read the run that is supervised instead of the declared one; None if that is."""
        run, config, status = declared.run, seen.config, seen.status
        known, memory.previous = memory.previous, None
        if config is None or config.problem or status is None or record is None:
            return None
        pods = [pod.view for pod in seen.pods.values()]
        if run is not None and (
            record.run == run.spec_hash or any(pod.spec_hash == run.spec_hash for pod in pods)
        ):
            return None
        pods_of_run = [pod for pod in pods if pod.spec_hash == record.run]
        if not pods_of_run or (
            all(pod.deleting for pod in pods_of_run) and record.phase != "Restarting"
        ):
            return None
        version = f"{config.version} {status.data.get(RUN, '')}"
        if known is None or known.version != version:
            try:
                known = ReadRun(version, self._copy(config, status, record.run))
            except StoredJobError as error:
                known = ReadRun(version, None)
                describes = f"describes run {run.spec_hash}" if run else "cannot be read"
                message = (
                    f"the ConfigMap {describes}, but the Pods are of run {record.run}, which the "
                    f"watcher can no longer manage: {error}"
                )
                event = EmitEvent(ANOTHER_RUN if run else UNREADABLE, message, warning=True)
                report(self._events, key, event, seen.config_metadata, version)
        memory.previous = known
        return known

    def _copy(self, config: SeenMap, status: SeenMap, spec_hash: str) -> StoredRun:
        """Read the copy beside the run record; StoredJobError if it is not of that run."""
        maps = self._cluster.resource("v1", "ConfigMap")
        field, namespace = f"metadata.name={status.name}", status.metadata["namespace"]
        copies = self._cluster.list(maps, namespace, fields=field).items
        text: Any = next(((copy.get("data") or {}).get(RUN) for copy in copies), None)
        if RUN not in status.data or not isinstance(text, str) or len(text) > LARGEST_COPY:
            raise StoredJobError("there is no copy of it")
        run = StoredRun({**config.value, "data": {STORED_JOB: text}}, REPLICAS)
        if run.spec_hash != spec_hash:
            raise StoredJobError(f"the copy of it is of run {run.spec_hash}")
        return run

    def _reads_record(
        self, key: JobKey, memory: JobMemory, status: SeenMap, record: RunRecord | None
    ) -> bool:
        """Report a record that cannot be read; return False if a newer watcher can read it."""
        version, message = newer_version(status.data), ""
        if version is not None:
            message = (
                f"the run record has version {version}, but this watcher reads versions up to "
                f"{VERSION}: it does not supervise the job and leaves the record as it is; run "
                "the newer watcher, or delete this ConfigMap to start a new run"
            )
        elif record is None and status.data.get("record"):
            message = "the run record cannot be read: the history of the run is lost"
        if message and memory.is_new("record", str(status.version)):
            event = EmitEvent("UnreadableRecord", message, warning=True)
            line = f"ConfigMap {status.name}: {message}"
            report(self._events, key, event, status.metadata, str(status.version), line)
        return version is None

    def _view(self, case: Case, declared: ReadRun) -> JobView:
        seen, run = case.seen, case.run
        jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
        roles = {role.name: role for role in run.job.roles}

        def of_run(pod: PodState) -> PodState:
            """Return a Pod; without its hash if it only looks like the job's."""
            if pod.spec_hash != run.spec_hash or (role := roles.get(pod.role)) is None:
                return pod
            if role.batch is not None:
                is_ours = pod.controller in jobs
            else:
                is_ours = not pod.controller and run.names.get(pod.name, role) is role
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
            record=case.record,
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
            copied=not seen.status or run.copy_digest in (None, seen.status.data.get(RUN)),
            superseded=run is not declared.run,
            unreadable=declared.problem,
        )

    def _blocked(self, key: JobKey, memory: JobMemory, reason: str, message: str) -> None:
        """Report what prevents the watcher from supervising a job, each problem once."""
        line, seen = f"not supervised: {message}", self._store.job(key)
        is_new = memory.unsupervised(reason)
        # Another number is no other refusal: replicas and quotas have many.
        text = re.sub(r"[0-9]+", "#", message) if reason == "Refused" else message
        if memory.is_new("failure", f"{reason} {text}"):
            config = seen.config_metadata if seen is not None else {}
            report(self._events, key, EmitEvent(reason, message, warning=True), config, line=line)
        elif is_new:
            say(logging.WARNING, key, line, reason=reason)


def _observe(observe: Callable[..., None], value: LiveObject, gone: bool) -> None:  # noqa: FBT001
    observe(bounded(value), gone=gone)
