"""`etcompile status` against a real API server; the status of Pods is set by the test."""

import json

import pytest

from commandline import etcompile
from etcompile.kubeapi import connect
from etcompile.status import seen
from specs import manifest, training_job

RUNNING = {"startTime": "2026-01-01T00:00:00Z"}


def waiting(reason: str, message: str = "", **more: object) -> list[dict]:
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    return [{**container, "state": {"waiting": {"reason": reason, "message": message}}, **more}]


def lines(text: str, head: str) -> list[str]:
    entries = []
    for line in text.partition(f"{head}\n")[2].splitlines():
        if not line.startswith("  "):
            break
        entries.append(line.strip())
    return entries


def test_a_job_whose_pods_wait_says_so(deployed, status, namespace):
    deployed(training_job())
    done = status("mnist")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"Job:       {namespace}/mnist (TrainingJob)" in done.stdout
    assert "Phase:     Pending (derived: no Pod is running yet)" in done.stdout
    assert "Hosts:     2 (from Git) mnist-worker-0, mnist-worker-1" in done.stdout


def test_roles_are_counted_by_what_their_pods_are(deployed, status, pod_is):
    deployed(training_job(replicas=4))
    pod_is("mnist-launcher", "Running", ready=True)
    pod_is("mnist-worker-0", "Running", ready=True)
    pod_is("mnist-worker-1", "Running")
    pod_is("mnist-worker-2", "Failed", reason="Evicted", message="the node was low on memory")
    result = json.loads(status("mnist", "--output", "json").stdout)
    assert result["phase"] == "Running"
    assert result["phaseFrom"] == "pods"
    worker, launcher = result["roles"]
    assert (launcher["name"], launcher["desired"], launcher["ready"]) == ("launcher", 1, 1)
    counts = {key: worker[key] for key in ("desired", "running", "ready", "failed")}
    assert counts == {"desired": 4, "running": 2, "ready": 1, "failed": 1}


def test_unready_pods_are_grouped_by_reason_in_status(deployed, cluster, status, pod_is):
    deployed(training_job(replicas=6))
    pod_is("mnist-launcher", "Running", ready=True)
    unscheduled = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    }
    for index in range(4):
        pod_is(f"mnist-worker-{index}", "Pending", conditions=[unscheduled])
    denied = waiting("ImagePullBackOff", 'Back-off pulling image "horovod/horovod:0.28.1"')
    pod_is("mnist-worker-4", "Pending", containerStatuses=denied)
    cluster.delete(cluster.resource("v1", "Pod"), "mnist-worker-5", grace=0)
    first, second, third = lines(status("mnist").stdout, "Not ready:")
    assert first.startswith("mnist-worker-0, mnist-worker-1, mnist-worker-2 and 1 more: ")
    assert "Unschedulable" in first
    assert "3 Insufficient nvidia.com/gpu" in first
    assert second.startswith("mnist-worker-4: Pending, ImagePullBackOff: ")
    assert "horovod/horovod:0.28.1" in second
    assert third == "mnist-worker-5: Missing: not created yet, or deleted since"


def test_restarts_are_counted_and_a_crash_says_its_exit_code(deployed, status, pod_is):
    deployed(training_job())
    ended = {"exitCode": 137, "reason": "OOMKilled"}
    crashed = waiting("CrashLoopBackOff", restartCount=3, lastState={"terminated": ended})
    pod_is("mnist-worker-1", "Running", containerStatuses=crashed)
    done = status("mnist").stdout
    assert "Restarts:  3" in done
    line = next(one for one in lines(done, "Not ready:") if one.startswith("mnist-worker-1"))
    assert "CrashLoopBackOff" in line
    assert "OOMKilled" in line


def test_a_failed_job_is_no_error_of_the_command(deployed, status, pod_is):
    deployed(training_job())
    pod_is("mnist-launcher", "Failed")
    done = status("mnist")
    assert done.returncode == 0
    assert "Phase:     Failed (derived: launcher failed)" in done.stdout


