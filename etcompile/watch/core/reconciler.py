"""One job, looked at: the rules are asked, what they say is done, and they are asked again.

Nothing is begun here that would have to be resumed: when a request fails, the job is looked at
later, and what is to be done is decided again. A job is in the hands of one thread at a time
(`workqueue`). One that fails, also by a bug of ours, must not take another one down.

What the store has of a job was written by others, and may be of another run, another controller, or
a job of this name that there was before. `_view` tells that apart: to the rules, a Pod that is
not of the run is of no run.
"""

import logging
from collections.abc import Callable, Collection
from typing import Literal

from msgspec import Struct, structs

from etcompile.compiler.stored import StoredJobError
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.backoff import backoff
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.run_record import ANOTHER_RUN, RUN, read_record
from etcompile.watch.core.act import ActionExecutor
from etcompile.watch.core.actions import Action, RemoveJob, Requeue
from etcompile.watch.core.ledger import JobMemory, Memory, ReadRun, RunMemory
from etcompile.watch.core.notices import Notices
from etcompile.watch.core.observe import Case, SeenJob, Store
from etcompile.watch.core.reports import say
from etcompile.watch.core.requests import BlockedError, NotLeaderError, OutdatedError, take_back
from etcompile.watch.core.runs import Runs, strangers
from etcompile.watch.core.view import UNREAD, JobView, Timeouts, hosts_record

_log = logging.getLogger("etcompile.watch")

Result = Literal["done", "again", "stopped"]
"""Nothing is left to do now; something failed, or more is to be done; nothing may be done."""

AFTER_A_BUG = 60.0
"""Seconds until a job is looked at again that the watcher failed at."""
_FIRST_WAIT = 0.05
_BUG = "the watcher cannot supervise this job because of a bug; see its log. Other jobs go on"
_WHILE_TERMINATING = 60.0  # seconds until something is created again in such a namespace
_UNTIL_REMOVAL_IS_ALLOWED = 3600.0
_MOST_GONE = 100  # Pods that are remembered, besides as many as a job has replicas
_LOOKS = 8  # at one job in a row; then others have their turn


