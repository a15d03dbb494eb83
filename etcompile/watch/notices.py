"""What a watcher tells of a job besides what the rules say: each thing once, as log and Event.

A job is looked at again and again, by several threads one after the other, and what cannot be read
today cannot be read at the next look either. So this module remembers what was told of which
version of an object, and tells it anew when that has changed. It decides nothing, and nothing is
lost with it: after a restart it is told once more, and an Event that was told is none again
(`events`).
"""

import logging
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from etcompile.kubeapi import Cluster
from etcompile.model.protocol import JOB_LABEL, STORED_JOB, config_names
from etcompile.model.run_record import VERSION, newer_version
from etcompile.watch import admission
from etcompile.watch.actions import Action, EmitEvent, Requeue
from etcompile.watch.events import Events
from etcompile.watch.executor import Case
from etcompile.watch.logs import say
from etcompile.watch.memory import Memory
from etcompile.watch.run_pods import StoredRun
from etcompile.watch.state import PodView
from etcompile.watch.store import SeenJob, SeenMap, Store
from etcompile.watch.workqueue import JobKey

_log = logging.getLogger("etcompile.watch")


class Notices:
    """What was told of jobs; safe to share between threads that look at different jobs.

    Args:
        cluster: Whose policies say whom the watcher trusts.
        store: What is known of jobs.
        events: Who tells people.
        memory: What was told.
    """

    def __init__(self, cluster: Cluster, store: Store, events: Events, memory: Memory) -> None:
        self._cluster = cluster
        self._store = store
        self._events = events
        self._memory = memory
        self._checked: set[str] = set()

    def of_failure(self, key: JobKey, reason: str, message: str) -> None:
        """Tells once of what keeps the watcher from looking after a job, and that it does."""
        ledger, line = self._memory.of(key).ledger, f"not supervised: {message}"
        new = ledger.unsupervised(reason)
        # Another number is no other refusal: replicas and quotas have many.
        text = re.sub(r"[0-9]+", "#", message) if reason == "Refused" else message
        if ledger.is_news("failure", f"{reason} {text}"):
            self.of_job(key, EmitEvent(reason, message, warning=True), line)
        elif new:
            say(logging.WARNING, key, line, reason=reason)

    def of_supervision(self, key: JobKey, run: StoredRun) -> None:
        """Says once that a job is supervised, or is again."""
        lost = self._memory.of(key).ledger.supervised()
        if lost is None:
            return
        self._memory.of(key).ledger.resolved("failure")
        if lost:
            say(logging.INFO, key, f"supervised again after {lost:.1f} s", reason="Supervised")
            return
        message = f"supervised: run {run.spec_hash}, Pods: {len(run.names)}"
        say(logging.INFO, key, message, reason="Supervised")

    def of_end(self, key: JobKey, message: str) -> None:
        """Says once that a job is not this watcher's any more."""
        if self._memory.of(key).ledger.ended():
            say(logging.INFO, key, f"no longer supervised: {message}", reason="Gone")

    def of_job(self, key: JobKey, event: EmitEvent, line: str, version: str = "") -> None:
        """Tells of a job, by an Event about its ConfigMap and a line of the log."""
        seen = self._store.job(key)
        config = seen.config if seen is not None else None
        if config is None:
            say(logging.WARNING, key, line or event.message, reason=event.reason)
        else:
            self._events.report(key, event, config.value["metadata"], version, line)

    def of_actions(self, key: JobKey, actions: Sequence[Action]) -> None:
        """Logs what was decided about a job; what has happened is logged as it is done."""
        if _log.isEnabledFor(logging.DEBUG):
            for action in actions:
                if not isinstance(action, Requeue):
                    say(logging.DEBUG, key, str(action))

    def of_trust(self, namespaces: AbstractSet[str]) -> None:
        """Says once whom the watcher trusts in namespaces: all that it has jobs in."""
        new = namespaces - self._checked
        self._checked = {*namespaces}
        if new:
            admission.tell(self._cluster, sorted(new))

    def of_maps(self, key: JobKey, seen: SeenJob | None) -> None:
        """Tells once of ConfigMaps that do not count, and why."""
        if seen is None:
            return
        bad = [
            (config_map, "UnreadableJob", f"cannot be read: {config_map.problem}")
            for config_map in seen.maps
            if config_map.problem and config_map is not seen.config
        ]
        ignored = (
            f"ignored: it has the label {JOB_LABEL}={key[1]} and a {STORED_JOB}, but the "
            f"ConfigMap of that job is {' or '.join(config_names(key[1]))}"
        )
        bad += [(stray, "IgnoredConfigMap", ignored) for stray in seen.strays.values()]
        for config_map, reason, message in bad:
            about = config_map.value["metadata"]
            if not self._memory.of(key).ledger.is_news("map", f"{about.get('uid')} {message}"):
                continue
            event = EmitEvent(reason, message, warning=True)
            line = f"ConfigMap {config_map.name}: {message}"
            self._events.report(key, event, about, f"{config_map.version} {reason}", line)
        if not bad:
            self._memory.of(key).ledger.resolved("map")

    def of_newer_record(self, key: JobKey, status: SeenMap) -> bool:
        """Whether only a newer etcompile can read the run record, which is told once."""
        version = newer_version(status.data)
        if version is None:
            return False
        message = (
            f"the run record is of version {version}, and this watcher reads versions up to "
            f"{VERSION}: the job is not looked after, and the record stays as it is; run the newer "
            "watcher, or delete this ConfigMap to begin a new run"
        )
        self.of_record(key, status, message)
        self._memory.of(key).ledger.unsupervised("NewerRecord")
        return True

    def of_record(self, key: JobKey, status: SeenMap, message: str) -> None:
        """Tells once that a run record cannot be read."""
        if not self._memory.of(key).ledger.is_news("record", str(status.version)):
            return
        event = EmitEvent("UnreadableRecord", message, warning=True)
        about, version = status.value["metadata"], str(status.version)
        self._events.report(key, event, about, version, f"ConfigMap {status.name}: {message}")

    def of_strangers(self, case: Case, found: Mapping[str, tuple[PodView, str]]) -> None:
        """Tells once of each Pod that carries the marks of a run and is not of it.

        Args:
            case: The job.
            found: All such Pods by UID, each with what shows it.
        """
        for uid, (pod, why) in found.items():
            if not self._memory.of(case.key).ledger.is_news("stranger", uid):
                continue
            message = f"does not count for the run of {case.key[1]}: {why}"
            event = EmitEvent("ForeignPod", message, pod.name, pod.uid, warning=True)
            self._events.report(case.key, event, {}, pod.uid)
