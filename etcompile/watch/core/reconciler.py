"""Reconcile one job: find its run, decide, act, and decide again until nothing is left to do.

Nothing is begun here that would have to be resumed: when a request fails, the job is reconciled
later, and what is to be done is decided again. A job is in the hands of one thread at a time. One
that fails, also by a bug of ours, must not take another one down.

**The supervised run** is the copy of the job beside the run record: an apply that changes the
ConfigMap and is then refused the Pods leaves the Pods of the old run. The declared job becomes the
supervised one when a Pod of it is there, or no Pod of the old run is left.

**A Pod is the job's** if the job declares its name, it has the run's hash, and no other controller
owns it. Labels and annotations are anybody's who may create a Pod (docs/security.md).
"""

import logging
import re
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal

from msgspec import Struct, field, structs

from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import LARGEST_COPY, StoredRun
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.backoff import backoff
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.protocol import STORED_JOB
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
from etcompile.watch.core.actions import Action, EmitEvent, RemoveJob, Requeue
from etcompile.watch.core.ledger import JobMemory, Memory, ReadRun
from etcompile.watch.core.observe import REPLICAS, SeenJob, SeenMap, Store
from etcompile.watch.core.reports import report, say
from etcompile.watch.core.view import UNREAD, JobView, Timeouts, hosts_record

_log = logging.getLogger("etcompile.watch")

Result = Literal["done", "again", "stopped"]
"""Nothing is left to do now; something failed, or more is to be done; nothing may be done."""

AFTER_A_BUG = 60.0
"""Seconds until a job is reconciled again that the watcher failed at."""
_FIRST_WAIT = 0.05
_BUG = (
    "InternalError",
    "the watcher cannot supervise this job because of a bug; see its log. Other jobs go on",
)
_WHILE_TERMINATING = 60.0  # seconds until something is created again in such a namespace
_UNTIL_REMOVAL_IS_ALLOWED = 3600.0
_MOST_GONE = 100  # Pods that are remembered, besides as many as a job has replicas
_ROUNDS = 8  # of one job in a row; then others have their turn


