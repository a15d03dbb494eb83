"""The watcher: streams, a queue of jobs, and threads that look at one job at a time.

Whatever is seen of a job puts it into the queue; a thread takes it out, asks the rules, does what
they say, and asks again until there is nothing to do. Only this module knows all the others.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from msgspec import Struct

from etcompile.cluster import Cluster, ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.stored import StoredJobError
from etcompile.watch.acting import Acting, Case, NameTakenError, NotLeadingError, OutdatedError
from etcompile.watch.actions import Action, EmitEvent, Requeue
from etcompile.watch.deciding import decide
from etcompile.watch.leading import Leading
from etcompile.watch.metrics import Metrics
from etcompile.watch.observing import Observations, SeenJob
from etcompile.watch.queueing import JobKey, JobQueue
from etcompile.watch.remaking import StoredRun
from etcompile.watch.selecting import Selector
from etcompile.watch.serving import Answer
from etcompile.watch.state import JobView, Patience, hosts_record, read_record
from etcompile.watch.streaming import Stream
from etcompile.watch.telling import Events

_log = logging.getLogger("etcompile.watch")

_FIRST_WAIT = 0.05
_LONGEST_WAIT = 30.0
_AFTER_A_BUG = 60.0
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
        patience: How long to wait for what.
    """

    namespaces: tuple[str, ...] | None
    selector: Selector = Selector()
    threads: int = 6
    beside: int = 16
    patience: Patience = Patience()


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
        leading: Leading | None = None,
    ) -> None:
        self.metrics = Metrics()
        self._cluster = cluster
        self._choices = choices
        self._leading = leading
        if leading is not None:
            leading.changed = self.led
        self._stop = threading.Event()
        self._queue = JobQueue()
        self._observations = Observations(self._queue.want)
        self._runs: dict[JobKey, tuple[int, StoredRun | None]] = {}
        self._with_secrets: set[tuple[str, str]] = set()
        self._failed: dict[JobKey, int] = {}
        self._synced_at = 0.0
        self._events = Events(
            cluster,
            busy=lambda: not self._queue.idle,
            may=self._may,
            identity=identity,
            counted=lambda status: self.metrics.writes.labels("create", "Event", status).inc(),
        )
        self._beside = ThreadPoolExecutor(choices.beside, thread_name_prefix="beside")
        self._acting = Acting(
            cluster,
            self._observations,
            self._may,
            self.metrics,
            self._events,
            self._beside,
            self._queue.others_wait,
        )
        self._streams = self._made_streams()
        self._threads: list[threading.Thread] = []
        self._gauges()

    # ---- from the outside ----------------------------------------------------------------------

    def start(self) -> None:
        """Starts to follow everything, and to act once that is complete."""
        for stream in self._streams:
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
                time.sleep(max(0.0, (again or 0.0) - time.time()))
        self._events.close()
        self._events.run()

    def led(self, leads: bool) -> None:  # noqa: FBT001 - an event's value
        """This watcher may act from now on, or may not any more."""
        self.metrics.leads.set(leads)
        _log.info("leads from now on" if leads else "leads no more")
        if leads:
            self._want_all()

    def ready(self) -> Answer:
        """Whether everything has been seen once."""
        missing = [stream.kind for stream in self._streams if not stream.synced.is_set()]
        if missing:
            return False, f"not yet seen: {', '.join(missing)}"
        return True, "ready"

    def healthy(self) -> Answer:
        """Whether all threads are alive."""
        dead = [t.name for t in self._threads if not t.is_alive() and t.name != "sync"]
        if dead and not self._stop.is_set():
            return False, f"ended: {', '.join(dead)}"
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
            again, outcome = self._looked(key)
            self.metrics.looks.labels(outcome).inc()
            self.metrics.look_seconds.observe(time.monotonic() - begun)
            due = None if again is None else time.monotonic() + max(0.0, again - time.time())
            self._queue.done(key, due)

    def _looked(self, key: JobKey) -> tuple[float | None, str]:
        """Looks at a job until nothing is left to do; when to look again, and what came of it."""
        if self._synced_at == 0.0 or not self._may():
            return None, "stopped"  # all are wanted again once that is different
        try:
            again = self._settled(key)
        except NotLeadingError:
            return None, "stopped"
        except OutdatedError:
            return self._later(key, None), "again"
        except NameTakenError as error:
            self._tell_once(key, "NameTaken", f"a Pod of another run or owner is named {error}")
            return self._later(key, f"a Pod of somebody else is named {error}"), "again"
        except ClusterError as error:
            if error.reason == "Interrupted" or self._stop.is_set():
                return None, "stopped"
            if _is_refused(error):
                self._tell_once(key, "Refused", str(error))
            return max(
                self._later(key, str(error)), time.time() + (error.retry_after or 0)
            ), "again"
        except Exception:
            # One job that nobody thought of must not take all others down (reference defect 3).
            _log.exception("%s/%s: this is a bug", *key)
            return time.time() + _AFTER_A_BUG, "again"
        self._failed.pop(key, None)
        return again, "done"

    def _settled(self, key: JobKey) -> float | None:
        """Decides and acts until the rules have nothing more; when they want to be asked again."""
        for _ in range(_LOOKS):
            seen = self._observations.job(key)
            run = self._stored(key, seen) if seen else None
            if seen is None or seen.config is None or run is None:
                if seen is None:
                    self._runs.pop(key, None)
                return None
            case = Case(key, run, seen)
            self._make_secrets(case)
            view = self._view(case)
            actions = decide(view, time.time())
            self._note(key, actions)
            again = min((one.at for one in actions if isinstance(one, Requeue)), default=None)
            outcome = self._acting.act(case, actions)
            if outcome == "nothing":
                return again
            if outcome == "some":
                break
        return time.time()

    def _view(self, case: Case) -> JobView:
        seen, run = case.seen, case.run
        batch = next((role for role in run.job.roles if role.batch), None)
        name = batch.pod_name(batch.members[0]) if batch and batch.members else ""
        known = seen.batch.get(name)
        return JobView(
            job=run.job,
            settings=run.settings,
            namespace=case.key[0],
            spec_hash=run.spec_hash,
            pods={name: pod.view for name, pod in seen.pods.items()},
            gone=seen.gone,
            record=read_record(seen.status.data) if seen.status else None,
            hosts=hosts_record(seen.hosts.data, seen.hosts.annotations) if seen.hosts else None,
            batch=known.view if known else None,
            git_managed=run.tracking.synced or bool({"argocd", "flux"} & {*run.settings.profiles}),
            watched_since=max(seen.since, self._synced_at),
            declared_at=seen.config.written if seen.config else None,
            patience=self._choices.patience,
            heard={one.view.uid: one.heard for one in seen.pods.values() if one.heard},
        )

    def _stored(self, key: JobKey, seen: SeenJob) -> StoredRun | None:
        """The job as its ConfigMap says; None for one that is not ours or cannot be read."""
        config = seen.config
        if config is None:
            self._runs.pop(key, None)
            return None
        known = self._runs.get(key)
        if known is not None and known[0] == config.version:
            return known[1]
        run = None
        if self._choices.selector.selects(config.value["metadata"].get("labels") or {}):
            try:
                run = StoredRun(config.value)
            except StoredJobError as error:
                self._tell(
                    key,
                    EmitEvent(
                        warning=True, reason="UnreadableJob", message=f"cannot be read: {error}"
                    ),
                )
                _log.warning("%s/%s: %s", *key, error)
        self._runs[key] = config.version, run
        return run

    def _make_secrets(self, case: Case) -> None:
        """Creates the job's key pair, once; where a Pod has started there is one."""
        ssh = case.run.job.credentials
        if ssh is None or (case.run.uid, ssh.secret) in self._with_secrets:
            return
        if case.run.job.run.suspended:
            return
        started = any(pod.view.phase != "Pending" for pod in case.seen.pods.values())
        if not started:
            self._acting.make_secrets(case)
        self._with_secrets.add((case.run.uid, ssh.secret))

    def _note(self, key: JobKey, actions: Sequence[Action]) -> None:
        for action in actions:
            if isinstance(action, EmitEvent):
                level = logging.WARNING if action.warning else logging.INFO
                _log.log(level, "%s/%s: %s: %s", *key, action.reason, action.message)
            elif not isinstance(action, Requeue):
                _log.debug("%s/%s: %s", *key, action)

    def _later(self, key: JobKey, problem: str | None) -> float:
        """When to look again at a job after something failed."""
        failed = self._failed[key] = self._failed.get(key, 0) + 1
        wait = min(_FIRST_WAIT * 2.0 ** (failed - 1), _LONGEST_WAIT) * random.uniform(0.5, 1.0)  # noqa: S311
        if problem:
            _log.warning("%s/%s: %s; again in %.1f s", *key, problem, wait)
        return time.time() + wait

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
        for key in self._observations.known():
            self._queue.want(key)

    def _wait_for_sync(self) -> None:
        for stream in self._streams:
            while not stream.synced.wait(0.2):
                if self._stop.is_set():
                    return
        self._synced()
        self._want_all()

    def _synced(self) -> None:
        self._synced_at = time.time()
        _log.info("following %d jobs and %d Pods", *self._observations.counts())

    def _made_streams(self) -> list[Stream]:
        places = [None] if self._choices.namespaces is None else [*self._choices.namespaces]
        # ConfigMaps first: a Pod means nothing without its job.
        kinds: list[tuple[str, str, Any]] = [
            ("v1", "ConfigMap", self._observations.maps),
            ("batch/v1", "Job", self._observations.batch),
            ("v1", "Pod", self._observations.pods),
        ]
        return [
            Stream(self._cluster, version, kind, place, JOB_LABEL, keeper, self._restarted)
            for version, kind, keeper in kinds
            for place in places
        ]

    def _restarted(self, kind: str, reason: str, error: ClusterError) -> None:
        self.metrics.restarts.labels(kind, reason).inc()
        _log.warning("the watch of %s begins anew: %s", kind, error)

    def _run(self, name: str, target: Callable[[], None]) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _gauges(self) -> None:
        gauge = self.metrics.gauge
        gauge("queue_depth", "Jobs that want a look now.", lambda: self._queue.depth)
        gauge("jobs", "Jobs that are known.", lambda: self._observations.counts()[0])
        gauge("pods", "Pods that are known.", lambda: self._observations.counts()[1])


def _is_refused(error: ClusterError) -> bool:
    """Whether the API server said no, rather than nothing or later."""
    return error.status is not None and 400 <= error.status < 500 and error.status != 429
