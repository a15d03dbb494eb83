"""What the watcher counts, as Prometheus reads it."""

from etcompile.causes.causes import names
from etcompile.watch.listeners import failures
from etcompile.watch.metrics import Metrics, gauge


def test_counter_of_each_cause_begins_at_zero() -> None:
    metrics = Metrics(failures.LISTENER.counters)
    value = metrics.registry.get_sample_value
    assert {value("etcompile_watch_failures_total", {"cause": name}) for name in names()} == {0.0}
    metrics.increment("failures", "OOMKilled")
    assert value("etcompile_watch_failures_total", {"cause": "OOMKilled"}) == 1.0


def test_gauge_of_jobs_forgets_jobs_that_are_gone() -> None:
    metrics = Metrics()
    jobs: dict[tuple[str, ...], float] = {("ml", "bert"): 0.25, ("nlp", "llama"): 1.0}
    labels = {"job_namespace": "ml", "job_name": "bert"}
    metrics.computed(lambda: [gauge("goodput_ratio", "Of its time.", jobs, *labels)])
    assert metrics.registry.get_sample_value("etcompile_watch_goodput_ratio", labels) == 0.25
    del jobs["ml", "bert"]
    assert metrics.registry.get_sample_value("etcompile_watch_goodput_ratio", labels) is None
    assert b'job_name="llama"' in metrics.text()


def test_metrics_have_no_series_for_when_each_was_created() -> None:
    metrics = Metrics(failures.LISTENER.counters)
    metrics.seconds["reconcile_seconds"].observe(1.0)
    metrics.increment("stream_restarts", "Pod", "expired")
    assert b"etcompile_watch_stream_restarts_total{" in metrics.text()
    assert b"_created" not in metrics.text()
