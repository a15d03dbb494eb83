"""Lines of the watcher's log, and the Events that go with them."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from etcompile.diagnostics.redaction import shown
from etcompile.k8s.objects import timestamp
from etcompile.kubeapi.controller.events import About, EventRecorder
from etcompile.kubeapi.controller.work_queue import Key
from etcompile.watch.core.actions import EmitEvent

_log = logging.getLogger("etcompile.watch")
_LONGEST_MESSAGE = 1000  # the API server refuses more than 1024 bytes
TEXT = "%(asctime)s %(levelname)s %(message)s"
"""The form of a line of the log for people."""


def say(level: int, key: Key, message: str, *, pod: str = "", reason: str = "") -> None:
    """Log what has happened to a job, or to a Pod: `training/hello-worker-1: failed (…): …`."""
    message = " ".join(message.split())
    fields = {"namespace": key[0], "job": key[1], "pod": pod, "reason": reason, "message": message}
    known = {"fields": {name: value for name, value in fields.items() if value}}
    _log.log(level, "%s/%s: %s", key[0], pod or key[1], message, extra=known)


class JsonFormatter(logging.Formatter):
    """A JSON object a line: `time`, `level`, `message`, and what `say` knows."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line."""
        line = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def emit(
    events: EventRecorder,
    namespace: str,
    event: EmitEvent,
    config: Mapping[str, Any],
    version: str = "",
) -> None:
    """Send an Event about a Pod, or about the job's ConfigMap, whose metadata is `config`.

    Args:
        version: Of the run record that it was decided on: decided on it again, it is no second
            Event. Empty for what may be reported again.
    """
    about = About("ConfigMap", namespace, config.get("name") or "", config.get("uid") or "")
    if event.pod is not None:
        about = About("Pod", namespace, event.pod, event.uid or "")
    reason, message = shown(event.reason, 128), shown(event.message, _LONGEST_MESSAGE)
    events.emit(about, reason, message, warning=event.warning, once=version)


def report(
    events: EventRecorder,
    key: Key,
    event: EmitEvent,
    config: Mapping[str, Any],
    version: str = "",
    line: str = "",
) -> None:
    """Send an Event (`emit`), and log a line or else the Event's message."""
    emit(events, key[0], event, config, version)
    level = logging.WARNING if event.warning else logging.INFO
    say(level, key, line or event.message, pod=event.pod or "", reason=event.reason)


_SECONDS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_PREFIX = "etcompile_watch_"


Counted = tuple[str, tuple[str, ...], Sequence[str]]
"""Of a counter of a listener: its words, the name of its label, and the values that it has."""


disable_created_metrics()  # type: ignore[no-untyped-call] # a series more for each, which no dashboard reads


class Metrics:
    """The metrics of one watcher; safe to share between threads."""

    def __init__(self, counters: Mapping[str, Counted] | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self.replacements = self._counter(
            "replacements", "Pods that were replaced, by reason.", "reason"
        )
        self.replacement_seconds = self._histogram(
            "replacement_seconds",
            "Time from seeing a Pod fail or disappear to creating its replacement.",
        )
        self.counters = {}
        for name, (words, labels, values) in (counters or {}).items():
            counter = self.counters[name] = self._counter(name, words, *labels)
            for value in values:
                # What Prometheus has not seen at 0 does not count as an increase.
                counter.labels(value)
        self.restarts = self._counter(
            "stream_restarts",
            "Watches that were restarted, by kind and reason: expired or error.",
            "kind",
            "reason",
        )
        self.writes = self._counter(
            "api_writes",
            "Writes, by verb, kind and the status of the answer; `none` for no answer.",
            "verb",
            "kind",
            "status",
        )
        self.reconciles = self._counter(
            "reconciles", "Reconciliations of jobs, by result: done, again or stopped.", "outcome"
        )
        self.reconcile_seconds = self._histogram(
            "reconcile_seconds", "Duration of the reconciliation of a job, including its writes."
        )
        self.leads = Gauge(
            f"{_PREFIX}leader", "1 while this watcher is the leader.", registry=self.registry
        )

    def computed(self, gauges: Callable[[], Iterable[GaugeMetricFamily]]) -> None:
        """Add gauges whose values are computed when somebody looks."""
        self.registry.register(_Computed(gauges))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, words, labels, registry=self.registry)

    def _histogram(self, name: str, words: str) -> Histogram:
        return Histogram(_PREFIX + name, words, buckets=_SECONDS, registry=self.registry)


class _Computed(Collector):
    def __init__(self, gauges: Callable[[], Iterable[GaugeMetricFamily]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._gauges()


def gauge(
    name: str, words: str, values: Mapping[tuple[str, ...], float], *labels: str
) -> GaugeMetricFamily:
    """Return a gauge as it is now: a value for each combination of the values of its labels."""
    family = GaugeMetricFamily(_PREFIX + name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
