"""The watcher as it runs: the core with all listeners."""

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from etcompile.causes.goodput import Goodput, goodput
from etcompile.kubeapi import Cluster
from etcompile.kubeapi.controller.lease import Lease
from etcompile.kubeapi.controller.work_queue import Key
from etcompile.watch.core.controller import Choices, Watcher
from etcompile.watch.listeners import LISTENERS
from etcompile.watch.listeners.timeline import timeline
from etcompile.watch.metrics import gauge


def watcher(
    cluster: Cluster, choices: Choices, *, identity: str, leading: Lease | None = None
) -> Watcher:
    """Return a watcher with all listeners; the arguments are those of `Watcher`."""
    created = Watcher(cluster, choices, identity=identity, leading=leading, listeners=LISTENERS)

    def gauges() -> Iterator[GaugeMetricFamily]:
        ratios: dict[tuple[str, ...], float] = {
            k: goodput.ratio for k, goodput in goodputs(created)
        }
        words = "Seconds in training divided by the seconds since the run began, by job."
        yield gauge("goodput_ratio", words, ratios, "job_namespace", "job_name")

    created.metrics.computed(gauges)
    return created


def goodputs(watching: Watcher) -> Iterator[tuple[Key, Goodput]]:
    """Yield how much of its time each job whose run has begun has been in training."""
    now = watching.now
    for key, view in watching.views():
        record = view.run_record
        known = timeline(view, record, now) if record is not None else None
        if known is not None:
            yield key, goodput(known, now)
