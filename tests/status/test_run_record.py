"""The run record in `J-status`: small, versioned, and never more than a run can have.

That each record reads back as it was written is checked wherever `World` writes one.
"""

import json
import tracemalloc

import pytest

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
from etcompile.status import JobStatus, statuses
from specs import compiled, dlrover_type, elastic_job, kubeflow_job
from world import World


def shown(world: World) -> JobStatus:
    """What `etcompile status` reads from the job's ConfigMap and its record alone."""
    objects = compiled(*world.documents, namespace="ml").objects
    config = next(one for one in objects if one["kind"] == "ConfigMap")
    declared = {**config, "metadata": {**config["metadata"], "uid": world.config_uid}}
    name = status_name(config["metadata"]["labels"][JOB_LABEL])
    metadata = {**declared["metadata"], "name": name}
    status = {"kind": "ConfigMap", "metadata": metadata, "data": world.status}
    [job_status] = statuses([declared, status])
    return job_status


def test_record_of_a_followed_worker_gives_status_its_new_name() -> None:
    command = ["dlrover-run", "--nnodes=3:4", "train.py"]
    world = World(elastic_job({"worker": dlrover_type(4, command=command)}))
    world.fail("mnist-edljob-worker-1")
    world.wait(30)
    world.fail("mnist-edljob-worker-4")
    world.wait(30)
    status = shown(world)
    assert status.because == "no Pod is running; reported by the watcher"  # nothing lists them
    assert "mnist-edljob-worker-5" in [one.name for one in status.replicas]


def test_record_of_ten_replacements_makes_status_show_ten_restarts() -> None:
    world = World(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}))
    for number in range(10):
        world.fail(f"mnist-worker-{number % 2}", 137)
        world.wait(700)
    assert {role.name: role.restarts for role in shown(world).roles} == {"master": 0, "worker": 10}


def test_record_of_thousands_of_replicas_takes_one_line() -> None:
    record = World(kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 3000})).record
    assert len(record_data(record)["record"]) < 200
    some = record.with_replicas(
        {("worker", 7 * n): ReplicaRecord(seen=True, completed=True) for n in range(10)}
    )
    assert len(record_data(some)["record"]) < 400
    assert read_record(record_data(some)) == some


def test_record_of_thousands_of_failures_fits_into_a_config_map() -> None:
    failed = {
        n: ReplicaRecord(seen=True, lost="0" * 36, failed=3, failed_at=1e9 + n / 7)
        for n in range(5000)
    }
    record = RunRecord("abc", replicas={"worker": failed}, gang=("0" * 36,) * 5000)
    assert len(record_data(record)["record"]) < 2**20
    assert read_record(record_data(record)) == record


def test_record_omits_replicas_to_which_nothing_happened() -> None:
    record = RunRecord("abc").with_replicas({("worker", 3): ReplicaRecord(seen=True)})
    assert record.replica(("worker", 3)).seen
    assert record.replica(("worker", 4)) == record.replica(("ps", 0)) == NOTHING
    assert record.with_replicas({("worker", 3): NOTHING}) == RunRecord("abc")


@pytest.mark.parametrize("version", [VERSION + 1, 10**30])
def test_record_of_a_newer_version_is_distinguished_from_a_broken_one(version: int) -> None:
    text = json.dumps({"run": "abc", "phase": "Sleeping", "version": version, "replicas": [1]})
    assert newer_version({"record": text}) == version
    assert read_record({"record": text}) is None


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "[" * 100_000, '{"phase": 3}', '{"run": "x", "phase": "Odd"}'),
        '{"run":"x","seen":{"worker":"0-3000000000"}}',
        '{"run":"x","started":1e300}',
        '{"run":"x","trials":{"worker/0":{"count":100000000000}}}',
        '{"run":"x","restarts":1' + "0" * 5000 + "}",
        '{"run":"x","version":0}',
        '{"version":"x"}',
        *(
            f'{{"run":"x","version":{VERSION},"replicas":{{"worker":{replicas}}}}}'
            for replicas in (
                '{"0-999999999":{"seen":true}}',
                '{"x-y":{"seen":true}}',
                '{"0":{"failed":100000000000}}',
                '{"0":{"failed_at":1e300}}',
            )
        ),
    ],
    ids=lambda text: text[:40],
)
def test_unreadable_record_counts_as_none_and_not_as_newer(text: str) -> None:
    assert read_record({"record": text}) is None
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
def test_record_of_more_replicas_than_a_run_can_have_takes_no_memory(record: dict) -> None:
    text = json.dumps({"run": "x", **record})
    tracemalloc.start()
    try:
        assert read_record({"record": text}) is None
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
