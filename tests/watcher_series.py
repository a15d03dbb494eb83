"""The series that a watcher offers to Prometheus, for the dashboard and for their snapshot."""

from unittest.mock import Mock

from etcompile.watch.controller import Choices, Watcher


def metrics() -> dict[str, frozenset[str]]:
    """The labels of each series that a watcher has, by its name."""
    registry = Watcher(Mock(), Choices(None), identity="test").metrics.registry
    found = {}
    # Of a metric that has counted nothing yet there is no public word about its labels.
    for name, collector in registry._names_to_collectors.items():  # noqa: SLF001
        own = [collector, *getattr(collector, "describe", list)()]
        names = (getattr(family, "_labelnames", ()) for family in own)
        labels = next(filter(None, names), ())
        found[name] = frozenset(labels) | ({"le"} if name.endswith("_bucket") else frozenset())
    return found


def families() -> dict[str, tuple[str, frozenset[str]]]:
    """The type and the labels of each metric, by the name that a query has: `..._total`, say."""
    registry = Watcher(Mock(), Choices(None), identity="test").metrics.registry
    known, found = metrics(), {}
    for name, collector in registry._names_to_collectors.items():  # noqa: SLF001
        kind = getattr(collector, "_type", None)
        if kind is None:
            kind = next((family.type for family in getattr(collector, "describe", list)()), "")
        derived = name.endswith(("_created", "_bucket", "_sum", "_count"))
        if derived or (kind == "counter" and not name.endswith("_total")):
            continue
        found[name] = kind, known[name]
    return found
