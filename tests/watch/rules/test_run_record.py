"""The run record in `J-status`: small, and of a version."""

import json
import tracemalloc

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
from specs import compiled


@pytest.mark.parametrize("run", RUNS)
def test_a_record_reads_back_from_what_is_written(run: str) -> None:
    record = RUNS[run]().record
    assert read_record(record_data(record)) == record


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("followed_by_others", "mnist-edljob-worker-5"),
    ],
)
def test_status_names_the_pods_that_a_record_tells_of(run: str, name: str) -> None:
    world = RUNS[run]()
    objects = compiled(*world.documents, namespace="ml", **world.options).objects
    config = next(one for one in objects if one["kind"] == "ConfigMap")
    declared = {**config, "metadata": {**config["metadata"], "uid": world.config_uid}}
    metadata = {
        **declared["metadata"],
        "name": status_name(config["metadata"]["labels"][JOB_LABEL]),
    }
    status = {"kind": "ConfigMap", "metadata": metadata, "data": world.status}
    [found] = statuses([declared, status])
    assert (found.phase, found.because) == ("Running", "reported by the watcher")
    assert name in [one.name for one in found.replicas]


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
    ["", "{", "[]", '{"run":"x"}', '{"run":"x","version":3}', '{"version":"x"}', '{"version":0}'],
)
def test_what_is_broken_or_can_be_read_is_not_newer(text: str) -> None:
    assert newer_version({"record": text}) is None


@pytest.mark.parametrize(
    "record",
    [
        {"version": VERSION, "replicas": {"worker": {"0-200000000": {"seen": True}}}},
        {"version": VERSION, "replicas": {"worker": {"0-3000000000": {"seen": True}}}},
        {"version": VERSION, "replicas": {"worker": {",".join(["0-149999"] * 9): {"seen": True}}}},
        {"version": VERSION, "replicas": {str(n): {"0-149999": {"seen": True}} for n in range(9)}},
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
