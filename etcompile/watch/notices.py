"""What a watcher tells of a job besides what the rules say: each thing once, as log and Event.

A job is looked at again and again, by several threads one after the other, and what cannot be read
today cannot be read at the next look either. So this module remembers what was told of which
version of an object, and tells it anew when that has changed. It decides nothing, and nothing is
lost with it: after a restart it is told once more, and an Event that was told is none again
(`events`).
"""

import logging
from collections.abc import Mapping, Sequence

from etcompile.kubeapi import Cluster
from etcompile.model.protocol import JOB_LABEL, STORED_JOB, config_name
from etcompile.model.run_record import VERSION, newer_version
from etcompile.watch import admission
from etcompile.watch.actions import Action, EmitEvent, Requeue
from etcompile.watch.events import Events
from etcompile.watch.executor import Case
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
    """

    def __init__(self, cluster: Cluster, store: Store, events: Events) -> None:
        self._cluster = cluster
        self._store = store
        self._events = events
        self._checked: set[str] = set()
        self._foreign: dict[JobKey, frozenset[str]] = {}
        self._unread: dict[JobKey, int] = {}
        self._told: dict[JobKey, frozenset[tuple[str, int]]] = {}

    def jobs(self) -> set[JobKey]:
        """The jobs of which something was told."""
        return {key for keys in (self._foreign, self._unread, self._told) for key in [*keys]}

    def forget(self, key: JobKey) -> None:
        """Forgets what was told of a job that there is not, or that is not this watcher's."""
        self._told.pop(key, None)
        self._foreign.pop(key, None)
        if not any(other[0] == key[0] for other in self._store.known()):
            self._checked.discard(key[0])

    def of_job(self, key: JobKey, event: EmitEvent, version: str = "") -> None:
        """Tells of a job, as an Event about its ConfigMap.

        Args:
            key: The job.
            event: What to tell.
            version: What it was decided on (`Events.tell`).
        """
        seen = self._store.job(key)
        if seen is not None and seen.config is not None:
            self._events.tell(key[0], event, seen.config.value["metadata"], version)

    def of_actions(self, key: JobKey, actions: Sequence[Action]) -> None:
        """Writes what was decided about a job into the log; its Events are told as it is done."""
        for action in actions:
            if isinstance(action, EmitEvent):
                level = logging.WARNING if action.warning else logging.INFO
                _log.log(level, "%s/%s: %s: %s", *key, action.reason, action.message)
            elif not isinstance(action, Requeue):
                _log.debug("%s/%s: %s", *key, action)

    def of_trust(self, namespace: str) -> None:
        """Says once whom the watcher trusts in a namespace."""
        if namespace not in self._checked:
            self._checked.add(namespace)
            admission.tell(self._cluster, namespace)

    def of_maps(self, key: JobKey, seen: SeenJob | None) -> None:
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
        return True

    def of_record(self, key: JobKey, status: SeenMap, message: str) -> None:
        """Tells once that a run record cannot be read."""
        if self._unread.get(key) == status.version:
            return
        self._unread[key] = status.version
        event = EmitEvent("UnreadableRecord", message, warning=True)
        self._events.tell(key[0], event, status.value["metadata"], str(status.version))
        _log.warning("%s/%s: ConfigMap %s: %s", *key, status.name, message)

    def of_strangers(self, case: Case, found: Mapping[str, tuple[PodView, str]]) -> None:
        """Tells once of each Pod that carries the marks of a run and is not of it.

        Args:
            case: The job.
            found: All such Pods by UID, each with what shows it.
        """
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