def test_the_watchers_word_counts_where_there_is_one(deployed, cluster, status, pod_is):
    deployed(training_job())
    pod_is("mnist-launcher", "Failed")
    for name, data in (
        ("mnist-etcompile-status", {"phase": "Running"}),
        (
            "mnist-etcompile-hosts",
            {"hostfile": "mnist-worker-1:1\n", "deepspeed-hostfile": "x slots=1\n"},
        ),
    ):
        value = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        cluster.create(value)
    done = status("mnist").stdout
    assert "Phase:     Running (reported by the watcher)" in done
    assert "(live)" in done


def test_a_run_that_was_marked_as_done_by_hand_has_succeeded(deployed, cluster, status):
    deployed(training_job())
    launcher = cluster.get(cluster.resource("v1", "Pod"), "mnist-launcher")
    assert launcher is not None
    for done, phase in (
        ("000000000000", "Pending"),
        (launcher["metadata"]["annotations"]["etcompile.dev/spec-hash"], "Succeeded"),
    ):
        value = manifest("ConfigMap", "mnist-etcompile-status")
        cluster.server_side_apply({**value, "data": {"done": done}})
        assert json.loads(status("mnist", "--output", "json").stdout)["phase"] == phase


def test_status_shows_the_ten_newest_events_once_each(deployed, status, report_event):
    deployed(training_job())
    for index in range(2):
        for ago in (300, 200):
            report_event(
                f"mnist-worker-{index}", "FailedScheduling", "cannot be scheduled", ago=ago, count=2
            )
    for number in range(12):
        report_event("mnist-launcher", "Unhealthy", f"probe {number} failed", ago=100 - number)
    report_event("somebody-else", "Unhealthy", "not ours")
    shown = lines(status("mnist").stdout, "Events:")
    assert len(shown) == 10
    assert "probe 11 failed" in shown[0]
    assert "not ours" not in "".join(shown)
    assert "FailedScheduling" not in "".join(shown)
    shown = json.loads(status("mnist", "--output", "json").stdout)["events"]
    assert shown[0]["message"] == "probe 11 failed"


def test_the_same_event_of_many_pods_is_one_line(deployed, status, report_event):
    deployed(training_job())
    for index in range(2):
        name = f"mnist-worker-{index}"
        report_event(name, "Failed", f"Failed to pull image for {name}", ago=10 * index, count=2)
    (line,) = lines(status("mnist").stdout, "Events:")
    assert "Pod/mnist-worker-0, Pod/mnist-worker-1" in line
    assert line.endswith("(x4)")


def test_pods_of_another_run_are_listed_separately(deployed, cluster, status, namespace):
    deployed(training_job())
    pod = cluster.get(cluster.resource("v1", "Pod"), "mnist-worker-0")
    assert pod is not None
    labels = {**pod["metadata"]["labels"], "etcompile.dev/run": "b"}
    metadata = {"name": "mnist-b-worker-0", "labels": labels}
    cluster.create({**pod, "metadata": metadata, "status": {}})
    (line,) = lines(status("mnist").stdout, "Pods that the job does not declare:")
    assert line == "mnist-b-worker-0 (Pending, run b)"


def test_without_a_name_each_job_has_a_line(deployed, status, pod_is, namespace):
    deployed(training_job("bert"), training_job("mnist", replicas=3))
    pod_is("bert-launcher", "Running", ready=True)
    done = status()
    assert done.returncode == 0
    head, bert, mnist = (line.split() for line in done.stdout.splitlines())
    assert head[:5] == ["NAMESPACE", "NAME", "KIND", "PHASE", "READY"]
    assert bert[:6] == [namespace, "bert", "TrainingJob", "Running", "1/3", "0"]
    assert mnist[:6] == [namespace, "mnist", "TrainingJob", "Pending", "0/4", "0"]
    names = [one["name"] for one in json.loads(status("--output", "json").stdout)["jobs"]]
    assert names == ["bert", "mnist"]
    everywhere = status("-A").stdout
    assert f"{namespace}  bert" in everywhere


