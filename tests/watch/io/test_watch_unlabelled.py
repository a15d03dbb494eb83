"""The watcher's ConfigMaps without the label by which it finds them: people make them so."""

import pytest
from watched import eventually, training_job

from etcompile.watch.manifests import NAME

POD = ("Pod", "bert-launcher")


def without_label(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def labels(place, name: str) -> dict:
    maps = place.cluster.resource("v1", "ConfigMap")
    return place.cluster.get(maps, name)["metadata"].get("labels") or {}


def test_a_run_that_is_marked_by_hand_as_the_page_says_is_over(place, watching):
    objects = place.submit(training_job())
    [launcher] = [v for v in objects if (v["kind"], v["metadata"]["name"]) == POD]
    run = launcher["metadata"]["annotations"]["etcompile.dev/spec-hash"]
    # kubectl create configmap bert-etcompile-status --from-literal=done=...
    place.cluster.create(without_label("bert-etcompile-status", done=run))
    running = watching()
    place.kubelets()
    [event] = eventually(lambda: place.told("LabelAdded", "bert-etcompile-status"))
    assert "etcompile.dev/job=bert" in event["message"]
    assert labels(place, "bert-etcompile-status")["etcompile.dev/job"] == "bert"
    assert place.data("bert-etcompile-status")["done"] == run
    place.fails("bert-worker-0")
    place.becomes("bert-launcher", "Failed", 1)
    eventually(lambda: running.watcher.idle)
    made = [name for verb, kind, name in place.writes(NAME) if (verb, kind) == ("create", "pods")]
    assert made == []


def test_host_lists_without_the_label_do_not_keep_dead_hosts(place, watching):
    place.cluster.create(without_label("bert-etcompile-hosts", hostfile="dead-0:1\ndead-1:1\n"))
    watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2))
    assert eventually(lambda: place.told("LabelAdded", "bert-etcompile-hosts"))
    place.holding.set()
    place.fails("bert-worker-0")
    eventually(lambda: place.hosts() == ["bert-worker-1"])


@pytest.mark.parametrize("slot", ["status", "hosts"])
def test_a_label_that_somebody_takes_off_is_put_back_and_nothing_is_forgotten(
    place, watching, slot
):
    watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2) and place.record())
    place.fails("bert-worker-0")
    eventually(lambda: place.record().get("replaced") == {"worker": 1} and place.whole(2))
    started = place.record()["started"]
    maps = place.cluster.resource("v1", "ConfigMap")
    taken = {"metadata": {"labels": {"etcompile.dev/job": None}}}
    place.cluster.patch(maps, f"bert-etcompile-{slot}", taken)
    place.fails("bert-worker-1")
    eventually(lambda: labels(place, f"bert-etcompile-{slot}").get("etcompile.dev/job") == "bert")
    eventually(lambda: place.record().get("replaced") == {"worker": 2} and place.whole(2))
    assert place.record()["started"] == started


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"nginx.conf": "x"}}, "it holds nginx.conf"),
        ({"binaryData": {"done": "YWJj"}}, "it has binaryData (done)"),
        ({"immutable": True}, "it is immutable"),
        (
            {
                "metadata": {
                    "name": "bert-etcompile-status",
                    "ownerReferences": [
                        {"apiVersion": "v1", "kind": "Secret", "name": "mine", "uid": "u"}
                    ],
                }
            },
            "it belongs to the Secret mine",
        ),
        (
            {
                "metadata": {
                    "name": "bert-etcompile-status",
                    "labels": {"etcompile.dev/job": "other"},
                }
            },
            "its label says that it belongs to the job other",
        ),
    ],
)
def test_what_is_somebody_else_s_is_told_of_and_left_as_it_is(place, watching, change, words):
    maps = place.cluster.resource("v1", "ConfigMap")
    made = place.cluster.create({**without_label("bert-etcompile-status"), **change})
    watching()
    place.kubelets()
    place.submit(training_job())
    [event] = eventually(lambda: place.told("NameTaken", "bert-config"))
    assert "the ConfigMap bert-etcompile-status is not the watcher's" in event["message"]
    assert words in event["message"]
    assert place.cluster.get(maps, "bert-etcompile-status") == made
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
