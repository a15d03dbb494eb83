"""What somebody writes into the cluster to break the watcher, and that all other jobs go on."""

import json

import pytest
import yaml
from watched import eventually, training_job

from etcompile.compiler.stored_run import StoredRun
from etcompile.model.run_record import VERSION
from specs import kubeflow_job


def config_of(place, job: dict, **changes: object) -> dict:
    """The ConfigMap of a job, with other texts in its `job.yaml`."""
    [config] = [v for v in place.compiled(job) if "job.yaml" in v.get("data", {})]
    text = config["data"]["job.yaml"]
    for before, after in changes.items():
        assert before.strip("_") in text
        text = text.replace(before.strip("_"), str(after))
    config["data"] = {"job.yaml": text}
    return config


def goes_on(place, running) -> None:
    """A worker of `bert` that fails is replaced, and all threads of the watcher are alive."""
    place.replaces("bert-worker-0")
    assert running.watcher.healthy() == (True, "healthy")


@pytest.fixture
def bert(place, watching):
    running = watching()
    place.begin()
    return running


def test_jobs_with_numbers_beyond_any_clock_or_memory_harm_no_other(place, bert):
    for number, deadline in enumerate((10**11, 2**62, 10**400)):
        job = kubeflow_job("PyTorchJob", {"Worker": 2}, runPolicy={"activeDeadlineSeconds": 3600})
        job["metadata"]["name"] = f"late-{number}"
        place.cluster.create(config_of(place, job, _3600=deadline))
        for value in place.compiled(job):
            if value["kind"] == "Pod":
                place.cluster.create(value)
    for number, count in enumerate((200_000_000, 10**30)):
        for text in ("_777", "_776"):
            job = training_job(f"many-{number}{text.replace('_', '-')}", workers=777)
            place.cluster.create(config_of(place, job, **{text: count}))
    for name in ("late-2-etcompile", "many-0-777-config", "many-0-776-config", "many-1-777-config"):
        [event] = eventually(lambda name=name: place.events_of("UnreadableJob", name))
        assert event["involvedObject"]["uid"]
    for _ in range(3):
        goes_on(place, bert)


def test_run_record_of_a_newer_version_is_reported_and_not_touched(place, bert):
    maps = place.cluster.resource("v1", "ConfigMap")
    known = place.data("bert-etcompile-status")
    form = {"version": VERSION + 1, "replicas": {"worker": "in another form"}}
    newer = json.dumps({**place.record(), **form})
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"record": newer}})
    [event] = eventually(lambda: place.events_of("UnreadableRecord", "bert-etcompile-status"))
    said = f"has version {VERSION + 1}, but this watcher reads versions up to {VERSION}"
    assert said in event["message"]
    before = place.uid("bert-worker-0")
    place.fails("bert-worker-0")
    place.submit(training_job("other"))
    # By now it has looked at what failed.
    eventually(lambda: place.phase("other") == "Running")
    assert place.uid("bert-worker-0") == before
    assert place.data("bert-etcompile-status")["record"] == newer
    place.cluster.patch(maps, "bert-etcompile-status", {"data": {"record": known["record"]}})
    eventually(lambda: place.uid("bert-worker-0") not in ("", before))
    eventually(lambda: place.replica("worker", 0).failed == 1)


def test_config_map_of_another_name_cannot_take_a_job_over(place, bert, caplog):
    evil = training_job()
    for role in evil["spec"]["etReplicaSpecs"].values():
        role["template"]["spec"]["containers"][0]["image"] = "evil/miner:1"
    config = config_of(place, evil)
    config["metadata"]["name"] = "aaa"
    place.cluster.create(config)
    why = "the ConfigMap aaa is ignored: it is labelled etcompile.dev/job=bert, but the ConfigMap"
    eventually(lambda: f"{why} of that job is bert-etcompile or bert-config" in caplog.text)
    config = config_of(place, training_job("other"))
    config["metadata"]["name"] = "evil-config"
    config["metadata"]["labels"]["etcompile.dev/job"] = "evil"
    place.cluster.create(config)
    [event] = eventually(lambda: place.events_of("UnreadableJob", "evil-config"))
    assert "it holds the job other, whose ConfigMap is other-config" in event["message"]
    goes_on(place, bert)
    images = {pod["spec"]["containers"][0]["image"] for pod in place.pods().values()}
    assert images == {"horovod/horovod:0.28.1"}
    place.cluster.delete(place.cluster.resource("v1", "ConfigMap"), "aaa")
    goes_on(place, bert)


def test_job_of_which_no_pod_compiles_is_reported(place, bert):
    objects = place.compiled(training_job("evil"))
    for value in objects:
        if "job.yaml" in value.get("data", {}):
            stored = yaml.safe_load(value["data"]["job.yaml"])
            worker = stored["document"]["spec"]["etReplicaSpecs"]["worker"]["template"]["spec"]
            worker["containers"][0]["volumeMounts"] = 7
            value["data"]["job.yaml"] = json.dumps(stored)
            live = {**value["metadata"], "uid": "u", "resourceVersion": "1"}
            run = StoredRun({**value, "metadata": live})
    for value in objects:
        if value["kind"] == "Pod":
            value["metadata"]["annotations"]["etcompile.dev/spec-hash"] = run.spec_hash
        place.cluster.create(value)
    eventually(lambda: place.record("evil"))
    place.fails("evil-worker-0")
    [event] = eventually(lambda: place.events_of("UnreadableJob", "evil-config"))
    assert "is broken" in event["message"]
    goes_on(place, bert)
