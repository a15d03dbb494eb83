"""The watcher: streams, a queue of jobs, and threads that look at one job at a time.

Whatever is seen of a job puts it into the queue; a thread takes it out, asks the rules, does what
they say, and asks again until there is nothing to do. Only this module knows all the others.

Events of Pods come by the thousand, late, and not in the order of the answers to our own requests.
So an event decides nothing: it changes what is known (`store`) and names its job to the queue,
where a job stands once, however many events come. A job is in the hands of one thread at a time, so
that what is decided about it and what is requested for it come one after the other, while other
jobs go on beside it.

Nothing is begun here that would have to be resumed. After each round of actions the rules are asked
again, with what is there by then; when a request fails, the job is looked at later (`_later`), and
what is to be done is decided anew. When the rules want to be asked at a certain time (`Requeue`),
that is a time for the queue. What is remembered here by job is what was compiled, told or refused,
so that it is not done twice in vain; what must survive a crash is in the run record, in `J-status`.

It acts only while it is the leader, and by the clock of the API server: the times in objects are
that clock's.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec import Struct, structs

from etcompile.k8s.objects import seconds
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import JOB_LABEL, STORED_JOB, config_name
from etcompile.model.run_record import (
    ANOTHER_RUN,
    RUN,
    UNREADABLE,
    VERSION,
    newer_version,
    read_record,
)
from etcompile.stages.stored import StoredJobError
from etcompile.watch import admission
from etcompile.watch.actions import Action, EmitEvent, RemoveJob, Requeue
from etcompile.watch.deciding import decide
from etcompile.watch.endpoints import Answer
from etcompile.watch.events import Events
from etcompile.watch.executor import (
    ActionExecutor,
    Case,
    NameTakenError,
    NotLeaderError,
    NotRemovedError,
    OutdatedError,
)
from etcompile.watch.former_run import copied, former_run, wants_copy
from etcompile.watch.job_selector import Selector
from etcompile.watch.leader_election import LeaderElection
from etcompile.watch.metrics import Metrics
from etcompile.watch.ownership import Owners, stranger
from etcompile.watch.quotas import QuotaKeeper
from etcompile.watch.reflector import Reflector
from etcompile.watch.room import REPLICA_BYTES, room
from etcompile.watch.run_pods import StoredRun
from etcompile.watch.state import (
    Gone,
    JobView,
    PodView,
    Timeouts,
    hosts_record,
)
from etcompile.watch.store import SeenJob, SeenMap, Store
from etcompile.watch.workqueue import JobKey, WorkQueue, backoff

_log = logging.getLogger("etcompile.watch")

_FIRST_WAIT = 0.05
_AFTER_A_BUG = 60.0
_LONGEST_UNTIL = 86_400.0
"""Seconds until a job is looked at again, whatever times are in it."""
_BUG = "the watcher cannot look after this job because of a bug, see its log; other jobs go on"
_WHILE_TERMINATING = 60.0
"""Seconds until something is created again in a namespace that is being deleted."""
_UNTIL_REMOVAL_IS_ALLOWED = 3600.0
_ROOM_AGAIN = 0.5
"""Seconds after a quota has changed, and at least between two looks for that: more may change."""
_MOST_GONE = 100
"""Pods that have gone and whose names nobody has again, beside as many as a job has replicas."""
_LONG_GONE = 600.0
"""Seconds after which they are not remembered any more if they are too many."""
_LOOKS = 8
"""Looks at one job in a row; then others have their turn."""
_TRIES = 5
"""Looks at a job that fail before `--once` gives it up."""
_STOPPING = 10.0
"""Seconds that looks under way have when the watcher is told to stop."""


class Choices(Struct, frozen=True):
    """What a watcher is to do.

    Args:
        namespaces: Where; None for everywhere.
        selector: Which jobs.
        threads: How many jobs are looked at side by side.
        beside: How many requests about Pods of these run side by side.
        timeouts: How long to wait for what.
    """

    namespaces: tuple[str, ...] | None
    selector: Selector = Selector()
    threads: int = 6
    beside: int = 16
    timeouts: Timeouts = Timeouts()


class Watcher:
    """A watcher.

    Args:
        cluster: The cluster. Its requests should be sent once: a job is looked at again after a
            failure, and then decided about anew.
        choices: What to do.
        leading: Who may act; None for this watcher, always.
        identity: Which watcher this is.
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
        self._observations = Store(self._queue.want, room(shared=shared), cluster.now)
        # Of each job the version of its ConfigMap, what that says, and why it cannot be read.
        self._runs: dict[JobKey, tuple[int, StoredRun | None, str]] = {}
        self._with_secrets: dict[JobKey, tuple[str, str]] = {}
        self._failed: dict[JobKey, int] = {}
        self._wishes: dict[JobKey, float] = {}
        # Of jobs that describe another run than their Pods': as of when, and that of the Pods.
        self._formers: dict[JobKey, tuple[str, StoredRun | None]] = {}
        self._checked: set[str] = set()
        self._foreign: dict[JobKey, frozenset[str]] = {}
        self._unread: dict[JobKey, int] = {}
        self._told: dict[JobKey, frozenset[tuple[str, int]]] = {}
        # Jobs whose namespace is being deleted: their ConfigMap, and until when nothing is tried.
        self._terminating: dict[JobKey, tuple[str, float]] = {}
        self._over_quota: set[JobKey] = set()
        # Jobs that were removed, by the UID of their ConfigMap, until the stream tells so.
        self._removed: dict[JobKey, str] = {}
        self._synced_at = 0.0
        self._events = Events(
            cluster,
            busy=lambda: not self._queue.idle,
            may=self._may,
            identity=identity,
            counted=lambda status: self.metrics.writes.labels("create", "Event", status).inc(),
        )
        self._beside = ThreadPoolExecutor(choices.beside, thread_name_prefix="beside")
        self._acting = ActionExecutor(
            cluster,
            self._observations,
            self._may,
            self.metrics,
            self._events,
            self._beside,
            self._queue.others_wait,
        )
        self._streams = self._made_streams()
        self._quotas = self._made_quota_streams()
        self._told_of_quotas = False
        self._threads: list[threading.Thread] = []
        self._gauges()

    # ---- from the outside ----------------------------------------------------------------------

    def start(self) -> None:
        """Starts to follow everything, and to act once that is complete."""
        for stream in (*self._streams, *self._quotas):
            self._run(f"stream {stream.kind}", partial(stream.run, self._stop))
        self._run("events", self._events.run)
        for number in range(self._choices.threads):
            self._run(f"look {number}", self._look_on)
        self._run("sync", self._wait_for_sync)

    def stop(self) -> None:
        """Lets looks under way end, and ends everything else."""
        self._stop.set()
        self._queue.close()
        self._events.close()
        end = time.monotonic() + _STOPPING
        for thread in self._threads:
            if not thread.name.startswith("stream"):
                thread.join(max(0.0, end - time.monotonic()))
        self._beside.shutdown(wait=False, cancel_futures=True)

    def once(self) -> None:
        """Lists everything, does what is to be done now, and returns.

        Raises:
            ClusterError: the cluster cannot be read.
        """
        for stream in self._streams:
            stream.list(self._cluster.resource(stream.api_version, stream.kind))
        self._synced()
        for key in sorted(self._observations.known()):
            for _ in range(_TRIES):
                again, outcome = self._looked(key)
                if outcome != "again":
                    break
                time.sleep(self._until(again or 0.0))
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
        if missing:
            return False, f"not synced yet: {', '.join(missing)}"
        return True, "ready"

    def healthy(self) -> Answer:
        """Whether all threads are alive."""
        dead = [t.name for t in self._threads if not t.is_alive() and t.name != "sync"]
        if dead and not self._stop.is_set():
            return False, f"threads have ended: {', '.join(dead)}"
        return True, "healthy"

    @property
    def idle(self) -> bool:
        """Whether no job wants a look now."""
        return self._queue.idle

    # ---- looks ---------------------------------------------------------------------------------

    def _look_on(self) -> None:
        """Looks at jobs until the queue is closed."""
        while (key := self._queue.take()) is not None:
            begun = time.monotonic()
            due: float | None = begun + _AFTER_A_BUG
            try:
                again, outcome = self._looked(key)
                self.metrics.reconciles.labels(outcome).inc()
                self.metrics.reconcile_seconds.observe(time.monotonic() - begun)
                due = None if again is None else time.monotonic() + self._until(again)
            except Exception:
                _log.exception("%s/%s: this is a bug", *key)
            finally:
                self._queue.done(key, due)

    def _looked(self, key: JobKey) -> tuple[float | None, str]:
        """Looks at a job until nothing is left to do; when to look again, and what came of it."""
        if self._synced_at == 0.0 or not self._may():
            return None, "stopped"  # all are wanted again once that is different
        try:
            again = self._settled(key)
        except NotLeaderError:
            return None, "stopped"
        except OutdatedError:
            return self._later(key, None), "again"
        except NameTakenError as error:
            self._tell_once(key, "NameTaken", error.told)
            return self._later(key, error.told), "again"
        except NotRemovedError as error:
            self._tell_once(key, "NotRemoved", f"what is left of the job stays: {error}")
            self._failed[key] = 1
            return self._cluster.now() + _UNTIL_REMOVAL_IS_ALLOWED, "again"
        except ClusterError as error:
            if error.reason == "Interrupted" or self._stop.is_set():
                return None, "stopped"
            if error.terminating:
                return self._until_terminated(key), "stopped"
            if error.over_quota:
                self._over_quota.add(key)
            if _is_refused(error):
                self._tell_once(key, "Refused", str(error))
            return max(
                self._later(key, str(error)), self._cluster.now() + (error.retry_after or 0)
            ), "again"
        except StoredJobError as error:
            # It could be read, and Pods cannot be made of it.
            self._tell_once(key, "UnreadableJob", f"cannot be read: {error}")
            _log.warning("%s/%s: %s", *key, error, exc_info=error.__cause__)
            self._failed[key] = self._failed.get(key, 0) + 1
            return self._cluster.now() + _AFTER_A_BUG, "again"
        except Exception:
            # One job that nobody thought of must not take all others down (reference defect 3).
            _log.exception("%s/%s: this is a bug", *key)
            self._tell_once(key, "InternalError", _BUG)
            self._failed[key] = self._failed.get(key, 0) + 1
            return self._cluster.now() + _AFTER_A_BUG, "again"
        wait = self._acting.held.wait(key)
        if wait is None:
            self._failed.pop(key, None)
            self._over_quota.discard(key)
            return again, "done"
        # What is refused is not sent before its time, and stays a failure until it was accepted.
        due = self._cluster.now() + wait
        return due if again is None else min(again, due), "again"

    def _settled(self, key: JobKey) -> float | None:
        """Decides and acts until the rules have nothing more; when they want to be asked again."""
        for _ in range(_LOOKS):
            seen = self._observations.job(key)
            self._tell_of_maps(key, seen)
            declared = self._stored(key, seen) if seen else None
            former = self._former(key, seen, declared) if seen else None
            run = declared or former
            if seen is None or seen.config is None or run is None:
                if seen is None:
                    self._runs.pop(key, None)
                self._wishes.pop(key, None)
                if seen is None or seen.config is None:
                    self._formers.pop(key, None)
                self._acting.held.keep(key, set())
                self._terminating.pop(key, None)
                self._removed.pop(key, None)
                self._over_quota.discard(key)
                self._with_secrets.pop(key, None)
                self._told.pop(key, None)
                self._foreign.pop(key, None)
                if not any(other[0] == key[0] for other in self._observations.known()):
                    self._checked.discard(key[0])
                if seen is not None and seen.config is None:
                    self._acting.take_back(key, seen)
                return None
            if seen.status is not None and self._is_newer(key, seen.status):
                return None
            if (
                any(config_map.problem for config_map in seen.maps)
                or self._removed.get(key) == run.uid
            ):
                return None
            if (until := self._terminates_until(key, run)) is not None:
                return until
            if len(seen.gone) > _MOST_GONE + sum(len(role.members) for role in run.job.roles):
                self._observations.forget_gone(key, self._cluster.now() - _LONG_GONE)
            case = Case(key, former or run, seen)
            self._make_secrets(case)
            view = self._view(case, superseded=former is not None)
            if view.record is None and seen.status is not None and seen.status.data.get("record"):
                # It is written anew.
                message = "the run record cannot be read: what it said of the run so far is lost"
                self._tell_of_record(key, seen.status, message)
            actions = decide(view, self._cluster.now())
            self._note(key, actions)
            again = min(
                (action.at for action in actions if isinstance(action, Requeue)), default=None
            )
            self._wishes.pop(key, None)
            if again is not None:
                self._wishes[key] = again
            outcome = self._acting.act(case, actions)
            if any(isinstance(action, RemoveJob) for action in actions):
                self._removed[key] = run.uid
            if outcome == "nothing":
                return again
            if outcome == "some":
                return self._cluster.now()
        # Whatever was done, there was more to do: others have their turn, and no hurry is worth it.
        raise OutdatedError

    def _former(self, key: JobKey, seen: SeenJob, run: StoredRun | None) -> StoredRun | None:
        """The run whose Pods are there, if the job describes another one; None if it does not.

        None, and told, too if nobody knows any more what that run was. A job that cannot be read
        describes another one; one that is too large, or not this watcher's, is left alone.
        """
        is_readable = run is not None or not self._unreadable(key)
        if seen.config is None or seen.config.problem or (run is None and is_readable):
            self._formers.pop(key, None)
            return None
        wanted = former_run(seen, run)
        if not wanted or seen.status is None:
            self._formers.pop(key, None)
            return None
        version = f"{seen.config.version} {seen.status.data.get(RUN, '')}"
        known = self._formers.get(key)
        if known is None or known[0] != version:
            try:
                known = version, self._with_room(key, copied(self._cluster, seen, wanted), run)
            except StoredJobError as error:
                known = version, None
                describes = f"describes run {run.spec_hash}" if run else "cannot be read"
                message = (
                    f"the ConfigMap {describes}, but the Pods are of run {wanted}, which cannot be "
                    f"looked after any more: {error}"
                )
                reason = ANOTHER_RUN if run else UNREADABLE
                event = EmitEvent(reason, message, warning=True)
                self._events.tell(key[0], event, seen.config.value["metadata"], version)
                _log.warning("%s/%s: %s", *key, message)
            self._formers[key] = known
        return known[1]

    def _view(self, case: Case, *, superseded: bool = False) -> JobView:
        seen, run = case.seen, case.run
        batch = next((role for role in run.job.roles if role.batch), None)
        name = batch.pod_name(batch.members[0]) if batch and batch.members else ""
        known = seen.batch.get(name)
        strangers = self._strangers(case)
        return JobView(
            job=run.job,
            settings=run.settings,
            namespace=case.key[0],
            spec_hash=run.spec_hash,
            pods={name: _but(pod.view, strangers) for name, pod in seen.pods.items()},
            gone={
                name: structs.replace(gone, pod=_but(gone.pod, strangers)) if strangers else gone
                for name, gone in _of_this_job(seen).items()
            },
            record=read_record(seen.status.data) if seen.status else None,
            hosts=hosts_record(seen.hosts.data, seen.hosts.annotations) if seen.hosts else None,
            batch=known.view if known else None,
            git_managed=run.tracking.synced or bool({"argocd", "flux"} & {*run.settings.profiles}),
            watched_since=max(seen.since, self._synced_at),
            declared_at=seen.config.written if seen.config else None,
            timeouts=self._choices.timeouts,
            heard={pod.view.uid: pod.heard for pod in seen.pods.values() if pod.heard},
            config_uid=run.uid,
            config_created=run.created,
            copied=not wants_copy(run, seen.status),
            superseded=superseded,
            unreadable=self._unreadable(case.key),
        )

    def _strangers(self, case: Case) -> frozenset[str]:
        """The UIDs of Pods that carry the marks of the run and are not of it, which is told."""
        run, seen, config = case.run, case.seen, case.seen.config
        views = [pod.view for pod in seen.pods.values()]
        views += [gone.pod for gone in seen.gone.values()]
        jobs = frozenset(batch_job.view.uid for batch_job in seen.batch.values())
        owners = Owners(config.value["metadata"]["uid"] if config else "", jobs)
        found = {}
        for pod in views:
            if pod.spec_hash != run.spec_hash:
                continue
            why = stranger(pod, run.job, owners, run.names)
            if not why and pod.ended and pod.name in run.names:
                why = run.difference(pod)
            if why:
                found[pod.uid] = pod, why
        self._tell_of_strangers(case, found)
        return frozenset(found)

    def _tell_of_strangers(self, case: Case, found: Mapping[str, tuple[PodView, str]]) -> None:
        known = self._foreign.get(case.key, frozenset())
        if not found:
            self._foreign.pop(case.key, None)
            return
        self._foreign[case.key] = frozenset(found)
        for uid in found.keys() - known:
            pod, why = found[uid]
            message = f"does not count for the run of {case.key[1]}: {why}"
            event = EmitEvent("ForeignPod", message, pod.name, pod.uid, warning=True)
            self._events.tell(case.key[0], event, {}, pod.uid)
            _log.warning("%s/%s: Pod %s %s", *case.key, pod.name, message)

    def _stored(self, key: JobKey, seen: SeenJob) -> StoredRun | None:
        """The job as its ConfigMap says; None for one that is not ours or cannot be read."""
        config = seen.config
        if config is None:
            self._runs.pop(key, None)
            return None
        known = self._runs.get(key)
        if known is not None and known[0] == config.version:
            return known[1]
        run, problem = None, ""
        self._tell_of_trust(key[0])
        if self._choices.selector.selects(config.value["metadata"].get("labels") or {}):
            try:
                if config.problem:
                    raise StoredJobError(config.problem)
                run = self._with_room(key, StoredRun(config.value))
            except StoredJobError as error:
                problem = str(error)
                self._tell(
                    key,
                    EmitEvent(
                        warning=True, reason="UnreadableJob", message=f"cannot be read: {error}"
                    ),
                )
                _log.warning("%s/%s: %s", *key, error)
        self._runs[key] = config.version, run, problem
        return run

    def _unreadable(self, key: JobKey) -> str:
        """Why a job's ConfigMap cannot be read; empty if it can, or if it is not asked for."""
        known = self._runs.get(key)
        return known[2] if known else ""

    def _tell_of_trust(self, namespace: str) -> None:
        """Says once whom the watcher trusts in a namespace."""
        if namespace not in self._checked:
            self._checked.add(namespace)
            admission.tell(self._cluster, namespace)

    def _with_room(self, key: JobKey, run: StoredRun, beside: StoredRun | None = None) -> StoredRun:
        """The job, if there is room for as many replicas as it has, and another run beside it.

        Raises:
            StoredJobError: there is not.
        """
        runs = [run] if beside is None else [run, beside]
        replicas = sum(len(role.members) for each in runs for role in each.job.roles)
        if not self._observations.has_room(key, replicas * REPLICA_BYTES):
            raise StoredJobError(f"the watcher has no room for its {replicas} replicas")
        return run

    def _tell_of_maps(self, key: JobKey, seen: SeenJob | None) -> None:
        """Tells once of ConfigMaps that do not count, and why."""
        if seen is None:
            self._told.pop(key, None)
            self._foreign.pop(key, None)
            self._unread.pop(key, None)
            return
        told = {
            (config_map.name, config_map.version): (
                config_map,
                "UnreadableJob",
                f"cannot be read: {config_map.problem}",
            )
            for config_map in seen.maps
            if config_map.problem and config_map is not seen.config
        }
        for stray in seen.strays.values():
            message = (
                f"ignored: it has the label {JOB_LABEL}={key[1]} and a {STORED_JOB}, but the "
                f"ConfigMap of that job is {config_name(key[1])}"
            )
            told[stray.name, 0] = stray, "IgnoredConfigMap", message
        for what in told.keys() - self._told.get(key, frozenset()):
            config_map, reason, message = told[what]
            event = EmitEvent(reason, message, warning=True)
            self._events.tell(key[0], event, config_map.value["metadata"], str(what[1]) + reason)
            _log.warning("%s/%s: ConfigMap %s: %s", *key, config_map.name, message)
        if told:
            self._told[key] = frozenset(told)
        else:
            self._told.pop(key, None)

    def _is_newer(self, key: JobKey, status: SeenMap) -> bool:
        """Whether only a newer etcompile can read the run record, which is told once."""
        version = newer_version(status.data)
        if version is None:
            return False
        message = (
            f"the run record is of version {version}, and this watcher reads versions up to "
            f"{VERSION}: the job is not looked after, and the record stays as it is; run the newer "
            "watcher, or delete this ConfigMap to begin a new run"
        )
        self._tell_of_record(key, status, message)
        return True

    def _tell_of_record(self, key: JobKey, status: SeenMap, message: str) -> None:
        """Tells once that a run record cannot be read."""
        if self._unread.get(key) == status.version:
            return
        self._unread[key] = status.version
        event = EmitEvent("UnreadableRecord", message, warning=True)
        self._events.tell(key[0], event, status.value["metadata"], str(status.version))
        _log.warning("%s/%s: ConfigMap %s: %s", *key, status.name, message)

    def _make_secrets(self, case: Case) -> None:
        """Creates the job's key pair, once; where a Pod has started there is one."""
        ssh = case.run.job.credentials
        if ssh is None or self._with_secrets.get(case.key) == (case.run.uid, ssh.secret):
            return
        if case.run.job.run.suspended:
            return
        started = any(pod.view.phase != "Pending" for pod in case.seen.pods.values())
        if not started:
            self._acting.make_secrets(case)
        self._with_secrets[case.key] = case.run.uid, ssh.secret

    def _note(self, key: JobKey, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, EmitEvent):
                level = logging.WARNING if action.warning else logging.INFO
                _log.log(level, "%s/%s: %s: %s", *key, action.reason, action.message)
            elif not isinstance(action, Requeue):
                _log.debug("%s/%s: %s", *key, action)

    def _until(self, at: float) -> float:
        """Seconds until a time since 1970, if that is a time at all."""
        left = at - self._cluster.now()
        return min(left, _LONGEST_UNTIL) if left > 0.0 else 0.0

    def _until_terminated(self, key: JobKey) -> float:
        """When to look again at a job whose namespace is being deleted, if it is there then.

        Every Pod of it that goes is an event, and none of them can come back.
        """
        again = self._cluster.now() + _WHILE_TERMINATING
        seen = self._observations.job(key)
        if seen is not None and seen.config is not None:
            self._terminating[key] = seen.config.value["metadata"]["uid"], again
        _log.info("%s/%s: its namespace is being deleted: nothing is created in it any more", *key)
        return again

    def _terminates_until(self, key: JobKey, run: StoredRun) -> float | None:
        """Until when nothing is done about a job, because its namespace is being deleted."""
        uid, until = self._terminating.get(key, ("", 0.0))
        if uid == run.uid and self._cluster.now() < until:
            return until
        self._terminating.pop(key, None)
        return None

    def _quota_changed(self, namespace: str) -> None:
        """There may be room again for Pods that a quota refused."""
        at = time.monotonic() + _ROOM_AGAIN
        for key in [*self._over_quota]:
            if key[0] == namespace:
                self._acting.held.forget(key)
                self._failed[key] = 1  # patience begins anew: the quota's change is on its way
                self._queue.soon(key, at)

    def _later(self, key: JobKey, problem: str | None) -> float:
        """When to look again at a job after something failed."""
        failed = self._failed[key] = self._failed.get(key, 0) + 1
        wait = backoff(failed)
        now = self._cluster.now()
        if (wish := self._wishes.pop(key, None)) is not None:
            # What the rules want to be asked at does not wait for what has failed.
            wait = max(min(wait, wish - now), _FIRST_WAIT)
        if problem:
            _log.warning("%s/%s: %s; again in %.1f s", *key, problem, wait)
        return now + wait

    def _tell_once(self, key: JobKey, reason: str, message: str) -> None:
        """Tells of a problem that another look may meet again, when it is met first."""
        if key not in self._failed:
            self._tell(key, EmitEvent(reason, message, warning=True))

    def _tell(self, key: JobKey, event: EmitEvent) -> None:
        seen = self._observations.job(key)
        if seen is not None and seen.config is not None:
            self._events.tell(key[0], event, seen.config.value["metadata"])

    # ---- the whole -----------------------------------------------------------------------------

    def _may(self) -> bool:
        return self._leading is None or self._leading.valid

    def _want_all(self) -> None:
        """Has all jobs looked at, and those that went while this watcher did not act."""
        kept: tuple[dict[JobKey, Any], ...] = (
            self._runs,
            self._with_secrets,
            self._failed,
            self._wishes,
            self._formers,
            self._foreign,
            self._unread,
            self._told,
            self._terminating,
            self._removed,
        )
        gone = {key for keys in kept for key in [*keys]} | {*self._over_quota}
        for key in gone.union(self._observations.known()):
            self._queue.want(key)

    def _wait_for_sync(self) -> None:
        for stream in self._streams:
            while not stream.synced.wait(0.2):
                if self._stop.is_set():
                    return
        self._synced()
        self._want_all()

    def _synced(self) -> None:
        for namespace in self._choices.namespaces or ():
            self._tell_of_trust(namespace)
        self._synced_at = self._cluster.now()
        _log.info("watching %d jobs and %d Pods", *self._observations.counts())

    def _made_streams(self) -> list[Reflector]:
        places = [None] if self._choices.namespaces is None else [*self._choices.namespaces]
        # ConfigMaps first: a Pod means nothing without its job.
        kinds: list[tuple[str, str, Any]] = [
            ("v1", "ConfigMap", self._observations.maps),
            ("batch/v1", "Job", self._observations.batch),
            ("v1", "Pod", self._observations.pods),
        ]
        return [
            Reflector(self._cluster, version, kind, place, JOB_LABEL, keeper, self._restarted)
            for version, kind, keeper in kinds
            for place in places
        ]

    def _made_quota_streams(self) -> list[Reflector]:
        """Quotas, so that room is used when there is some. Nothing waits for these streams."""
        places = [None] if self._choices.namespaces is None else [*self._choices.namespaces]
        keeper, told = QuotaKeeper(self._quota_changed), self._cannot_see_quotas
        return [
            Reflector(self._cluster, "v1", "ResourceQuota", p, "", keeper, told) for p in places
        ]

    def _cannot_see_quotas(self, _kind: str, reason: str, error: ClusterError) -> None:
        if error.status == 403 and not self._told_of_quotas:
            self._told_of_quotas = True
            _log.warning("refused Pods are tried again less often: %s", error)
        elif error.status != 403:
            self._restarted("ResourceQuota", reason, error)

    def _restarted(self, kind: str, reason: str, error: ClusterError) -> None:
        self.metrics.restarts.labels(kind, reason).inc()
        _log.warning("restarting the watch of %s: %s", kind, error)

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _gauges(self) -> None:
        gauge = self.metrics.gauge
        gauge("queue_depth", "Jobs in the work queue.", lambda: self._queue.depth)
        gauge("jobs", "Number of watched jobs.", lambda: self._observations.counts()[0])
        gauge("pods", "Number of watched Pods.", lambda: self._observations.counts()[1])


def _but(pod: PodView, strangers: frozenset[str]) -> PodView:
    """A Pod as rules are to see it: one that is not of the run is of no run."""
    return structs.replace(pod, spec_hash="") if pod.uid in strangers else pod


def _is_refused(error: ClusterError) -> bool:
    """Whether the API server said no, rather than nothing or later."""
    return error.status is not None and 400 <= error.status < 500 and error.status != 429


def _of_this_job(seen: SeenJob) -> Mapping[str, Gone]:
    """The Pods that vanished of a job as it is declared now.

    Who deletes a job and applies it again makes its Pods again, too: those from before its
    ConfigMap are not missed.
    """
    metadata = seen.config.value["metadata"] if seen.config else {}
    declared = seconds(metadata.get("creationTimestamp")) or 0.0
    return {name: gone for name, gone in seen.gone.items() if gone.pod.created >= declared}