class Reconciler(Struct, frozen=True):
    """Reconciles jobs; safe to share between threads that reconcile different ones."""

    cluster: Cluster
    store: Store
    executor: ActionExecutor
    events: EventRecorder
    memory: Memory
    timeouts: Timeouts
    stopping: Callable[[], bool]
    decide: Callable[[JobView, float], tuple[Action, ...]]
    # Reading a large job takes many times its size for a moment.
    one_at_a_time: AbstractContextManager[object] = field(default_factory=threading.Lock)

    def reconcile(self, key: JobKey, since: float) -> tuple[float | None, Result]:
        """Reconcile a job until nothing is left to do.

        Args:
            since: Since when everything is seen, in seconds since 1970.

        Returns:
            When to reconcile it again, in seconds since 1970, None if nothing calls for it; and
            the result.
        """
        memory, now = self.memory.of(key), self.cluster.now
        try:
            again = self._settle(key, memory, since)
        except NotLeaderError:
            return None, "stopped"
        except OutdatedError:
            return self._later(memory), "again"
        except BlockedError as error:
            self._blocked(key, memory, error.reason, str(error))
            removal = now() + _UNTIL_REMOVAL_IS_ALLOWED
            return removal if error.reason == "NotRemoved" else self._later(memory), "again"
        except ClusterError as error:
            if error.reason == "Interrupted" or self.stopping():
                return None, "stopped"
            if error.terminating:
                # Every Pod of it that goes is an event, and none of them can come back.
                due, seen = now() + _WHILE_TERMINATING, self.store.job(key)
                memory.paused = seen.config_metadata.get("uid", "") if seen else "", due
                say(logging.INFO, key, "its namespace is being deleted: nothing is created in it")
                return due, "stopped"
            # Did the API server say no, rather than nothing or later?
            if error.status is not None and 400 <= error.status < 500 and error.status != 429:
                self._blocked(key, memory, "Refused", str(error))
            else:
                say(logging.WARNING, key, str(error))
            return max(self._later(memory), now() + (error.retry_after or 0)), "again"
        except Exception as error:
            # One job that nobody thought of must not take all others down (reference defect 3).
            known = isinstance(error, StoredJobError)  # it could be read, but no Pods made of it
            _log.exception("%s/%s: %s", *key, error if known else "this is a bug")
            reason, message = (UNREADABLE, f"cannot be read: {error}") if known else _BUG
            self._blocked(key, memory, reason, message)
            return now() + AFTER_A_BUG, "again"
        if not memory.is_refused:
            memory.failures = 0
            return again, "done"
        # What is refused is not sent before its time, and stays a failure until it was accepted.
        wait = memory.wait() or 0.1  # none if its time is over by now
        return now() + wait if again is None else min(again, now() + wait), "again"

    def _settle(self, key: JobKey, memory: JobMemory, since: float) -> float | None:
        """Decide and act until nothing more is decided; return when to decide again."""
        for _ in range(_ROUNDS):
            seen = self.store.job(key)
            if seen is None or seen.config is None:
                forgotten = self.memory.forget(key)
                if forgotten is not None and forgotten.met:
                    say(logging.INFO, key, "no longer supervised: its ConfigMap is gone")
                if seen is not None:
                    self.executor.take_back(key, seen)
                return None
            declared = self._declared(key, memory, seen)
            status = seen.status
            # What is written there may be of thousands of replicas, and mostly was read before.
            shown = memory.view if memory.status is status else None
            record = shown.record if shown is not None else None
            if shown is None and status is not None and (declared.run or declared.problem):
                record = read_record(status.data)
            previous = self._previous(key, memory, seen, declared, record)
            run = (previous.run if previous is not None else None) or declared.run
            if run is None:
                memory.view = None
                memory.retain()
                memory.unsupervised(UNREADABLE)
                return None
            if status is not None and (version := newer_version(status.data)) is not None:
                message = (
                    f"the run record has version {version}, but this watcher reads versions up to "
                    f"{VERSION}: it does not supervise the job and leaves the record as it is; run "
                    "the newer watcher, or delete this ConfigMap to start a new run"
                )
                self._report_record(key, memory, status, message)
                memory.unsupervised("NewerRecord")
                return None
            uid, until = memory.paused
            if uid == run.uid and (until is None or self.cluster.now() < until):
                return until
            most = _MOST_GONE + sum(len(role.members) for role in run.job.roles)
            if len(seen.gone) > most:
                self.store.forget_gone(key, most)
            case = Case(key, run, seen, record)
            self.executor.create_secrets(case)
            memory.view, memory.status = self._view(case, declared, since), status
            if record is None and status is not None and status.data.get("record"):
                # A new one is written.
                message = "the run record cannot be read: the history of the run is lost"
                self._report_record(key, memory, status, message)
            actions = self.decide(memory.view, self.cluster.now())
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s/%s: %s", *key, actions)
            times = [action.at for action in actions if isinstance(action, Requeue)]
            memory.requeue = again = min(times, default=None)
            acted = self.executor.act(case, actions)
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
        # Whatever was done, there was more to do: others have their turn, and no hurry is worth it.
        raise OutdatedError

    def _later(self, memory: JobMemory) -> float:
        memory.failures += 1
        wait, now = backoff(memory.failures), self.cluster.now()
        if memory.requeue is not None:
            # What the rules want to be asked at does not wait for what has failed.
            wait = max(min(wait, memory.requeue - now), _FIRST_WAIT)
            memory.requeue = None
        return now + wait

    # ---- which run -----------------------------------------------------------------------------

    def _declared(self, key: JobKey, memory: JobMemory, seen: SeenJob) -> ReadRun:
        """Read the job that its ConfigMap declares, once."""
        config, maps = seen.config, seen.maps.values()
        problem = next((f"{own.name}: {own.problem}" for own in maps if own.problem), "")
        known, version = memory.declared, f"{config.version if config else 0} {problem}"
        if known is not None and known.version == version:
            return known
        run = None
        try:
            if problem or config is None:
                raise StoredJobError(problem)
            with self.one_at_a_time:
                run = StoredRun(config.value, REPLICAS)
            replicas = sum(len(role.members) for role in run.job.roles)
            if not self.store.counts_replicas(key, replicas):
                many = f"more than {REPLICAS} replicas"
                raise StoredJobError(f"the jobs of its namespace have {many}")
        except StoredJobError as error:
            run, problem = None, str(error)
            event = EmitEvent(UNREADABLE, f"cannot be read: {error}", warning=True)
            self._report(key, event, f"not supervised: {error}")
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
        wanted = record.run
        hashes = {pod.view.spec_hash for pod in seen.pods.values()}
        if run is not None and (wanted == run.spec_hash or run.spec_hash in hashes):
            return None
        own = [pod.view for pod in seen.pods.values() if pod.view.spec_hash == wanted]
        if not own or (all(pod.deleting for pod in own) and record.phase != "Restarting"):
            return None
        version = f"{config.version} {status.data.get(RUN, '')}"
        if known is None or known.version != version:
            try:
                known = ReadRun(version, self._copy(config, status, wanted))
            except StoredJobError as error:
                known = ReadRun(version, None)
                describes = f"describes run {run.spec_hash}" if run else "cannot be read"
                message = (
                    f"the ConfigMap {describes}, but the Pods are of run {wanted}, which the "
                    f"watcher can no longer manage: {error}"
                )
                event = EmitEvent(ANOTHER_RUN if run else UNREADABLE, message, warning=True)
                self._report(key, event, "", version)
        memory.previous = known
        return known

    def _copy(self, config: SeenMap, status: SeenMap, spec_hash: str) -> StoredRun:
        """Read the copy beside the run record; StoredJobError if it is not of that run."""
        maps = self.cluster.resource("v1", "ConfigMap")
        fields, namespace = f"metadata.name={status.name}", status.metadata["namespace"]
        copies = self.cluster.list(maps, namespace, fields=fields).items
        text: Any = next(((copy.get("data") or {}).get(RUN) for copy in copies), None)
        if RUN not in status.data or not isinstance(text, str) or len(text) > LARGEST_COPY:
            raise StoredJobError("there is no copy of it")
        run = StoredRun({**config.value, "data": {STORED_JOB: text}}, REPLICAS)
        if run.spec_hash != spec_hash:
            raise StoredJobError(f"the copy of it is of run {run.spec_hash}")
        return run

    def _view(self, case: Case, declared: ReadRun, since: float) -> JobView:
        """Return what the rules are shown of a job."""
        seen, run = case.seen, case.run
        jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
        roles = {role.name: role for role in run.job.roles}

        def of_run(pod: PodState) -> PodState:
            """Return a Pod; one that looks like the job's and is not without its hash."""
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
                # Who deletes a job and applies it again creates its Pods again, too.
                if gone.pod.created >= run.created
            },
            record=case.record,
            hosts=hosts_record(seen.hosts.data, seen.hosts.metadata) if seen.hosts else None,
            batch=known.view if known else None,
            git_managed=run.git_managed,
            watched_since=max(seen.since, since),
            declared_at=seen.config.written if seen.config else None,
            timeouts=self.timeouts,
            logs={pod.view.uid: pod.log for pod in seen.pods.values() if pod.log is not UNREAD},
            notes=seen.status.data if seen.status else {},
            config_uid=run.uid,
            config_created=run.created,
            copied=not seen.status or run.copy_digest in (None, seen.status.data.get(RUN)),
            superseded=run is not declared.run,
            unreadable=declared.problem,
        )

    # ---- what is reported, each thing once -----------------------------------------------------

    def _blocked(self, key: JobKey, memory: JobMemory, reason: str, message: str) -> None:
        """Report what keeps the watcher from supervising a job."""
        line = f"not supervised: {message}"
        is_new = memory.unsupervised(reason)
        # Another number is no other refusal: replicas and quotas have many.
        text = re.sub(r"[0-9]+", "#", message) if reason == "Refused" else message
        if memory.is_news("failure", f"{reason} {text}"):
            self._report(key, EmitEvent(reason, message, warning=True), line)
        elif is_new:
            say(logging.WARNING, key, line, reason=reason)

    def _report(self, key: JobKey, event: EmitEvent, line: str, version: str = "") -> None:
        """Report a job, by an Event about its ConfigMap and a line of the log."""
        seen = self.store.job(key)
        config = seen.config_metadata if seen is not None else {}
        report(self.events, key, event, config, version, line)

    def _report_record(self, key: JobKey, memory: JobMemory, status: SeenMap, message: str) -> None:
        version = str(status.version)
        if memory.is_news("record", version):
            event, line = (
                EmitEvent("UnreadableRecord", message, warning=True),
                f"ConfigMap {status.name}: {message}",
            )
            report(self.events, key, event, status.metadata, version, line)