class Reconciler(Struct, frozen=True):
    """Looks at jobs; safe to share between threads that look at different ones."""

    cluster: Cluster
    store: Store
    executor: ActionExecutor
    runs: Runs
    notices: Notices
    memory: Memory
    timeouts: Timeouts
    stopping: Callable[[], bool]
    decide: Callable[[JobView, float], tuple[Action, ...]]

    def reconcile(self, key: JobKey, since: float) -> tuple[float | None, Result]:
        """Looks at a job until nothing is left to do.

        Args:
            since: Since when everything is seen, in seconds since 1970.

        Returns:
            When to look again, in seconds since 1970, None if nothing calls for it; and what came
            of it.
        """
        memory = self.memory.of(key)
        try:
            again = self._settle(key, memory, since)
        except NotLeaderError:
            return None, "stopped"
        except OutdatedError:
            return self._later(memory), "again"
        except BlockedError as error:
            self.notices.of_failure(key, error.reason, str(error))
            if error.reason == "NotRemoved":
                return self.cluster.now() + _UNTIL_REMOVAL_IS_ALLOWED, "again"
            return self._later(memory), "again"
        except ClusterError as error:
            if error.reason == "Interrupted" or self.stopping():
                return None, "stopped"
            if error.terminating:
                # Every Pod of it that goes is an event, and none of them can come back.
                due, seen = self.cluster.now() + _WHILE_TERMINATING, self.store.job(key)
                memory.run.paused = seen.config_metadata.get("uid", "") if seen else "", due
                say(logging.INFO, key, "its namespace is being deleted: nothing is created in it")
                return due, "stopped"
            # Did the API server say no, rather than nothing or later?
            if error.status is not None and 400 <= error.status < 500 and error.status != 429:
                self.notices.of_failure(key, "Refused", str(error))
            else:
                say(logging.WARNING, key, str(error))
            return max(self._later(memory), self.cluster.now() + (error.retry_after or 0)), "again"
        except StoredJobError as error:
            # It could be read, and Pods cannot be made of it.
            self.notices.of_failure(key, "UnreadableJob", f"cannot be read: {error}")
            _log.warning("%s/%s: %s", *key, error, exc_info=error.__cause__)
            return self.cluster.now() + AFTER_A_BUG, "again"
        except Exception:
            # One job that nobody thought of must not take all others down (reference defect 3).
            _log.exception("%s/%s: this is a bug", *key)
            self.notices.of_failure(key, "InternalError", _BUG)
            return self.cluster.now() + AFTER_A_BUG, "again"
        wait = memory.ledger.wait()
        if wait is None:
            memory.ledger.failed_looks = 0
            return again, "done"
        # What is refused is not sent before its time, and stays a failure until it was accepted.
        due = self.cluster.now() + wait
        return due if again is None else min(again, due), "again"

    def _settle(self, key: JobKey, memory: JobMemory, since: float) -> float | None:
        """Decides and acts until the rules have nothing more; when they want to be asked again."""
        for _ in range(_LOOKS):
            seen = self.store.job(key)
            if seen is None:
                self._forget(key, memory, None)
                return None
            self.notices.of_maps(key, seen)
            declared = self.runs.declared(key, seen)
            # Of a job that is not this watcher's nothing is read.
            ours = declared.run is not None or declared.problem
            # What is written there may be of thousands of replicas, and mostly was read before.
            shown = memory.run.view if memory.run.status is seen.status else None
            if shown is not None:
                record = shown.record
            else:
                record = read_record(seen.status.data) if seen.status and ours else None
            previous = self.runs.previous(key, seen, declared, record)
            run = (previous.run if previous is not None else None) or declared.run
            if seen.config is None or run is None:
                self._forget(key, memory, seen)
                return None
            if seen.status is not None and self.notices.of_newer_record(key, seen.status):
                return None
            if any(config_map.problem for config_map in seen.maps.values()):
                memory.ledger.unsupervised("ForeignConfigMap")
                return None
            uid, until = memory.run.paused
            if uid == run.uid and (until is None or self.cluster.now() < until):
                return until
            most = _MOST_GONE + sum(len(role.members) for role in run.job.roles)
            if len(seen.gone) > most:
                self.store.forget_gone(key, most)
            case = Case(key, run, seen, record)
            self.executor.create_secrets(case)
            foreign = strangers(run, seen)
            self.notices.of_strangers(key, foreign)
            memory.run.view = self._view(case, foreign, declared, since)
            memory.run.status = seen.status
            if record is None and seen.status is not None and seen.status.data.get("record"):
                # A new one is written.
                message = "the run record cannot be read: the history of the run is lost"
                self.notices.of_record(key, seen.status, message)
            actions = self.decide(memory.run.view, self.cluster.now())
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug("%s/%s: %s", *key, actions)
            times = [action.at for action in actions if isinstance(action, Requeue)]
            memory.run.requeue = again = min(times, default=None)
            acted = self.executor.act(case, actions)
            if any(isinstance(action, RemoveJob) for action in actions):
                memory.run.paused = run.uid, None
            if not acted:
                if previous is not None and previous.run is None:
                    # Its Pods are of a run that nobody can read any more.
                    memory.ledger.unsupervised(ANOTHER_RUN)
                elif any(pod.view.uid in foreign for pod in seen.pods.values()):
                    memory.ledger.unsupervised("ForeignPod")
                elif memory.ledger.wait() is None:
                    self.notices.of_supervision(key, run)
                return again
        # Whatever was done, there was more to do: others have their turn, and no hurry is worth it.
        raise OutdatedError

    def _forget(self, key: JobKey, memory: JobMemory, seen: SeenJob | None) -> None:
        memory.run = RunMemory()
        memory.ledger.retain()
        if seen is not None and seen.config is not None:
            if memory.declared is not None and memory.declared.problem:
                memory.ledger.unsupervised("UnreadableJob")
            return
        memory.declared = memory.previous = None
        self.notices.of_end(key, "its ConfigMap is gone")
        if seen is None:
            self.memory.forget(key)
        else:
            take_back(self.executor.control, key, seen)

    def _later(self, memory: JobMemory) -> float:
        memory.ledger.failed_looks += 1
        wait, now = backoff(memory.ledger.failed_looks), self.cluster.now()
        if memory.run.requeue is not None:
            # What the rules want to be asked at does not wait for what has failed.
            wait = max(min(wait, memory.run.requeue - now), _FIRST_WAIT)
            memory.run.requeue = None
        return now + wait

    def _view(
        self,
        case: Case,
        foreign: Collection[str],
        declared: ReadRun,
        since: float,
    ) -> JobView:
        """What the rules are shown of a job; Pods with UIDs in `foreign` are of no run."""
        seen, run = case.seen, case.run
        superseded = run is not declared.run

        def of_run(pod: PodState) -> PodState:
            if pod.uid in foreign:
                return structs.replace(pod, spec_hash="")
            return pod

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
                # Who deletes a job and applies it again makes its Pods again, too.
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
            superseded=superseded,
            unreadable=declared.problem,
        )
