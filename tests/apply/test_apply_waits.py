"""What apply waits for, what it says meanwhile, and when it gives up."""

import json
import threading
import time

import pytest

from apply.kubelet import ended, ready, unschedulable, waiting
from specs import training_job

PULL = 'Back-off pulling image "horovod/horovod:0.28.1"'


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (unschedulable("0/3 nodes are available: 3 Insufficient gpu."), "Insufficient gpu"),
        (waiting("ImagePullBackOff", PULL), "cannot pull the image horovod/horovod:0.28.1"),
        (waiting("CreateContainerConfigError", 'secret "s3" not found'), 'secret "s3" not found'),
        (waiting("CrashLoopBackOff"), "container main: keeps crashing"),
    ],
    ids=["unschedulable", "image", "secret", "crash"],
)
def test_what_a_pod_waits_for_is_said_while_it_waits_and_at_the_end(
    run, job, kubelet, status, words
):
    job(replicas=1)
    kubelet.let("mnist-worker-0", status)
    done = run("apply", "jobs", "--timeout", "4s", code=3)
    lines = [line for line in done.stdout.splitlines() if words in line]
    assert any("mnist-worker-0  waiting: " in line for line in lines)
    assert lines[-1].startswith("  Pod mnist-worker-0: ")


@pytest.mark.parametrize("launcher", ["made before", "made after"])
def test_an_image_that_cannot_be_named_fails_at_once_with_what_waits_for_the_pod(
    run, job, kubelet, proxy, through, launcher
):
    job(replicas=1)
    kubelet.let("mnist-worker-0", waiting("InvalidImageName", "invalid reference format"))
    kubelet.let("mnist-launcher", None)
    if launcher == "made after":
        proxy.add("delay", method="PATCH", path="pods/mnist-launcher", times=2, seconds=3)
    done = run("apply", "jobs", KUBECONFIG=str(through), code=3)
    assert "timed out" not in done.stdout
    assert "InvalidImageName" in done.stdout
    assert "Pod mnist-launcher: it depends on Pod mnist-worker-0, which failed" in done.stdout


def test_an_event_explains_what_a_pod_does_not_know_of_itself(run, job, kubelet, ask, namespace):
    job(replicas=1)
    kubelet.let("mnist-worker-0", waiting("ContainerCreating"))

    def report_event(name):
        if name != "mnist-worker-0":
            return
        event = {
            "metadata": {"name": "mnist-worker-0.1"},
            "involvedObject": {"kind": "Pod", "name": name, "namespace": namespace},
            "type": "Warning",
            "reason": "FailedMount",
            "message": 'MountVolume.SetUp failed for volume "data": configmap "data" not found',
        }
        ask("POST", "events", event)

    kubelet.first = report_event
    done = run("apply", "jobs", "--timeout", "5s", code=3)
    assert 'configmap "data" not found' in done.stdout


def test_a_quota_is_waited_for_and_said(start, run, job, kubelet, ask, small_quota):
    job(replicas=2)
    small_quota(pods=3, used=2)
    planned = run("diff", "jobs")
    assert (
        "it may have to wait: the quota small has 1 pods left, and 3 are needed" in planned.stdout
    )
    started = start("apply", "jobs")
    seen = []
    for line in started.stdout:
        seen.append(line)
        if "held" in line:
            break
    assert "exceeded quota: small" in seen[-1]
    threading.Event().wait(6)  # it is tried again every five seconds
    ask("DELETE", "resourcequotas/small")
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    held = [line for line in [*seen, *out.splitlines()] if "held" in line]
    assert len(held) == len({line.split("  ")[0] for line in held}), held


def test_wait_none_does_not_wait_for_a_quota_and_why_names_it(
    run, job, kubelet, objects, ask, small_quota
):
    job(replicas=2)
    small_quota(pods=3, used=2)
    done = run("apply", "jobs", "--wait", "none", code=3)
    assert "exceeded quota: small" in done.stdout + done.stderr
    why = run("why", "mnist")
    assert "the quota small has 0 pods left, and 2 are needed" in why.stdout
    assert "raise the quota" in why.stdout
    ask("DELETE", "resourcequotas/small")
    run("apply", "jobs", "--wait", "none", code=0)
    assert len([name for name in objects() if name.startswith("Pod/")]) == 3


def test_wait_none_returns_when_all_is_written(run, job, kubelet):
    job(replicas=1)
    kubelet.let("*", None)
    done = run("apply", "jobs", "--wait", "none", code=0)
    assert "waiting" not in done.stdout


