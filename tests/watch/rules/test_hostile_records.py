"""Whatever somebody wrote into the watcher's own ConfigMaps: the rules decide, or ignore it."""

import json
import random

import pytest

from etcompile.compiler.stored_run import StoredRun
from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import (
    Leaving,
    ReplicaRecord,
    RestartHistory,
    RunRecord,
    read_record,
    record_data,
)
from etcompile.watch.core.run import JobView, Requeue, hosts_record
from randomness import mutated
from specs import compiled, training_job
from watcher_rules import decide

TRIES = 400
ANCHORS = ["[]", '{"a":{"until":1e999}}', "x", '{"a":{"until":5}}']
HOSTFILES = ["", ":::", "\x00\n", "a" * 99]


@pytest.fixture(scope="module")
def run() -> StoredRun:
    objects = compiled(training_job("bert", replicas=3), namespace="ml").objects
    [config] = [value for value in objects if "job.yaml" in value.get("data", {})]
    return StoredRun(
        {**config, "metadata": {**config["metadata"], "uid": "u", "resourceVersion": "1"}}
    )


def test_mutated_run_record_never_makes_the_rules_fail(run: StoredRun) -> None:
    record = RunRecord(
        run.spec_hash,
        "Running",
        started=1000.0,
        replaced={"worker": 2},
        gang=("a", "b"),
        leaving={"bert-worker-9": Leaving("z", 10.0)},
        numbers={"worker": 4},
        failures={"worker": 1},
        epoch=2,
    ).with_replicas(
        {
            ("launcher", 0): ReplicaRecord(seen=True),
            ("worker", 0): ReplicaRecord(seen=True, lost="a", failed=3, failed_at=5.0),
            ("worker", 1): ReplicaRecord(completed=True, host_form=2, epoch=1, restarts=1),
            ("worker", 2): ReplicaRecord(seen=True, history=RestartHistory(4, 1)),
        }
    )
    whole = json.loads(record_data(record)["record"])
    pods = {
        name: PodState(name, name, "worker", number, run.spec_hash, "Running", ready=True)
        for number, name in enumerate(("bert-worker-0", "bert-worker-1"))
    }
    read = 0
    for seed in range(TRIES):
        dice = random.Random(seed)
        text = json.dumps(mutated(whole, dice, odds=0.05))
        known = read_record({"record": text, "done": dice.choice(["", "", run.spec_hash])})
        read += known is not None
        notes = {"etcompile.dev/anchor": dice.choice(ANCHORS)}
        hosts = hosts_record({"hostfile": dice.choice(HOSTFILES)}, {"annotations": notes})
        view = JobView(run.job, run.settings, "ml", run.spec_hash, pods, record=known, hosts=hosts)
        decide(view, 2000.0)
    assert read > 20


@pytest.mark.parametrize("phase", [None, "Pending", "Running"])
def test_job_without_pods_is_not_reconciled_all_the_time(run: StoredRun, phase) -> None:
    record = phase and RunRecord(run.spec_hash, phase, started=5.0 if phase == "Running" else None)
    view = JobView(run.job, run.settings, "ml", run.spec_hash, {}, record=record)
    times = [one.at for one in decide(view, 2000.0) if isinstance(one, Requeue)]
    assert all(at > 2000.0 for at in times)
