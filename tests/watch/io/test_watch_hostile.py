"""What somebody writes into the cluster to break the watcher, and that all other jobs go on."""

import contextlib
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import ruamel.yaml
from msgspec import structs
from watched import eventually, is_ready, training_job

import etcompile
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun
from etcompile.k8s.pod_state import PodState
from etcompile.kubeapi.controller.backoff import backoff
from etcompile.model.run_record import (
    VERSION,
    Leaving,
    ReplicaRecord,
    RestartHistory,
    RunRecord,
    read_record,
    record_data,
)
from etcompile.watch.core.actions import Requeue
from etcompile.watch.core.observe import Store
from etcompile.watch.core.view import JobView, hosts_record
from etcompile.watch.listeners import decide

FUZZ = 400


def torch_job(name: str, **policy) -> dict:
    """A PyTorchJob with this run policy."""
    template = {"spec": {"containers": [{"name": "pytorch", "image": "torch:2", "args": ["a"]}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "runPolicy": policy,
            "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": template}},
        },
    }


def config_of(place, job: dict, **changes) -> dict:
    """The ConfigMap of a job, with another `job.yaml` if one is given."""
    [config] = [v for v in place.compiled(job) if "job.yaml" in v.get("data", {})]
    config["data"] = {"job.yaml": config["data"]["job.yaml"], **changes}
    return config


def live() -> dict:
    """What metadata a live object has besides."""
    return {"uid": "u", "resourceVersion": "1"}


def own_map(place, name: str, job: str, **data: str) -> dict:
    """A ConfigMap with a job's label."""
    metadata = {"name": name, "namespace": place.namespace, "labels": {"etcompile.dev/job": job}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def goes_on(place, running) -> None:
    """A worker of `bert` that fails is replaced, and all threads of the watcher are alive."""
    before = place.uid("bert-worker-0")
    place.fails("bert-worker-0")
    eventually(lambda: place.uid("bert-worker-0") not in ("", before))
    assert running.watcher.healthy() == (True, "healthy")


@pytest.fixture
def bert(place, watching):
    """A watcher of a job that is as it should be."""
    running = watching()
    place.kubelets()
    place.submit(training_job())
    eventually(lambda: place.whole(2))
    return running


# Numbers ---------------------------------------------------------------------------------------


def test_a_deadline_that_no_clock_holds_ends_no_thread(place, bert):
    for number, deadline in enumerate((10**11, 2**62, 10**400)):
        job = torch_job(f"evil-{number}", activeDeadlineSeconds=3600)
        config = config_of(place, job)
        text = config["data"]["job.yaml"].replace("3600", str(deadline))
        assert str(deadline) in text
        config["data"]["job.yaml"] = text
        place.cluster.create(config)
        for value in place.compiled(job):
            if value["kind"] == "Pod":
                place.cluster.create(value)
    eventually(lambda: place.told("UnreadableJob", "evil-2-etcompile"))
    for _ in range(3):
        goes_on(place, bert)


@pytest.mark.parametrize(
    "text",
    [
        '{"run":"x","seen":{"worker":"0-3000000000"}}',
        '{"run":"x","seen":{"worker":"0-999999999"}}',
        '{"run":"x","completed":{"worker":"x-y"}}',
        '{"run":"x","started":1e300}',
        '{"run":"x","trials":{"worker/0":{"count":100000000000}}}',
        '{"run":"x","restarts":1' + "0" * 5000 + "}",
        "[" * 100_000,
        '{"run":"x","version":2,"replicas":{"worker":{"0-3000000000":{"seen":true}}}}',
        '{"run":"x","version":2,"replicas":{"worker":{"0-999999999":{"seen":true}}}}',
        '{"run":"x","version":2,"replicas":{"worker":{"x-y":{"seen":true}}}}',
        '{"run":"x","version":2,"replicas":{"worker":{"0":{"failed":100000000000}}}}',
        '{"run":"x","version":2,"replicas":{"worker":{"0":{"failed_at":1e300}}}}',
        '{"run":"x","version":2,"replicas":{"worker":{"0":{"attempt":-5}}}}',
        '{"run":"x","version":0}',
    ],
    ids=[
        *("range", "many", "letters", "time", "count", "digits", "depth"),
        *("range 2", "many 2", "letters 2", "count 2", "time 2", "attempt 2", "version"),
    ],
)
def test_a_run_record_that_no_run_has_is_told_of_and_written_anew(place, bert, text):
    run = place.record()["run"]
    broken = text.replace('"x"', f'"{run}"')
    change = {"data": {"record": broken, "phase": "Running"}}
    place.cluster.patch(place.cluster.resource("v1", "ConfigMap"), "bert-etcompile-status", change)
    eventually(lambda: place.told("UnreadableRecord", "bert-etcompile-status"))
    eventually(lambda: place.data("bert-etcompile-status")["record"] != broken)
    assert place.record()["run"] == run
    goes_on(place, bert)


def test_a_run_record_of_a_newer_version_is_told_of_and_left_as_it_is(place, bert):
    maps = place.cluster.resource("v1", "ConfigMap")
    known = place.data("bert-etcompile-status")
    form = {"version": VERSION + 1, "replicas": {"worker": "in another form"}}
    newer = json.dumps({**place.record(), **form})
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"record": newer}})
    [event] = eventually(lambda: place.told("UnreadableRecord", "bert-etcompile-status"))
    said = f"has version {VERSION + 1}, but this watcher reads versions up to {VERSION}"
    assert said in event["message"]
    before = place.uid("bert-worker-0")
    place.fails("bert-worker-0")
    place.submit(training_job("other"))
    # By now it has looked at what failed.
    eventually(lambda: place.data("other-etcompile-status").get("phase") == "Running")
    assert place.uid("bert-worker-0") == before
    assert place.data("bert-etcompile-status")["record"] == newer
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"record": known["record"]}})
    eventually(lambda: place.uid("bert-worker-0") not in ("", before))
    eventually(lambda: place.replica("worker", 0).failed == 1)