def test_an_empty_namespace_says_so(status, namespace):
    done = status()
    assert (done.returncode, done.stdout) == (0, "")
    assert f"no jobs in namespace {namespace}" in done.stderr


def test_misspelt_job_gets_a_suggestion_and_a_job_elsewhere_its_namespace(
    deployed, status, control_plane, namespace
):
    deployed(training_job())
    done = status("mnits")
    assert done.returncode == 2
    assert "error[ET8005]" in done.stderr
    assert "did you mean 'mnist'?" in done.stderr
    done = status("mnist", "-n", control_plane.namespace())
    assert done.returncode == 2
    assert "is in namespace" in done.stderr


def test_a_deleted_job_is_not_said_to_be_where_it_was(deployed, status, control_plane, namespace):
    deployed(training_job())
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    labels = {"etcompile.dev/job": "mnist"}
    record = {"metadata": {"name": "mnist-etcompile-status", "labels": labels}}
    control_plane.ask("POST", maps, record)
    control_plane.ask("DELETE", f"{maps}/mnist-config")
    done = status("mnist")
    assert done.returncode == 2
    assert "it was deleted: only its ConfigMap mnist-etcompile-status is left" in done.stderr


def test_a_cluster_that_refuses_is_exit_code_6(control_plane, deployed, status):
    deployed(training_job())
    kubeconfig = control_plane.kubeconfig(token="nobody-token")
    done = status("mnist", "--kubeconfig", str(kubeconfig))
    assert done.returncode == 6
    assert "error[ET8004]" in done.stderr
    assert "cannot list resource" in done.stderr


def test_a_stored_job_of_another_version_still_shows_its_pods(deployed, cluster, status, pod_is):
    deployed(training_job())
    pod_is("mnist-worker-1", "Running", ready=True)
    stored = {"data": {"job.yaml": "apiVersion: etcompile.dev/v9\nkind: StoredJob\n"}}
    cluster.patch(cluster.resource("v1", "ConfigMap"), "mnist-config", stored)
    result = json.loads(status("mnist", "--output", "json").stdout)
    assert result["phase"] == "Unknown"
    assert [(role["name"], role["desired"], role["ready"]) for role in result["roles"]] == [
        ("launcher", None, 0),
        ("worker", None, 1),
    ]


@pytest.mark.parametrize("wrong", [("-A", "-n", "x"), ("a", "b")])
def test_a_wrong_command_line_is_refused(status, wrong):
    assert status(*wrong).returncode == 2


def test_missing_services_of_a_job_are_named_by_status_and_why(
    deployed, status, cluster, kubeconfig
):
    deployed(training_job())
    services = cluster.resource("v1", "Service")
    assert json.loads(status("mnist", "--output", "json").stdout)["missingServices"] == []
    assert "Missing Services" not in status("mnist").stdout
    for name in ("mnist-worker-0", "mnist-worker-1"):
        cluster.delete(services, name)
    done = status("mnist")
    assert lines(done.stdout, "Missing Services (apply the job again):") == [
        "mnist-worker-0, mnist-worker-1"
    ]
    names = json.loads(status("mnist", "--output", "json").stdout)["missingServices"]
    assert names == ["mnist-worker-0", "mnist-worker-1"]
    advice = "apply the job again; missing Services: mnist-worker-0, mnist-worker-1"
    assert advice in etcompile("why", "mnist", "--kubeconfig", kubeconfig).stdout


def test_services_that_the_user_may_not_list_are_not_reported_missing(
    deployed, control_plane, namespace
):
    deployed(training_job())
    reads = ["get", "list", "watch"]
    resources = {"": ["pods", "configmaps", "events"], "batch": ["jobs"]}
    rules = [{"apiGroups": [k], "resources": v, "verbs": reads} for k, v in resources.items()]
    control_plane.grant(namespace, "reader", rules)
    kubeconfig = control_plane.kubeconfig(user="reader", groups=())
    with connect(kubeconfig=kubeconfig, namespace=namespace) as cluster:
        [job] = seen(cluster, "mnist", namespace).statuses()
    assert job.missing_services == ()
