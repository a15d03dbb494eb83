"""Whether a job is supervised: by the log, an Event and a metric, however it came about."""

import json
import logging

import pytest
from watched import eventually, training_job

from etcompile.cli.watch import JsonFormatter
from etcompile.watch.core.act import Ledger
from etcompile.watch.core.reports import say

UNSUPERVISED = "etcompile_watch_unsupervised"


@pytest.fixture
def said(caplog):
    """`said()`: what the watcher has logged so far, from INFO on."""
    caplog.set_level(logging.INFO, "etcompile.watch")
    return lambda: [record.getMessage() for record in caplog.records]


def test_log_says_when_a_job_is_supervised_replaced_and_gone(place, watching, said):
    watching()
    place.begin()
    eventually(lambda: place.phase() == "Running")
    job = f"{place.namespace}/bert"
    [line] = eventually(lambda: [one for one in said() if one.startswith(f"{job}: supervised")])
    assert f"run {place.record()['run']}, Pods: 3" in line
    place.fails("bert-worker-1", 137)
    start = f"{job}-worker-1: failed (exit code 137): recreated in "
    [line] = eventually(lambda: [one for one in said() if one.startswith(start)])
    assert float(line.removeprefix(start).removesuffix(" s")) < 60
    maps = place.cluster.resource("v1", "ConfigMap")
    place.cluster.delete(maps, "bert-config")
    gone = f"{job}: no longer supervised: its ConfigMap is gone"
    eventually(lambda: gone in said())
    assert len([one for one in said() if "supervised" in one]) == 2
    # What a line says has happened: nothing is announced that may fail.
    assert not [one for one in said() if "recreating" in one]


def test_log_as_json_has_a_field_for_each_fact(caplog):
    caplog.set_level(logging.INFO, "etcompile.watch")
    say(logging.WARNING, ("ml", "bert"), "failed\nINFO forged", pod="bert-0", reason="PodReplaced")
    assert caplog.messages == ["ml/bert-0: failed INFO forged"]
    line = json.loads(JsonFormatter().format(caplog.records[0]))
    assert line.pop("time")
    assert line == {
        "level": "WARNING",
        "namespace": "ml",
        "job": "bert",
        "pod": "bert-0",
        "reason": "PodReplaced",
        "message": "failed INFO forged",
    }


def test_ledger_reports_each_fact_once_and_forgets_what_is_resolved():
    now = [0.0]
    ledger = Ledger(clock=lambda: now[0])
    assert ledger.is_new("a")
    assert ledger.is_new("b")
    assert not ledger.is_new("a")
    for number in range(10_000):
        ledger.is_new(str(number))
    assert ledger.is_new("0")  # too many to remember each
    ledger.resolved()
    assert ledger.is_new("9999")
    assert ledger.wait is None
    request = "create", "bert-worker-0"
    ledger.failed(request)
    assert ledger.holds([request])
    now[0] = 100.0
    assert not ledger.holds([request]), "it may be sent again"
    assert ledger.wait is not None, "and nobody has accepted it yet"
    ledger.succeeded(request)
    assert ledger.wait is None


# Its ConfigMaps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("slot", ["status", "hosts"])
def test_config_map_that_lost_its_label_is_reported_and_nothing_forgotten(place, watching, slot):
    running = watching()
    place.begin()
    place.fails("bert-worker-0")
    eventually(lambda: place.record().get("replaced") == {"worker": 1} and place.whole(2))
    started = place.record()["started"]
    maps = place.cluster.resource("v1", "ConfigMap")
    name = f"bert-etcompile-{slot}"
    place.cluster.patch(maps, name, {"metadata": {"labels": {"etcompile.dev/job": None}}})
    before = place.data(name)
    place.fails("bert-worker-1")
    [event] = eventually(lambda: place.events_of("NameTaken", "bert-config"))
    words = f"the ConfigMap {name} does not have the label etcompile.dev/job=bert: add it, or"
    assert words in event["message"]
    eventually(lambda: running.value(UNSUPERVISED, reason="NameTaken"))
    assert place.data(name) == before
    place.cluster.patch(maps, name, {"metadata": {"labels": {"etcompile.dev/job": "bert"}}})
    eventually(lambda: place.record().get("replaced") == {"worker": 2} and place.whole(2), 40)
    eventually(lambda: not running.value(UNSUPERVISED, reason="NameTaken"))
    assert place.record()["started"] == started


@pytest.mark.parametrize("change", [{"binaryData": {"record": "YWJj"}}, {"immutable": True}])
def test_record_that_cannot_be_written_is_reported(place, watching, change):
    maps = place.cluster.resource("v1", "ConfigMap")
    metadata = {"name": "bert-etcompile-status", "labels": {"etcompile.dev/job": "bert"}}
    created = place.cluster.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **change}
    )
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.events_of("Refused", "bert-config"))
    assert place.cluster.get(maps, "bert-etcompile-status") == created
    assert running.value(UNSUPERVISED, reason="Refused") == 1
    place.cluster.delete(maps, "bert-etcompile-status")
    eventually(lambda: place.record().get("phase") == "Running", 40)
    # A series that vanishes ends no alert.
    series = running.watcher.metrics.registry.get_sample_value
    eventually(lambda: series(UNSUPERVISED, {"reason": "Refused"}) == 0.0)
