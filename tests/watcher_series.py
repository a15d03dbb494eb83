"""The series that a watcher offers to Prometheus."""

from unittest.mock import Mock

from etcompile.watch.core.controller import Choices
from etcompile.watch.watcher import watcher


def metrics() -> dict[str, frozenset[str]]:
    """The labels of each series that a watcher has, by its name."""
    registry = watcher(Mock(), Choices(None), identity="test").metrics.registry
    series = {}
    # Of a metric that has counted nothing yet there is no public word about its labels.
    for name, collector in registry._names_to_collectors.items():  # noqa: SLF001
        families = getattr(collector, "describe", collector.collect)()
        ours = [collector, *(family for family in families if name.startswith(family.name))]
        names = (getattr(family, "_labelnames", ()) for family in ours)
        labels = next(filter(None, names), ())
        series[name] = frozenset(labels) | ({"le"} if name.endswith("_bucket") else frozenset())
    return series
