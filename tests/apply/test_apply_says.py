"""What a rollout says at its end, and what a refusal says: all of it, once, and in few words."""

import json
import re

import pytest

from apply.kubelet import unschedulable, waiting
from etcompile.rollout.machine.reasons import object_state
from etcompile.status.replica_states import labelled_replica
from specs import launcher, training_job, worker


def ending(done, title):
    """The lines below a title of the end's list."""
    lines = done.stdout.split(f"{title}:\n")[1].splitlines()
    return [line for line in lines if line.startswith("  ")]


def test_the_end_lists_each_different_reason_once_with_its_count(run, job, kubelet):
    job(replicas=34)
    kubelet.let("mnist-worker-*", unschedulable("0/3 nodes are available: 3 Insufficient gpu."))
    kubelet.let("mnist-worker-7", waiting("ImagePullBackOff", "not found"))
    done = run("apply", "jobs", "-q", "--timeout", "8s", code=3)
    reasons = ending(done, "not ready")
    assert len(reasons) == 2, reasons
    assert any(
        "mnist-worker-0 … 6, 8 … 33 (33 Pods): cannot be scheduled: 0/3 nodes" in line
        for line in reasons
    )
    assert any(
        "Pod mnist-worker-7: container main: cannot pull the image" in line for line in reasons
    )


def test_full_quota_is_reported_at_the_end_in_quiet_mode_too(run, job, kubelet, small_quota):
    small_quota(pods=41, used=38)
    job(replicas=40)
    done = run("apply", "jobs", "-q", "--timeout", "12s", code=3)
    lines = [line for line in ending(done, "not done") if "exceeded quota: small" in line]
    assert len(lines) == 1, done.stdout
    assert re.search(r"\(3[78] Pods\)", lines[0])


def test_event_warnings_explain_every_object_without_another_reason(
    run, job, kubelet, ask, namespace
):
    job(replicas=40)
    kubelet.let("mnist-worker-*", None)

    def warn(name):
        pod = ask("GET", f"pods/{name}")
        about = {"kind": "Pod", "name": name, "namespace": namespace, "uid": pod["metadata"]["uid"]}
        event = {
            "metadata": {"name": f"{name}.1", "namespace": namespace},
            "involvedObject": about,
            "type": "Warning",
            "reason": "FailedMount",
            "message": "the volume is not there",
        }
        ask("POST", "events", event)

    run("apply", "jobs", "--wait", "none", code=0)
    for number in (3, 39):
        warn(f"mnist-worker-{number}")
    done = run("apply", "jobs", "-q", "--timeout", "4s")
    reasons = ending(done, "not ready")
    assert any("mnist-worker-3, 39 (2 Pods)" in line and "the volume" in line for line in reasons)
    assert any("(38 Pods)" in line for line in reasons)


def test_nothing_is_said_to_be_in_order_if_something_was_not_done(applied, run, kubelet, ask):
    """A deletion that does not end is all that there is to do."""
    applied(replicas=1)
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    ask("PATCH", "pods/mnist-worker-0", held)
    ask("DELETE", "pods/mnist-worker-0")
    done = run("apply", "jobs", "--timeout", "2s", code=3)
    assert "done: nothing\nnot done:\n" in done.stdout
    assert "nothing had to be changed" not in done.stdout
    ask("PATCH", "pods/mnist-worker-0", {"metadata": {"finalizers": None}})


def events(done):
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_rollout_has_one_last_event(run, job, kubelet):
    job(replicas=1)
    for command in (("apply", "jobs"), ("delete", "jobs"), ("delete", "jobs", "--dry-run")):
        reported = events(run(*command, "--output", "json"))
        assert [one.get("event") for one in reported].count("end") == 1
        assert (reported[-1]["event"], reported[-1]["exit"]) == ("end", 0)


def of_kubectl(ask):
    theirs = {"metadata": {"name": "mnist-config"}, "data": {"a": "b"}}
    ask("POST", "configmaps", theirs)


@pytest.mark.parametrize(
    ("what", "command", "code", "diagnostic"),
    [
        ("conflict", ("apply", "jobs"), 4, "ET8006"),
        ("conflict", ("apply", "jobs", "--dry-run=client"), 4, "ET8006"),
        ("replace", ("apply", "jobs"), 5, "ET8007"),
        ("context", ("apply", "jobs", "--context", "nowhere"), 6, "ET8001"),
        ("namespace", ("apply", "jobs", "-n", "not-there"), 6, "ET8004"),
        ("input", ("apply", "jobs"), 7, "ET1"),
        ("input", ("delete", "jobs"), 7, "ET1"),
        ("none", ("delete", "--job", "nobody"), 7, "ET8005"),
        ("target", ("apply", "jobs", "--target", "nothing"), 7, "ET8012"),
    ],
)
def test_the_last_event_says_how_it_ended_also_if_nothing_was_begun(
    run, write, kubelet, ask, tmp_path, what, command, code, diagnostic
):
    document = training_job(replicas=1)
    write(document)
    if what == "conflict":
        of_kubectl(ask)
    if what == "replace":
        run("apply", "jobs", code=0)
        launcher(document)["template"]["spec"]["containers"][0]["workingDir"] = "/data"
        write(document)
    if what == "input":
        (tmp_path / "jobs" / "job.yaml").write_text("kind: [")
    done = run(*command, "--output", "json", code=code)
    reported = events(done)
    assert [one["event"] for one in reported if one.get("event") == "end"] == ["end"]
    last = reported[-1]
    assert (last["event"], last["exit"], last["done"]) == ("end", code, 0)
    assert last["refused"][0]["code"].startswith(diagnostic)


