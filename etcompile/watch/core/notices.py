"""What a watcher reports of a job besides what the rules say: each thing once, as log and Event.

What cannot be read today cannot be read at the next look either. So the job's ledger has what was
reported of which version of an object. After a restart it is reported once more, and an Event that
was sent is none again (`event_recorder`).
"""

import logging
import re
from collections.abc import Mapping

from msgspec import Struct

from etcompile.compiler.stored_run import StoredRun
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.run_record import VERSION, newer_version
from etcompile.watch.core import reports
from etcompile.watch.core.actions import EmitEvent
from etcompile.watch.core.config_maps import SeenMap
from etcompile.watch.core.ledger import Memory
from etcompile.watch.core.observe import SeenJob, Store
from etcompile.watch.core.reports import say


class Notices(Struct):
    """What was reported of jobs; safe to share between threads that look at different jobs."""

    store: Store
    events: EventRecorder
    memory: Memory

    def of_failure(self, key: JobKey, reason: str, message: str) -> None:
        """Reports once what keeps the watcher from looking after a job, and that it does."""
        ledger, line = self.memory.of(key).ledger, f"not supervised: {message}"
        new = ledger.unsupervised(reason)
        # Another number is no other refusal: replicas and quotas have many.
        text = re.sub(r"[0-9]+", "#", message) if reason == "Refused" else message
        if ledger.is_news("failure", f"{reason} {text}"):
            self.of_job(key, EmitEvent(reason, message, warning=True), line)
        elif new:
            say(logging.WARNING, key, line, reason=reason)

    def of_supervision(self, key: JobKey, run: StoredRun) -> None:
        """Says once that a job is supervised, or is again."""
        ledger = self.memory.of(key).ledger
        lost = ledger.supervised()
        if lost is None:
            return
        ledger.resolved("failure")
        first = f"supervised: run {run.spec_hash}, Pods: {len(run.names)}"
        message = f"supervised again after {lost:.1f} s" if lost else first
        say(logging.INFO, key, message, reason="Supervised")

    def of_end(self, key: JobKey, message: str) -> None:
        """Says once that a job is not this watcher's any more."""
        if self.memory.of(key).ledger.ended():
            say(logging.INFO, key, f"no longer supervised: {message}", reason="Gone")

    def of_job(self, key: JobKey, event: EmitEvent, line: str, version: str = "") -> None:
        """Reports a job, by an Event about its ConfigMap and a line of the log."""
        seen = self.store.job(key)
        if seen is None or seen.config is None:
            say(logging.WARNING, key, line or event.message, reason=event.reason)
        else:
            reports.report(self.events, key, event, seen.config.metadata, version, line)

    def of_maps(self, key: JobKey, seen: SeenJob) -> None:
        """Reports once which of its ConfigMaps cannot be read or written, and why."""
        ledger = self.memory.of(key).ledger
        bad = [own for own in seen.maps.values() if own.problem and own is not seen.config]
        for config_map in bad:
            about, message = config_map.metadata, f"cannot be read: {config_map.problem}"
            if ledger.is_news("map", f"{about.get('uid')} {message}"):
                event = EmitEvent("UnreadableJob", message, warning=True)
                line = f"ConfigMap {config_map.name}: {message}"
                reports.report(self.events, key, event, about, f"{config_map.version} map", line)
        if not bad:
            ledger.resolved("map")

    def of_newer_record(self, key: JobKey, status: SeenMap) -> bool:
        """Whether only a newer etcompile can read the run record, which is reported once."""
        version = newer_version(status.data)
        if version is None:
            return False
        message = (
            f"the run record has version {version}, but this watcher reads versions up to "
            f"{VERSION}: it does not supervise the job and leaves the record as it is; run the "
            "newer watcher, or delete this ConfigMap to start a new run"
        )
        self.of_record(key, status, message)
        self.memory.of(key).ledger.unsupervised("NewerRecord")
        return True

    def of_record(self, key: JobKey, status: SeenMap, message: str) -> None:
        """Reports once that a run record cannot be read."""
        version = str(status.version)
        if self.memory.of(key).ledger.is_news("record", version):
            event = EmitEvent("UnreadableRecord", message, warning=True)
            line = f"ConfigMap {status.name}: {message}"
            reports.report(self.events, key, event, status.metadata, version, line)

    def of_strangers(self, key: JobKey, strangers: Mapping[str, tuple[PodState, str]]) -> None:
        """Reports once each Pod that carries the marks of a run and is not of it, and why."""
        for uid, (pod, why) in strangers.items():
            if self.memory.of(key).ledger.is_news("stranger", uid):
                message = f"is not part of the run of {key[1]}: {why}"
                event = EmitEvent("ForeignPod", message, pod.name, pod.uid, warning=True)
                reports.report(self.events, key, event, {}, pod.uid)
