"""The watcher's ConfigMaps without the label by which it finds them: people make them so."""

import pytest
from watched import eventually, training_job

from etcompile.integrations.watcher_manifests import NAME


def without_label(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


@pytest.mark.parametrize("slot", ["status", "hosts"])
def test_a_label_that_somebody_takes_off_is_missed_and_nothing_is_forgotten(place, watching, slot):
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
    [event] = eventually(lambda: place.told("NameTaken", "bert-config"))
    words = f"the ConfigMap {name} does not have the label etcompile.dev/job=bert: add it, or"
    assert words in event["message"]
    eventually(lambda: running.value("etcompile_watch_unsupervised", reason="NameTaken"))
    assert place.data(name) == before
    place.cluster.patch(maps, name, {"metadata": {"labels": {"etcompile.dev/job": "bert"}}})
    eventually(lambda: place.record().get("replaced") == {"worker": 2} and place.whole(2), 40)
    eventually(lambda: not running.value("etcompile_watch_unsupervised", reason="NameTaken"))
    assert place.record()["started"] == started


def test_a_config_map_of_somebody_else_is_reported_and_left_as_it_is(place, watching):
    maps = place.cluster.resource("v1", "ConfigMap")
    value = without_label("bert-etcompile-status", **{"nginx.conf": "x"})
    theirs = place.cluster.create(value)
    watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.told("NameTaken", "bert-config"))
    assert place.cluster.get(maps, "bert-etcompile-status") == theirs
    assert ("patch", "configmaps", "bert-etcompile-status") not in place.writes(NAME)
    place.cluster.delete(maps, "bert-etcompile-status")
    eventually(lambda: place.record().get("phase") == "Running", 40)


@pytest.mark.parametrize(
    ("slot", "change", "words"),
    [
        ("hosts", {"binaryData": {"hostfile": "ZGVhZC0wOjEK"}}, "it has binaryData (hostfile)"),
        ("status", {"binaryData": {"done": "YWJj"}}, "it has binaryData (done)"),
        ("status", {"immutable": True}, "it is immutable"),
    ],
)
def test_what_has_the_label_and_no_watcher_could_write_is_told_of_too(
    place, watching, slot, change, words
):
    maps = place.cluster.resource("v1", "ConfigMap")
    metadata = {"name": f"bert-etcompile-{slot}", "labels": {"etcompile.dev/job": "bert"}}
    made = place.cluster.create({**without_label(""), "metadata": metadata, **change})
    running = watching()
    place.kubelets()
    place.submit(training_job())
    [event] = eventually(lambda: place.told("UnreadableJob", f"bert-etcompile-{slot}"))
    assert words in event["message"]
    assert place.cluster.get(maps, f"bert-etcompile-{slot}") == made
    eventually(lambda: running.value("etcompile_watch_unsupervised", reason="ForeignConfigMap"))
    place.cluster.delete(maps, f"bert-etcompile-{slot}")
    eventually(lambda: place.record().get("phase") == "Running", 40)
    eventually(lambda: not running.value("etcompile_watch_unsupervised", reason="ForeignConfigMap"))


def test_a_record_that_somebody_has_filled_is_reported_until_there_is_room(place, watching):
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2) and place.record())
    maps = place.cluster.resource("v1", "ConfigMap")
    size = (
        1_048_576
        - sum(len(k) + len(v) for k, v in place.data("bert-etcompile-status").items())
        - 10
    )
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"junk": "x" * size}})
    uid = place.uid("bert-worker-0")
    place.fails("bert-worker-0")
    [event] = eventually(lambda: place.told("Refused", "bert-config"))
    assert "bert-etcompile-status" in event["message"]
    assert running.value("etcompile_watch_unsupervised", reason="Refused") == 1
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"junk": None}})
    eventually(lambda: place.uid("bert-worker-0") not in ("", uid), 40)
    eventually(lambda: not running.value("etcompile_watch_unsupervised", reason="Refused"))