def test_a_diff_tells_that_apply_would_be_refused_for_its_namespace(run, write, job, control_plane):
    other = control_plane.namespace()
    control_plane.ask("DELETE", f"/api/v1/namespaces/{other}")
    job(replicas=2)
    for namespace, problem in (("not-there", "does not exist"), (other, "is being deleted")):
        done = run("diff", "jobs", "-n", namespace, code=1)
        assert f"warning[ET8024]: the namespace {namespace} {problem}" in done.stderr
        assert done.stderr.count("warning[") == 1
    missing_namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "not-there"}}
    write(training_job(replicas=2), missing_namespace)
    assert "ET8024" not in run("diff", "jobs", "-n", "not-there").stderr


def test_namespace_that_takes_no_objects_is_one_error(run, job, control_plane):
    other = control_plane.namespace()
    # Nobody empties it: it stays as it is.
    control_plane.ask("DELETE", f"/api/v1/namespaces/{other}")
    job(replicas=5)
    for namespace, problem in (("not-there", "it does not exist"), (other, "it is being deleted")):
        done = run("apply", "jobs", "-n", namespace, code=6)
        assert done.stderr.count("error[") == 1
        assert f"Namespace {namespace}: {problem}" in done.stderr
        if namespace == "not-there":
            assert "hint: kubectl create namespace not-there" in done.stderr


def test_policy_message_about_many_equal_objects_appears_once(run, job, ask):
    """Each object is tried, and each is refused with its own name in the same sentence."""
    limits = {
        "metadata": {"name": "small"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]},
    }
    ask("POST", "limitranges", limits)
    document = training_job(replicas=5)
    worker(document)["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    job(etReplicaSpecs=document["spec"]["etReplicaSpecs"])
    done = run("apply", "jobs", "--dry-run=server", code=7)
    assert done.stderr.count("maximum cpu usage") == 1
    assert "Pod mnist-worker-0 … 4 (5 Pods): " in done.stderr


DISRUPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}
LOST = {
    "phase": "Running",
    "reason": "NodeLost",
    "message": "Node n1 which was running pod w-0 is unresponsive",
}


@pytest.mark.parametrize(
    ("status", "deleting", "word", "words"),
    [
        ({"phase": "Running", "conditions": [DISRUPTED]}, True, "Preempted", "higher priority"),
        ({"phase": "Failed", "conditions": [DISRUPTED]}, False, "Preempted", "higher priority"),
        (LOST, True, "NodeLost", "its node does not answer: Node n1"),
        (LOST, False, "NodeLost", "its node does not answer: Node n1"),
        ({"phase": "Unknown"}, False, "NodeLost", "its node does not answer"),
        ({"phase": "Failed", "reason": "Evicted", "message": "disk"}, False, "Evicted", "disk"),
    ],
)
def test_a_pod_that_was_preempted_or_whose_node_is_lost_says_so(status, deleting, word, words):
    metadata = {"name": "w-0"} | ({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": status}
    assert words in object_state(pod).reason
    assert word in object_state(pod).reason
    state = labelled_replica(pod)
    assert state.reason == word
    assert words in state.message


def test_an_exit_code_does_not_hide_that_a_pod_was_preempted():
    ended = {"name": "main", "state": {"terminated": {"exitCode": 143, "reason": "Error"}}}
    status = {"phase": "Failed", "conditions": [DISRUPTED], "containerStatuses": [ended]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "w-0"}, "status": status}
    reason = object_state(pod).reason
    assert reason.startswith("Preempted: ")
    assert reason.endswith("container main ended with exit code 143")


def test_pod_preempted_during_a_rollout_is_reported_at_the_end(
    start, job, kubelet, control_plane, namespace
):
    job(replicas=1)
    kubelet.let("mnist-worker-0", unschedulable("no gpu"))
    started = start("apply", "jobs")
    lines = []
    for line in started.stdout:
        lines.append(line)
        if "cannot be scheduled" in line:
            break
    path = f"/api/v1/namespaces/{namespace}/pods/mnist-worker-0"
    control_plane.set_status(path, {"conditions": [DISRUPTED]})
    control_plane.ask("DELETE", path)
    out, _ = started.communicate(timeout=60)
    assert started.returncode == 3
    assert "Pod mnist-worker-0: it was deleted: Preempted: a Pod of higher priority" in out


@pytest.mark.parametrize("command", [("diff", "jobs"), ("apply", "jobs", "--wait", "none")])
def test_a_declared_kubernetes_version_other_than_the_servers_is_reported(
    run, job, tmp_path, command
):
    job(replicas=1)
    assert "ET8031" not in run(*command).stderr
    (tmp_path / "etcompile.toml").write_text('kubernetes-version = "1.31"\n')
    done = run(*command)
    assert done.stderr.count("ET8031") == 1, done.stderr
    assert "kubernetes-version is 1.31, but the API server is v1." in done.stderr
