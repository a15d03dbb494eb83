"""Whether a job is supervised: by the log, an Event and a metric, however it came about."""

import json
import logging

import pytest
from msgspec import structs
from watched import QUICK, eventually, training_job

from etcompile.cli.watch import JsonFormatter
from etcompile.model.protocol import SPEC_HASH
from etcompile.watch.core.act import Ledger
from etcompile.watch.core.reports import say

UNSUPERVISED = "etcompile_watch_unsupervised"


@pytest.fixture
def said(caplog):
    """`said()`: what the watcher has logged so far, from INFO on."""
    caplog.set_level(logging.INFO, "etcompile.watch")
    return lambda: [record.getMessage() for record in caplog.records]


def begun(place) -> None:
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2) and place.record().get("phase") == "Running")


def test_log_says_when_a_job_is_supervised_replaced_and_gone(place, watching, said):
    watching()
    begun(place)
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


@pytest.mark.parametrize("there", [True, False], ids=["watched", "between two watchers"])
def test_pod_without_its_spec_hash_is_replaced_if_its_run_is_known(place, watching, there):
    first = watching()
    begun(place)
    if not there:
        first.stop()
    pods = place.cluster.resource("v1", "Pod")
    without_hash = {"metadata": {"annotations": {SPEC_HASH: None}}}
    place.cluster.patch(pods, "bert-worker-1", without_hash)
    uid = place.uid("bert-worker-1")
    if there:  # it is known which run the Pod was created for
        place.fails("bert-worker-1")
        eventually(lambda: place.uid("bert-worker-1") not in ("", uid))
        return
    watching(timeouts=structs.replace(QUICK, start=1.0))
    eventually(lambda: place.events_of("NameTaken", "bert-worker-1"))
    run = place.record()["run"]
    place.cluster.patch(pods, "bert-worker-1", {"metadata": {"annotations": {SPEC_HASH: run}}})
    place.fails("bert-worker-1")
    eventually(lambda: place.uid("bert-worker-1") not in ("", uid))


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


def test_config_maps_of_others_are_reported_one_after_the_other_and_not_written(
    place, watching, said
):
    maps = place.cluster.resource("v1", "ConfigMap")
    theirs = {}
    for slot in ("status", "hosts"):
        metadata = {"name": f"bert-etcompile-{slot}"}
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        theirs[slot] = place.cluster.create({**value, "data": {"nginx.conf": "x"}})
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.events_of("NameTaken", "bert-config"))
    eventually(lambda: running.value(UNSUPERVISED, reason="NameTaken") == 1)
    assert place.cluster.get(maps, "bert-etcompile-status") == theirs["status"]
    place.cluster.delete(maps, "bert-etcompile-status")
    eventually(lambda: len(place.events_of("NameTaken", "bert-config")) == 2, 40)
    held = " ".join(event["message"] for event in place.events_of("NameTaken", "bert-config"))
    for slot in ("status", "hosts"):
        assert f"the ConfigMap bert-etcompile-{slot} does not have the label" in held
    assert running.value(UNSUPERVISED, reason="NameTaken") == 1
    assert len([one for one in said() if "bert: not supervised: " in one]) == 2
    assert place.cluster.get(maps, "bert-etcompile-hosts") == theirs["hosts"]
    place.cluster.delete(maps, "bert-etcompile-hosts")
    eventually(lambda: running.value(UNSUPERVISED, reason="NameTaken") == 0, 40)
    [line] = eventually(lambda: [one for one in said() if "supervised again after" in one])
    assert f"{place.namespace}/bert: " in line
    eventually(lambda: place.whole(2))


@pytest.mark.parametrize("slot", ["status", "hosts"])
def test_config_map_that_lost_its_label_is_reported_and_nothing_forgotten(place, watching, slot):
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2) and place.record())
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
