"""What the watcher counts, as Prometheus reads it."""

from etcompile.failures.causes import names
from etcompile.watch.core.metrics import Metrics, gauge
from etcompile.watch.listeners import failures


def test_each_cause_is_counted_from_zero_so_that_its_first_failure_shows() -> None:
    metrics = Metrics(failures.LISTENER.counters)
    value = metrics.registry.get_sample_value
    assert {value("etcompile_watch_failures_total", {"cause": name}) for name in names()} == {0.0}
    metrics.counters["failures"].labels("OOMKilled").inc()
    assert value("etcompile_watch_failures_total", {"cause": "OOMKilled"}) == 1.0


def test_a_gauge_of_jobs_forgets_those_that_are_gone() -> None:
    metrics = Metrics()
    jobs = {("ml", "bert"): 0.25, ("nlp", "llama"): 1.0}
    labels = {"job_namespace": "ml", "job_name": "bert"}
    metrics.computed(lambda: [gauge("goodput_ratio", "Of its time.", jobs, *labels)])
    assert metrics.registry.get_sample_value("etcompile_watch_goodput_ratio", labels) == 0.25
    del jobs["ml", "bert"]
    assert metrics.registry.get_sample_value("etcompile_watch_goodput_ratio", labels) is None
    assert b'job_name="llama"' in metrics.text()
