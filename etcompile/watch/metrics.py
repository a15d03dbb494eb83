"""What a watcher counts, for Prometheus: replacements, how fast they are, and what they cost.

Names and labels are a contract with dashboards; docs/running-the-watcher.md lists them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from etcompile.failures.causes import names

_SECONDS = (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The metrics of one watcher; safe to share between threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self.replacements = Counter(
            "etcompile_watch_replacements",
            "Pods that were replaced, by reason.",
            ["reason"],
            registry=self.registry,
        )
        self.replacement_seconds = Histogram(
            "etcompile_watch_replacement_seconds",
            "Time from seeing a Pod fail or disappear to creating its replacement.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.epochs = Counter(
            "etcompile_watch_epochs",
            "Restarts of commands in place, of a whole run or of one replica.",
            registry=self.registry,
        )
        self.failures = Counter(
            "etcompile_watch_failures",
            "What was written down of runs that failed, by cause (docs/failures.md).",
            ["cause"],
            registry=self.registry,
        )
        for name in sorted(names()):
            # What Prometheus has not seen at 0 does not count as an increase.
            self.failures.labels(name)
        self.restarts = Counter(
            "etcompile_watch_stream_restarts",
            "Watches that were restarted, by kind and reason: expired or error.",
            ["kind", "reason"],
            registry=self.registry,
        )
        self.writes = Counter(
            "etcompile_watch_api_writes",
            "Writes, by verb, kind and the status of the answer; `none` for no answer.",
            ["verb", "kind", "status"],
            registry=self.registry,
        )
        self.reconciles = Counter(
            "etcompile_watch_reconciles",
            "Reconciliations of jobs, by result: done, again or stopped.",
            ["outcome"],
            registry=self.registry,
        )
        self.reconcile_seconds = Histogram(
            "etcompile_watch_reconcile_seconds",
            "Duration of the reconciliation of a job, including its writes.",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.leads = Gauge(
            "etcompile_watch_leader", "1 while this watcher is the leader.", registry=self.registry
        )

    def gauge(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Adds a gauge whose value is asked for when somebody looks."""
        Gauge(f"etcompile_watch_{name}", words, registry=self.registry).set_function(value)

    def labelled(
        self,
        name: str,
        words: str,
        labels: Sequence[str],
        values: Callable[[], Iterable[tuple[Sequence[str], float]]],
    ) -> None:
        """Adds a gauge with labels, whose values are asked for when somebody looks."""
        self.registry.register(_Labelled(f"etcompile_watch_{name}", words, labels, values))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self.registry)


class _Labelled(Collector):
    """A gauge with labels; of what is gone nothing is left."""

    def __init__(
        self,
        name: str,
        words: str,
        labels: Sequence[str],
        values: Callable[[], Iterable[tuple[Sequence[str], float]]],
    ) -> None:
        self._name, self._words, self._labels, self._values = name, words, labels, values

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The gauge, without values: who registers it must not be asked for any yet."""
        yield GaugeMetricFamily(self._name, self._words, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The gauge as it is now."""
        for family in self.describe():
            for labels, value in self._values():
                family.add_metric(labels, value)
            yield family
