"""The run record in `J-status`: small, of a version, and none that was ever written gets lost.

`run-records-v1.json` is what a watcher wrote of these runs while the record had no version.
"""

import json
import tracemalloc
from pathlib import Path

import pytest
from recorded_runs import RUNS

from etcompile.model.protocol import JOB_LABEL, status_name
from etcompile.model.run_record import (
    NOTHING,
    VERSION,
    ReplicaRecord,
    RunRecord,
    newer_version,
    read_record,
    record_data,
)
from etcompile.status import statuses
from etcompile.watch.actions import Requeue, WriteStatus
from specs import compiled

WITHOUT_EPOCHS = 2
"""The version of records of runs whose commands do not restart in place: older watchers read it."""
OF_VERSION_1 = json.loads(Path(__file__).with_name("run-records-v1.json").read_text("utf-8"))


def test_of_each_run_there_is_an_old_record_and_no_two_are_alike() -> None:
    assert OF_VERSION_1.keys() == RUNS.keys()
    said = {key for data in OF_VERSION_1.values() for key in json.loads(data["record"])}
    assert said >= {
        *("seen", "completed", "trials", "names", "lines", "attempts", "numbers", "failures"),
        *("gang", "leaving", "replaced", "restarts", "launcher", "unreachable", "finished"),
    }
    assert "version" not in said


@pytest.mark.parametrize("run", RUNS)
def test_the_rules_see_the_same_in_an_old_record(run: str) -> None:
    world = RUNS[run]()
    assert json.loads(world.status["record"])["version"] == WITHOUT_EPOCHS
    assert read_record(OF_VERSION_1[run]) == world.record


@pytest.mark.parametrize("run", RUNS)
def test_a_run_with_an_old_record_goes_on_as_it_would_have(run: str) -> None:
    lives = []
    for status in (None, OF_VERSION_1[run]):
        world = RUNS[run]()
        if status is not None:
            world.status = dict(status)
        world.restart_watcher()
        world.done.clear()
        world.wait(400)
        for name in [name for name, pod in world.pods.items() if pod.ready][:2]:
            if name in world.pods:
                world.fail(name)
            world.wait(400)
        acts = [repr(one) for one in world.done if not isinstance(one, Requeue | WriteStatus)]
        lives.append((acts, world.record, json.loads(world.status["record"]).get("version")))
    assert lives[0][:2] == lives[1][:2]
    # Nothing was written where nothing was to be said: the run was over, or suspended.
    assert lives[1][2] == WITHOUT_EPOCHS or read_record(OF_VERSION_1[run]) == lives[1][1]


@pytest.mark.parametrize("run", RUNS)
def test_a_record_reads_back_from_what_is_written(run: str) -> None:
    record = RUNS[run]().record
    assert read_record(record_data(record)) == record


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("followed_by_others", "mnist-edljob-worker-5"),
        ("renamed_for_kueue", "mnist-one-worker-1-a2"),
    ],
)
def test_status_names_the_pods_that_an_old_record_and_a_new_one_tell_of(
    run: str, name: str
) -> None:
    world = RUNS[run]()
    objects = compiled(*world.documents, namespace="ml", **world.options).objects
    config = next(one for one in objects if one["kind"] == "ConfigMap")
    declared = {**config, "metadata": {**config["metadata"], "uid": world.config_uid}}
    metadata = {
        **declared["metadata"],
        "name": status_name(config["metadata"]["labels"][JOB_LABEL]),
    }
    named = []
    for data in (OF_VERSION_1[run], world.status):
        [found] = statuses([declared, {"kind": "ConfigMap", "metadata": metadata, "data": data}])
        assert (found.phase, found.because) == ("Running", "reported by the watcher")
        named.append([one.name for one in found.replicas])
    assert named[0] == named[1]
    assert name in named[0]


def test_thousands_of_replicas_take_one_line() -> None:
    record = RUNS["thousands_seen"]().record
    assert len(record_data(record)["record"]) < 200
    some = record.with_replicas(
        {("worker", 7 * n): ReplicaRecord(seen=True, completed=True) for n in range(10)}
    )
    assert len(record_data(some)["record"]) < 400


def test_a_replica_to_which_nothing_has_happened_is_not_written() -> None:
    record = RunRecord("abc").with_replicas({("worker", 3): ReplicaRecord(seen=True)})
    assert record.replica(("worker", 3)).seen
    assert record.replica(("worker", 4)) == record.replica(("ps", 0)) == NOTHING
    assert record.with_replicas({("worker", 3): NOTHING}) == RunRecord("abc")


@pytest.mark.parametrize("version", [VERSION + 1, 10**30])
def test_a_record_of_a_newer_version_is_told_apart_from_one_that_is_broken(version: int) -> None:
    text = json.dumps({"run": "abc", "phase": "Sleeping", "version": version, "replicas": [1]})
    assert newer_version({"record": text}) == version
    assert read_record({"record": text}) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"run":"x"}', '{"run":"x","version":2}', '{"version":"x"}', '{"version":0}'],
)
def test_what_is_broken_or_can_be_read_is_not_newer(text: str) -> None:
    assert newer_version({"record": text}) is None


@pytest.mark.parametrize(
    "record",
    [
        {"seen": {"worker": "0-200000000"}},
        {"seen": {"worker": "0-3000000000"}},
        {"version": 2, "replicas": {"worker": {"0-200000000": {"seen": True}}}},
        {"version": 2, "replicas": {"worker": {"0-3000000000": {"seen": True}}}},
        {"version": 2, "replicas": {"worker": {",".join(["0-149999"] * 9): {"seen": True}}}},
        {"version": 2, "replicas": {str(n): {"0-149999": {"seen": True}} for n in range(9)}},
    ],
)
def test_more_replicas_than_a_run_can_have_take_no_memory(record: dict) -> None:
    text = json.dumps({"run": "x", **record})
    tracemalloc.start()
    try:
        assert read_record({"record": text}) is None
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