@pytest.mark.parametrize("count", [200_000_000, 10**30])
def test_a_job_of_two_hundred_million_replicas_is_refused_alone(place, bert, count):
    config = config_of(place, training_job("evil", workers=777))
    config["data"]["job.yaml"] = config["data"]["job.yaml"].replace("777", str(count))
    place.cluster.create(config)
    config = config_of(place, training_job("more", workers=777))
    config["data"]["job.yaml"] = config["data"]["job.yaml"].replace("776", str(count))
    place.cluster.create(config)
    for name in ("evil-config", "more-config"):
        [event] = eventually(lambda name=name: place.told("UnreadableJob", name))
        assert event["involvedObject"]["uid"]
    goes_on(place, bert)


def test_a_job_that_failed_for_months_is_still_looked_at():
    assert 0.02 <= backoff(1) <= 0.05
    for failures in (11, 1_023, 1_025, 10**9):
        assert 15.0 <= backoff(failures) <= 30.0


# Sizes -----------------------------------------------------------------------------------------


def test_ten_dozen_config_maps_of_a_megabyte_do_not_fill_the_watcher(place, control_plane, granted):
    kubeconfig = control_plane.kubeconfig(token=granted(), namespace=place.namespace)
    program = Path(__file__).with_name("watching_process.py")
    place.kubelets()
    place.submit(training_job())
    filling = "#" * 900_000
    for number in range(120):
        slot = ("etcompile", "etcompile-status", "etcompile-hosts")[number % 3]
        key = {"etcompile": "job.yaml", "etcompile-status": "record"}.get(slot, "hostfile")
        name = f"evil-{number}"
        place.cluster.create(own_map(place, f"{name}-{slot}", name, **{key: filling}))
    with subprocess.Popen(
        [sys.executable, program, kubeconfig, place.namespace],
        stdin=subprocess.PIPE,
        env={"PYTHONPATH": f"{program.parent}{os.pathsep}{Path(etcompile.__file__).parents[1]}"},
    ) as process:
        eventually(lambda: place.whole(2), 60)
        before = place.uid("bert-worker-0")
        place.fails("bert-worker-0")
        eventually(lambda: place.uid("bert-worker-0") not in ("", before), 30)
        status = Path(f"/proc/{process.pid}/status").read_text()
        process.stdin.close()
        process.wait(30)
    peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
    assert peak < 256, f"{peak} MiB at most"


