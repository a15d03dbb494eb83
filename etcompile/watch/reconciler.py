"""One job, looked at: the rules are asked, what they say is done, and they are asked again.

Nothing is begun here that would have to be resumed. After each round of actions the rules are asked
again, with what is there by then; when a request fails, the job is looked at later (`_later`), and
what is to be done is decided anew. When the rules want to be asked at a certain time (`Requeue`),
that is when to look again, too. The answer is always that: a time, or none, and what came of it.

A job is in the hands of one thread at a time (`workqueue`), so that what is decided about it and
what is requested for it come one after the other, while other jobs go on beside it. One that fails,
also by a bug of ours, must not take another one down.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Literal

from etcompile.compiler.stored import StoredJobError
from etcompile.goodput import Goodput, goodput
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.run_record import ANOTHER_RUN, read_record
from etcompile.watch.actions import RemoveJob, Requeue
from etcompile.watch.deciding import decide
from etcompile.watch.executor import (
    ActionExecutor,
    Case,
    NameTakenError,
    NotLeaderError,
    NotRemovedError,
    OutdatedError,
)
from etcompile.watch.logs import say
from etcompile.watch.memory import JobMemory, Memory, RunMemory
from etcompile.watch.notices import Notices
from etcompile.watch.rules.listeners import timeline
from etcompile.watch.runs import Runs, reannotated
from etcompile.watch.state import Timeouts
from etcompile.watch.store import SeenJob, Store
from etcompile.watch.view import strangers_of, view
from etcompile.watch.workqueue import JobKey, backoff

_log = logging.getLogger("etcompile.watch")

Result = Literal["done", "again", "stopped"]
"""Nothing is left to do now; something failed, or more is to be done; nothing may be done."""

AFTER_A_BUG = 60.0
"""Seconds until a job is looked at again that the watcher failed at."""
_FIRST_WAIT = 0.05
_BUG = "the watcher cannot look after this job because of a bug, see its log; other jobs go on"
_WHILE_TERMINATING = 60.0
"""Seconds until something is created again in a namespace that is being deleted."""
_UNTIL_REMOVAL_IS_ALLOWED = 3600.0
_MOST_GONE = 100
"""Pods that have gone and whose names nobody has again, beside as many as a job has replicas."""
_LOOKS = 8
"""Looks at one job in a row; then others have their turn."""


class Reconciler:
    """Looks at jobs; safe to share between threads that look at different ones.

    Args:
        cluster: The cluster, whose clock the times in objects are of.
        store: What is known of jobs.
        executor: Does what the rules say.
        runs: The runs of jobs.
        notices: Is told what people should know.
        memory: What is remembered of jobs.
        timeouts: How long to wait for what.
        stopping: Whether the watcher was told to stop.
    """

    def __init__(
        self,
        cluster: Cluster,
        store: Store,
        executor: ActionExecutor,
        runs: Runs,
        notices: Notices,
        memory: Memory,
        timeouts: Timeouts,
        stopping: Callable[[], bool],
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._executor = executor
        self._runs = runs
        self._notices = notices
        self._memory = memory
        self._timeouts = timeouts
        self._stopping = stopping

    def goodputs(self) -> Iterator[tuple[JobKey, Goodput]]:
        """Of each job whose run has begun, how much of its time it has been in training."""
        now = self._cluster.now()
        for key, memory in self._memory.jobs().items():
            shown = memory.run.shown
            if shown is None or (record := shown.own_record) is None:
                continue
            if (found := timeline(shown, record, now)) is not None:
                yield key, goodput(found, now)

    def room_again(self, namespace: str) -> Iterator[JobKey]:
        """The jobs of a namespace whose Pods a quota refused: it may have room again."""
        for key, memory in self._memory.jobs().items():
            if key[0] == namespace and memory.run.over_quota:
                memory.ledger.keep(set())
                memory.failures = 1  # patience begins anew: the quota's change is on its way
                yield key

    def reconcile(self, key: JobKey, since: float) -> tuple[float | None, Result]:
        """Looks at a job until nothing is left to do.

        Args:
            key: The job.
            since: Since when everything is seen, in seconds since 1970.

        Returns:
            When to look again, in seconds since 1970, None if nothing calls for it; and what came
            of it.
        """
        memory = self._memory.of(key)
        try:
            again = self._settled(key, memory, since)
        except NotLeaderError:
            return None, "stopped"
        except OutdatedError:
            return self._later(memory), "again"
        except NameTakenError as error:
            self._notices.of_failure(key, "NameTaken", error.told)
            return self._later(memory), "again"
        except NotRemovedError as error:
            self._notices.of_failure(key, "NotRemoved", f"what is left of the job stays: {error}")
            return self._cluster.now() + _UNTIL_REMOVAL_IS_ALLOWED, "again"
        except ClusterError as error:
            if error.reason == "Interrupted" or self._stopping():
                return None, "stopped"
            if error.terminating:
                return self._until_terminated(key, memory), "stopped"
            if error.over_quota:
                memory.run.over_quota = True
            if _is_refused(error):
                self._notices.of_failure(key, "Refused", str(error))
            else:
                say(logging.WARNING, key, str(error))
            return max(self._later(memory), self._cluster.now() + (error.retry_after or 0)), "again"
        except StoredJobError as error:
            # It could be read, and Pods cannot be made of it.
            self._notices.of_failure(key, "UnreadableJob", f"cannot be read: {error}")
            _log.warning("%s/%s: %s", *key, error, exc_info=error.__cause__)
            return self._cluster.now() + AFTER_A_BUG, "again"
        except Exception:
            # One job that nobody thought of must not take all others down (reference defect 3).
            _log.exception("%s/%s: this is a bug", *key)
            self._notices.of_failure(key, "InternalError", _BUG)
            return self._cluster.now() + AFTER_A_BUG, "again"
        wait = memory.ledger.wait()
        if wait is None:
            memory.failures = 0
            memory.run.over_quota = False
            return again, "done"
        # What is refused is not sent before its time, and stays a failure until it was accepted.
        due = self._cluster.now() + wait
        return due if again is None else min(again, due), "again"

    def _settled(self, key: JobKey, memory: JobMemory, since: float) -> float | None:
        """Decides and acts until the rules have nothing more; when they want to be asked again."""
        for _ in range(_LOOKS):
            seen = self._store.job(key)
            self._notices.of_maps(key, seen)
            declared = self._runs.declared(key, seen) if seen else None
            # Of a job that is not this watcher's nothing is read.
            ours = declared is not None or self._runs.unreadable(key)
            record = read_record(seen.status.data) if seen and seen.status and ours else None
            former = self._runs.former(key, seen, declared, record) if seen else None
            run = declared or former
            if seen is None or seen.config is None or run is None:
                self._let_go(key, memory, seen)
                return None
            if seen.status is not None and self._notices.of_newer_record(key, seen.status):
                return None
            if any(config_map.problem for config_map in seen.maps):
                memory.ledger.unsupervised("ForeignConfigMap")
                return None
            uid, until = memory.run.paused
            if uid == run.uid and (until is None or self._cluster.now() < until):
                return until
            most = _MOST_GONE + sum(len(role.members) for role in run.job.roles)
            if len(seen.gone) > most:
                self._store.forget_gone(key, most)
            case = Case(key, former or run, seen, record)
            self._make_secrets(case, memory)
            foreign = strangers_of(case)
            if self._executor.learn(case, [pod for pod, _ in foreign.values()]):
                foreign = strangers_of(case)
            self._notices.of_strangers(case, foreign)
            shown = view(
                case,
                foreign,
                self._timeouts,
                since=since,
                superseded=former is not None,
                unreadable=self._runs.unreadable(key),
                reannotated=reannotated(seen, declared) if former is not None else (),
            )
            memory.run.shown = shown
            if shown.record is None and seen.status is not None and seen.status.data.get("record"):
                # It is written anew.
                message = "the run record cannot be read: what it said of the run so far is lost"
                self._notices.of_record(key, seen.status, message)
            actions = decide(shown, self._cluster.now())
            self._notices.of_actions(key, actions)
            again = min(
                (action.at for action in actions if isinstance(action, Requeue)), default=None
            )
            memory.run.requeue = again
            outcome = self._executor.act(case, actions)
            if any(isinstance(action, RemoveJob) for action in actions):
                memory.run.paused = run.uid, None
            if outcome == "nothing":
                if former is None and self._runs.lost(key):
                    # Its Pods are of a run that nobody can read any more.
                    memory.ledger.unsupervised(ANOTHER_RUN)
                elif any(pod.view.uid in foreign for pod in seen.pods.values()):
                    memory.ledger.unsupervised("ForeignPod")
                elif memory.ledger.wait() is None:
                    self._notices.of_supervision(key, run)
                return again
            if outcome == "some":
                return self._cluster.now()
        # Whatever was done, there was more to do: others have their turn, and no hurry is worth it.
        raise OutdatedError

    def _let_go(self, key: JobKey, memory: JobMemory, seen: SeenJob | None) -> None:
        """Forgets a job that is not there, or that this watcher does not look after."""
        memory.run = RunMemory()
        memory.ledger.keep(set())
        if seen is not None and seen.config is not None:
            if self._runs.unreadable(key):
                memory.ledger.unsupervised("UnreadableJob")
            else:
                self._notices.of_end(key, "the selector does not match it")
            return
        memory.declared = memory.former = None
        self._notices.of_end(key, "its ConfigMap is gone")
        if seen is None:
            self._memory.forget(key)
        else:
            self._executor.take_back(key, seen)

    def _make_secrets(self, case: Case, memory: JobMemory) -> None:
        """Creates the job's key pair, once; where a Pod has started there is one."""
        ssh = case.run.job.credentials
        if ssh is None or memory.run.secrets == (case.run.uid, ssh.secret):
            return
        if case.run.job.run.suspended:
            return
        started = any(pod.view.phase != "Pending" for pod in case.seen.pods.values())
        if not started:
            self._executor.make_secrets(case)
        memory.run.secrets = case.run.uid, ssh.secret

    def _until_terminated(self, key: JobKey, memory: JobMemory) -> float:
        """When to look again at a job whose namespace is being deleted, if it is there then.

        Every Pod of it that goes is an event, and none of them can come back.
        """
        again = self._cluster.now() + _WHILE_TERMINATING
        seen = self._store.job(key)
        if seen is not None and seen.config is not None:
            memory.run.paused = seen.config.value["metadata"]["uid"], again
        _log.info("%s/%s: its namespace is being deleted: nothing is created in it any more", *key)
        return again

    def _later(self, memory: JobMemory) -> float:
        """When to look again at a job after something failed."""
        memory.failures += 1
        wait = backoff(memory.failures)
        now = self._cluster.now()
        if memory.run.requeue is not None:
            # What the rules want to be asked at does not wait for what has failed.
            wait = max(min(wait, memory.run.requeue - now), _FIRST_WAIT)
            memory.run.requeue = None
        return now + wait


def _is_refused(error: ClusterError) -> bool:
    """Whether the API server said no, rather than nothing or later."""
    return error.status is not None and 400 <= error.status < 500 and error.status != 429
