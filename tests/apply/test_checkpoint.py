"""All commands of a job are asked for a checkpoint at once, by hand or before workers go."""

import json
import time

import pytest

from apply.kubelet import ready
from specs import kubeflow_job

NOTICE = "etcompile.dev/notice"
ASKS = {"etcompile.dev/restart": "in-place", "etcompile.dev/checkpoint-signal": "USR1"}


def asking(document, namespace, annotations=ASKS):
    document["metadata"] |= {"name": "mnist", "namespace": namespace, "annotations": annotations}
    return document


def pytorch(namespace, annotations=ASKS):
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    for spec in document["spec"]["pytorchReplicaSpecs"].values():
        spec["template"]["spec"]["containers"][0]["command"] = ["python", "train.py"]
    return asking(document, namespace, annotations)


def at_work(container, *, runs=True):
    one = {"name": container, "image": "i", "imageID": "", "restartCount": 0, "ready": runs}
    return ready(containerStatuses=[{**one, "state": {"running": {}}}])


@pytest.fixture
def notices(objects):
    def read():
        pods = {n: o for n, o in objects().items() if n.startswith("Pod/")}
        annotations = {n: o["metadata"].get("annotations") or {} for n, o in pods.items()}
        return {n.partition("/")[2]: of[NOTICE] for n, of in annotations.items() if NOTICE in of}

    return read


@pytest.fixture
def applied(run, write, kubelet, namespace):
    kubelet.let("mnist-*", at_work("pytorch"))
    write(pytorch(namespace))
    run("apply", "jobs", code=0)


def test_each_running_command_gets_one_request(run, applied, kubelet, objects, notices, namespace):
    kubelet.let("mnist-worker-1", at_work("pytorch", runs=False))
    while objects()["Pod/mnist-worker-1"]["status"]["containerStatuses"][0]["ready"]:
        time.sleep(0.05)
    done = run("checkpoint", "mnist")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        f"{namespace}/mnist: 2 Pods asked for a checkpoint, by signal USR1\n"
        "not asked, because their commands do not run: mnist-worker-1\n"
    )
    texts = notices()
    # The supervisor of the first replica tells the others.
    assert texts.keys() == {"mnist-master-0"}
    [text] = texts.values()
    name, signal, due, why = text.split(" ", 3)
    assert (signal, due) == ("USR1", "0")
    assert why == "somebody has asked for a checkpoint (again)"
    assert name.startswith("0-")
    # Who asks again at once gets the answer, and the commands no second signal.
    again = run("checkpoint", "mnist", code=0)
    assert "is not asked again: somebody has asked for a checkpoint\n" in again.stdout
    assert notices() == texts
    assert "no differences" in run("diff", "jobs").stdout


def test_programs_get_the_same_as_a_value(run, applied, namespace):
    done = run("checkpoint", "mnist", "--output", "json")
    value = json.loads(done.stdout)
    assert value["job"] == f"{namespace}/mnist"
    assert sorted(value["pods"]) == ["mnist-master-0", "mnist-worker-0", "mnist-worker-1"]
    assert (value["signal"], value["notRunning"]) == ("USR1", [])


@pytest.mark.parametrize(
    "annotations", [{}, {"etcompile.dev/restart": "in-place"}], ids=["plain", "no-signal"]
)
def test_a_job_that_names_no_signal_is_refused_with_what_to_do(
    run, write, kubelet, namespace, notices, annotations
):
    write(pytorch(namespace, annotations))
    run("apply", "jobs", code=0)
    done = run("checkpoint", "mnist", code=7)
    assert "ET8015" in done.stderr
    assert "etcompile.dev/checkpoint-signal: USR1" in done.stderr
    assert notices() == {}


def test_a_job_of_which_nothing_runs_is_refused(run, write, namespace):
    write(pytorch(namespace))
    run("apply", "jobs", "--wait", "none", code=0)
    done = run("checkpoint", "mnist", code=7)
    assert "none of its commands is running" in done.stderr


def test_missing_job_is_reported_with_the_existing_ones(run, applied):
    done = run("checkpoint", "mnits", code=7)
    assert "did you mean 'mnist'?" in done.stderr