def labelled(number: int, namespace: str, size: int, key: str = "record") -> dict:
    job = f"j{number}"
    metadata = {
        "name": f"{job}-etcompile-status",
        "namespace": namespace,
        "uid": job,
        "resourceVersion": str(number),
        "labels": {"etcompile.dev/job": job},
    }
    return {"metadata": metadata, "data": {key: "x" * size}}


def test_jobs_of_other_namespaces_are_read_when_one_is_beyond_the_cap(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._RECORDS", 500_000)
    seen = Store(lambda _key: None)
    for number in range(1, 50):
        seen.saw_map(labelled(number, "greedy", 100_000))
    seen.saw_map(labelled(90, "modest", 100_000))
    kept = [n for n in range(1, 50) if seen.job(("greedy", f"j{n}")).status.data]
    assert kept == [1, 2, 3, 4]
    assert seen.job(("modest", "j90")).status.data
    refused = seen.job(("greedy", "j9")).status
    assert "more than" in refused.problem
    assert not refused.data


def test_failures_beyond_the_cap_cost_no_job_its_record(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._RECORDS", 250_000)
    seen = Store(lambda _key: None)
    for number in range(1, 9):
        value = labelled(number, "ml", 100_000, "failures")
        value["data"]["record"] = "x" * 1000
        seen.saw_map(value)
    statuses = [seen.job(("ml", f"j{number}")).status for number in range(1, 9)]
    assert [one.problem for one in statuses] == [""] * 8
    assert [len(one.data["record"]) for one in statuses] == [1000] * 8
    assert ["failures" in one.data for one in statuses] == [True] * 2 + [False] * 6


def test_a_job_beyond_the_cap_is_read_when_another_is_gone(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._RECORDS", 250_000)
    seen = Store(lambda _key: None)
    for number in (1, 2):
        seen.saw_map(labelled(number, "ml", 100_000))
    seen.saw_map(labelled(3, "ml", 100_000))
    assert seen.job(("ml", "j3")).status.problem
    seen.saw_map(
        {
            **labelled(1, "ml", 1),
            "metadata": {
                **labelled(4, "ml", 1)["metadata"],
                "name": "j1-etcompile-status",
                "labels": {"etcompile.dev/job": "j1"},
            },
        },
        gone=True,
    )
    seen.saw_map(
        {
            **labelled(3, "ml", 100_000),
            "metadata": {**labelled(3, "ml", 1)["metadata"], "resourceVersion": "9"},
        }
    )
    assert seen.job(("ml", "j3")).status.data


def test_config_maps_beyond_the_cap_take_bounded_memory(monkeypatch):
    monkeypatch.setattr("etcompile.watch.core.observe._RECORDS", 100_000)
    seen = Store(lambda _key: None)
    for number in range(1, 5000):
        seen.saw_map(labelled(number, "greedy", 10))
    assert len(seen.known()) < 1200


# Whose it is -----------------------------------------------------------------------------------


def test_any_config_map_with_the_label_does_not_take_a_job_over(place, bert, caplog):
    evil = training_job()
    for role in evil["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = "evil/miner:1"
        role["template"]["spec"]["hostPID"] = True
    config = config_of(place, evil)
    config["metadata"]["name"] = "aaa"
    place.cluster.create(config)
    why = "the ConfigMap aaa is ignored: it is labelled etcompile.dev/job=bert, but the ConfigMap"
    eventually(lambda: f"{why} of that job is bert-etcompile or bert-config" in caplog.text)
    goes_on(place, bert)
    for pod in place.pods().values():
        assert pod["spec"]["containers"][0]["image"] == "horovod/horovod:0.28.1"
        assert not pod["spec"].get("hostPID")
    place.cluster.delete(place.cluster.resource("v1", "ConfigMap"), "aaa")
    goes_on(place, bert)


def test_a_config_map_that_holds_another_job_is_refused(place, bert):
    config = config_of(place, training_job("other"))
    config["metadata"]["name"] = "evil-config"
    config["metadata"]["labels"]["etcompile.dev/job"] = "evil"
    place.cluster.create(config)
    [event] = eventually(lambda: place.told("UnreadableJob", "evil-config"))
    assert "it holds the job other, whose ConfigMap is other-config" in event["message"]
    goes_on(place, bert)


@pytest.mark.parametrize(
    "name", ["../../../kube-system/configmaps/x", "..", "a b", "A", "x" * 300, "a?b=c"]
)
def test_a_name_that_leads_elsewhere_is_refused(place, name):
    job = training_job("bert")
    [config] = [v for v in place.compiled(job) if "job.yaml" in v.get("data", {})]
    config["metadata"].update(uid="u", resourceVersion="1")
    text = config["data"]["job.yaml"]
    for before, after in (("name: bert\n", f"name: {name!r}\n"), ("settings:\n", None)):
        changed = text.replace(before, after or f"settings:\n  run: {name!r}\n")
        assert changed != text
        with pytest.raises(StoredJobError):
            StoredRun({**config, "data": {"job.yaml": changed}})


# Whatever else ---------------------------------------------------------------------------------

_VALUES = [
    None,
    True,
    -1,
    0,
    10**11,
    2**63,
    10**400,
    1e308,
    "",
    "..",
    "../../x",
    "x" * 5000,
    [],
    {},
    [[]],
    {"a": None},
    "0-3000000000",
    "runtime:",
    "\x00",
    "$(A)",
    "{{ 7*7 }}",
    "999999Gi",
]


def _mutated(value, lots: random.Random, *, odds: float = 0.06):
    """A value with some of its parts replaced, taken away or doubled."""
    if lots.random() < odds:
        return lots.choice(_VALUES)
    if isinstance(value, dict):
        kept = {k: _mutated(v, lots, odds=odds) for k, v in value.items() if lots.random() > odds}
        return kept if lots.random() > odds else {**kept, lots.choice(["name", "from", "to"]): 1}
    if isinstance(value, list):
        return [_mutated(v, lots, odds=odds) for v in value] * lots.choice([1, 1, 1, 1, 2])
    return value


def test_no_stored_job_makes_anything_but_a_refusal(place):
    [config] = [v for v in place.compiled(training_job()) if "job.yaml" in v.get("data", {})]
    config["metadata"].update(uid="u", resourceVersion="1")
    value = ruamel.yaml.YAML(typ="safe").load(config["data"]["job.yaml"])
    taken = 0
    for seed in range(FUZZ):
        lots = random.Random(seed)
        text = json.dumps(_mutated(value, lots, odds=lots.choice([0.01, 0.03, 0.1])), default=str)
        if seed % 5 == 0:
            at = lots.randrange(len(text))
            text = text[:at] + lots.choice(["", "\x00", "{", "&a", "*a", "- ", "\n"]) + text[at:]
        with contextlib.suppress(StoredJobError):
            StoredRun({**config, "data": {"job.yaml": text}})
            taken += 1
    assert 5 < taken < FUZZ - 50


def test_a_job_of_which_no_pod_can_be_made_is_told_of(place, bert):
    objects = place.compiled(training_job("evil"))
    for value in objects:
        if "job.yaml" in value.get("data", {}):
            stored = ruamel.yaml.YAML(typ="safe").load(value["data"]["job.yaml"])
            worker = stored["document"]["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
            worker["containers"][0]["volumeMounts"] = 7
            value["data"]["job.yaml"] = json.dumps(stored)
            run = StoredRun({**value, "metadata": {**value["metadata"], **live()}})
    for value in objects:
        if value["kind"] == "Pod":
            value["metadata"]["annotations"]["etcompile.dev/spec-hash"] = run.spec_hash
        place.cluster.create(value)
    eventually(lambda: place.record("evil"))
    place.fails("evil-worker-0")
    [event] = eventually(lambda: place.told("UnreadableJob", "evil-config"))
    assert "is broken" in event["message"]
    goes_on(place, bert)


def test_no_run_record_makes_the_rules_fail(place):
    objects = place.compiled(training_job(workers=3))
    [config] = [v for v in objects if "job.yaml" in v.get("data", {})]
    config["metadata"].update(uid="u", resourceVersion="1")
    run = StoredRun(config)
    changed = RunRecord(
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
    whole = json.loads(record_data(changed)["record"])
    pods = {
        name: PodState(name, name, "worker", number, run.spec_hash, "Running", ready=True)
        for number in range(2)
        for name in [f"bert-worker-{number}"]
    }
    read = 0
    for seed in range(FUZZ):
        lots = random.Random(seed)
        text = json.dumps(_mutated(whole, lots, odds=0.05))
        record = read_record({"record": text, "done": lots.choice(["", "", run.spec_hash])})
        read += record is not None
        notes = {
            "etcompile.dev/anchor": lots.choice(
                ["[]", '{"a":{"until":1e999}}', "x", '{"a":{"until":5}}']
            )
        }
        hosts = hosts_record(
            {"hostfile": lots.choice(["", ":::", "\x00\n", "a" * 99])}, {"annotations": notes}
        )
        view = JobView(run.job, run.settings, "ml", run.spec_hash, pods, record=record, hosts=hosts)
        decide(view, 2000.0)
    assert read > 20


@pytest.mark.parametrize("record", [None, RunRecord("x"), RunRecord("x", "Running", started=5.0)])
def test_a_job_without_pods_is_not_looked_at_all_the_time(place, record):
    [config] = [v for v in place.compiled(training_job()) if "job.yaml" in v.get("data", {})]
    config["metadata"].update(live())
    run = StoredRun(config)
    if record is not None:
        record = structs.replace(record, run=run.spec_hash)
    view = JobView(run.job, run.settings, "ml", run.spec_hash, {}, record=record)
    times = [one.at for one in decide(view, 2000.0) if isinstance(one, Requeue)]
    assert all(at > 2000.0 for at in times)


def test_a_watcher_rests_where_there_is_nothing_to_do(place, bert):
    place.cluster.create(config_of(place, training_job("lonely")))
    place.cluster.create(own_map(place, "evil-etcompile-status", "evil", record="[]"))
    place.cluster.create(config_of(place, training_job("evil")))
    eventually(lambda: place.told("UnreadableRecord", "evil-etcompile-status"))
    before = bert.value("etcompile_watch_reconciles_total", outcome="done")
    goes_on(place, bert)
    eventually(lambda: place.whole(2))
    assert bert.value("etcompile_watch_reconciles_total", outcome="done") - before < 200


def test_hostile_config_maps_of_every_form_leave_other_jobs_alone(place, bert):
    lots = random.Random(15)
    text = config_of(place, training_job("evil"))["data"]["job.yaml"]
    value = ruamel.yaml.YAML(typ="safe").load(text)
    for number in range(60):
        name = f"evil-{number}"
        changed = json.dumps(_mutated(value, lots, odds=0.03)).replace('"evil', f'"{name}')
        place.cluster.create(own_map(place, f"{name}-config", name, **{"job.yaml": changed}))
        record = json.dumps(lots.choice(_VALUES))
        marks = own_map(
            place, f"{name}-etcompile-status", name, record=record, done=lots.choice(["", "x"])
        )
        place.cluster.create(marks)
        place.cluster.create(own_map(place, f"{name}-etcompile-hosts", name, hostfile="x" * 100))
    assert eventually(lambda: len(place.told("UnreadableJob")) > 10, 30)
    goes_on(place, bert)
    eventually(lambda: bert.watcher.idle, 60)
    assert bert.watcher.healthy() == (True, "healthy")
    assert all(is_ready(place.pod(f"bert-worker-{n}")) for n in (1,))
