"""Count what the watcher does, for Prometheus.

Names and labels are a contract with dashboards; docs/watcher.md lists them.
"""

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
    """The metrics of one watcher, by name; safe to share between threads."""

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
