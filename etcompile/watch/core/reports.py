"""Lines of the watcher's log, the Events that go with them, and metrics for Prometheus."""

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
from etcompile.kubeapi.controller.events import About, EventRecorder
from etcompile.kubeapi.controller.work_queue import Key
from etcompile.watch.core.run import EmitEvent

_log = logging.getLogger("etcompile.watch")
_LONGEST_MESSAGE = 1000  # the API server refuses more than 1024 bytes


def say(level: int, key: Key, message: str, *, pod: str = "", reason: str = "") -> None:
    """Log what has happened to a job, or to a Pod: `training/hello-worker-1: failed (…): …`.

    The facts are in the record's `fields`, too, for a log of JSON objects.
    """
    message = " ".join(message.split())
    fields = {"namespace": key[0], "job": key[1], "pod": pod, "reason": reason, "message": message}
    known = {"fields": {name: value for name, value in fields.items() if value}}
    _log.log(level, "%s/%s: %s", key[0], pod or key[1], message, extra=known)


def report(
    events: EventRecorder,
    key: Key,
    event: EmitEvent,
    config: Mapping[str, Any],
    version: str = "",
    line: str | None = "",
) -> None:
    """Send an Event about a Pod, or about the ConfigMap whose metadata is `config`, and log it.

    Args:
        version: That of the run record that it was decided on: decided on it again, it is no second
            Event. Empty for what may be reported again.
        line: What to log, if not the Event's message; None for nothing.
    """
    about = About("ConfigMap", key[0], config.get("name") or "", config.get("uid") or "")
    if event.pod is not None:
        about = About("Pod", key[0], event.pod, event.uid or "")
    reason, message = shown(event.reason, 128), shown(event.message, _LONGEST_MESSAGE)
    events.emit(about, reason, message, warning=event.warning, once=version)
    if line is not None:
        level = logging.WARNING if event.warning else logging.INFO
        say(level, key, line or event.message, pod=event.pod or "", reason=event.reason)


disable_created_metrics()  # type: ignore[no-untyped-call] # a series more for each, which no dashboard reads
_SECONDS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
_NAMESPACE = "etcompile_watch"
Counted = tuple[str, tuple[str, ...], Sequence[str]]
"""A counter of a listener: its words, the name of its label, and the values that it has."""
_COUNTERS = {
    "replacements": ("Pods that were replaced, by reason.", "reason"),
    "stream_restarts": (
        "Watches that were restarted, by kind and reason: expired or error.",
        *("kind", "reason"),
    ),
    "api_writes": (
        "Writes, by verb, kind and the status of the answer; `none` for no answer.",
        *("verb", "kind", "status"),
    ),
    "reconciles": ("Reconciliations of jobs, by result: done, again or stopped.", "outcome"),
}
_HISTOGRAMS = {
    "replacement_seconds": "Time from seeing a Pod fail or disappear to creating its replacement.",
    "reconcile_seconds": "Duration of the reconciliation of a job, including its writes.",
}


class Metrics:
    """The metrics of one watcher, by name; safe to share between threads.

    Names and labels are a contract with dashboards; docs/watcher.md lists them.
    """

    def __init__(self, counters: Mapping[str, Counted] | None = None) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        of: Any = {"namespace": _NAMESPACE, "registry": self.registry}
        self.leads = Gauge("leader", "1 while this watcher is the leader.", **of)
        self.seconds = {
            name: Histogram(name, words, buckets=_SECONDS, **of)
            for name, words in _HISTOGRAMS.items()
        }
        self.counters = {
            name: Counter(name, words, labels, **of) for name, (words, *labels) in _COUNTERS.items()
        }
        for name, (words, labels, values) in (counters or {}).items():
            counter = self.counters[name] = Counter(name, words, labels, **of)
            for value in values:
                # What Prometheus has not seen at 0 does not count as an increase.
                counter.labels(value)

    def increment(self, name: str, *labels: str, by: int = 1) -> None:
        counter = self.counters[name]
        (counter.labels(*labels) if labels else counter).inc(by)

    def computed(self, gauges: Callable[[], Iterable[GaugeMetricFamily]]) -> None:
        self.registry.register(_Computed(gauges))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Computed(Collector):
    def __init__(self, gauges: Callable[[], Iterable[GaugeMetricFamily]]) -> None:
        self._gauges = gauges

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return self._gauges()


def gauge(
    name: str, words: str, values: Mapping[tuple[str, ...], float], *labels: str
) -> GaugeMetricFamily:
    """Return a gauge as it is now: a value for each combination of the values of its labels."""
    family = GaugeMetricFamily(f"{_NAMESPACE}_{name}", words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family
