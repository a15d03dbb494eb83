"""What a watcher counts, for Prometheus, and its answers to `/metrics`, `/healthz` and `/readyz`.

Names and labels are a contract with dashboards; docs/watcher.md lists them.
"""

import http.server
import threading
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus

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
_PREFIX = "etcompile_watch_"


class Metrics:
    """The metrics of one watcher; safe to share between threads."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=self.registry)
        self.replacements = self._counter(
            "replacements", "Pods that were replaced, by reason.", "reason"
        )
        self.replacement_seconds = self._histogram(
            "replacement_seconds",
            "Time from seeing a Pod fail or disappear to creating its replacement.",
        )
        self.epochs = self._counter(
            "epochs", "Restarts of commands in place, of a whole run or of one replica."
        )
        self.failures = self._counter(
            "failures",
            "What was written down of runs that failed, by cause (docs/failures.md).",
            "cause",
        )
        for name in sorted(names()):
            # What Prometheus has not seen at 0 does not count as an increase.
            self.failures.labels(name)
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
        """Adds gauges whose values are computed when somebody looks."""
        self.registry.register(_Computed(gauges))

    def text(self) -> bytes:
        """All metrics in Prometheus' text format."""
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
    """A gauge as it is now: a value for each combination of the values of its labels."""
    family = GaugeMetricFamily(_PREFIX + name, words, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


Answer = tuple[bool, str]
"""Whether all is well, and in a few words what is not."""

_TEXT = "text/plain; charset=utf-8"
_METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Endpoints:
    """A running HTTP server. Port 0 is any that is free: `port` says which.

    Raises:
        OSError: the port is taken.
    """

    def __init__(
        self,
        address: str,
        port: int,
        metrics: Callable[[], bytes],
        checks: Mapping[str, Callable[[], Answer]],
    ) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10

            def do_GET(self) -> None:
                status, body, content = HTTPStatus.NOT_FOUND, b"not found\n", _TEXT
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    status, body, content = HTTPStatus.OK, metrics(), _METRICS
                elif path in checks:
                    well, words = checks[path]()
                    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
                    body = f"{words}\n".encode()
                self.send_response(status)
                self.send_header("Content-Type", content)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - http.server's name

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """A probe every few seconds is no news."""

        self._server = http.server.ThreadingHTTPServer((address, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        serve = self._server.serve_forever
        threading.Thread(target=serve, args=(0.5,), name="serving", daemon=True).start()

    def close(self) -> None:
        """Stops answering."""
        self._server.shutdown()
        self._server.server_close()