def test_wait_complete_ends_with_the_launcher(start, job, kubelet):
    job(replicas=2)
    started = start("apply", "jobs", "--wait", "complete")
    for line in started.stdout:
        if "Pod mnist-launcher  running" in line:
            break
    assert started.poll() is None
    kubelet.let("mnist-launcher", ended())
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert "Pod mnist-launcher  succeeded" in out


def test_wait_complete_ends_with_3_when_the_run_fails(run, job, kubelet):
    job(replicas=1)
    kubelet.let("mnist-launcher", ended(code=1))
    done = run("apply", "jobs", "--wait", "complete", code=3)
    assert "exit code 1" in done.stdout


def test_what_an_earlier_rollout_did_not_see_ready_is_waited_for_again(run, job, kubelet):
    job(replicas=1)
    kubelet.let("mnist-worker-0", None)
    run("apply", "jobs", "--timeout", "2s", code=3)
    run("apply", "jobs", "--timeout", "2s", code=3)
    kubelet.let("mnist-worker-0", ready())
    run("apply", "jobs", "--timeout", "20s", code=0)


def test_a_pod_that_somebody_deletes_meanwhile_is_not_waited_for(start, job, kubelet, ask):
    job(replicas=1)
    kubelet.let("mnist-worker-0", None)
    started = start("apply", "jobs")
    for line in started.stdout:
        if "mnist-worker-0  waiting" in line:
            break
    ask("DELETE", "pods/mnist-worker-0")
    out, _ = started.communicate(timeout=30)
    assert started.returncode == 3
    assert "Pod mnist-worker-0: it was deleted" in out


def test_one_watch_follows_all_pods(run, job, kubelet, kubeconfig, control_plane, namespace):
    job(replicas=6)
    run("apply", "jobs", KUBECONFIG=str(kubeconfig), code=0)
    watches = [
        event
        for event in control_plane.audit(namespace)
        if event["verb"] == "watch" and event["objectRef"]["resource"] == "pods"
    ]
    assert len(watches) <= 1
    gets = [
        event
        for event in control_plane.audit(namespace)
        if event["verb"] == "get"
        and event["objectRef"]["resource"] == "pods"
        and "etcompile" in event.get("userAgent", "")
    ]
    assert len(gets) <= 8  # those of the plan, before anything is written


def test_events_for_programs_are_a_json_object_a_line(run, job, kubelet):
    job(replicas=1)
    kubelet.let("mnist-worker-0", unschedulable("no gpu"))
    done = run("apply", "jobs", "--output", "json", "--timeout", "3s", code=3)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[0]["event"] == "plan"
    assert events[0]["counts"]["create"] == 6
    assert all(event["ts"].endswith("+00:00") for event in events)
    pod = {"apiVersion": "v1", "kind": "Pod", "name": "mnist-worker-0"}
    mine = [one for one in events if one.get("object") == pod]
    assert [one["status"] for one in mine] == ["created", "waiting"]
    assert mine[1]["reason"] == "cannot be scheduled: no gpu"
    assert events[-1]["event"] == "end"
    assert events[-1]["exit"] == 3
    assert {"object": pod, "failed": False, "reason": "cannot be scheduled: no gpu"} in events[-1][
        "notReady"
    ]


def test_quiet_says_what_is_wrong_and_nothing_else(run, write, kubelet):
    write(training_job(replicas=1))
    done = run("apply", "jobs", "-q")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    kubelet.let("mnist-worker-0", ended(code=1))
    kubelet.let("mnist-launcher", ready())
    time.sleep(0.5)
    done = run("apply", "jobs", "-q", code=3)
    assert "exit code 1" in done.stdout


def test_reason_of_an_earlier_pod_of_that_name_is_not_repeated(run, write, kubelet, ask, namespace):
    kubelet.let("*", None)
    write(training_job(replicas=1))
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": "mnist-worker-0"}
    event = {
        "metadata": {"name": "before"},
        "involvedObject": {**about, "uid": "d0a3a1a5-0000-4000-8000-000000000000"},
        "type": "Warning",
        "reason": "PodReplaced",
        "message": "what was wrong with the one before",
    }
    ask("POST", "events", event)
    done = run("apply", "jobs", "--timeout", "12", code=3)
    assert "mnist-worker-0" in done.stdout
    assert "the one before" not in done.stdout + done.stderr
