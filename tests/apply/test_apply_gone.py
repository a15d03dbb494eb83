"""Waiting until a Pod is gone sees it whatever its labels are, and whoever made it."""

import contextlib
import threading
import urllib.error
from typing import Any

import pytest

from specs import with_worker

LABEL = "etcompile.dev/job"


@pytest.fixture
def pod(ask):
    class Pod:
        path = "pods/mnist-worker-0"

        def patch(self, **metadata: Any) -> None:
            ask("PATCH", self.path, {"metadata": metadata})

        def uid(self) -> str:
            return ask("GET", self.path)["metadata"]["uid"]

    return Pod()


def wait_for_output(started: Any, words: str) -> None:
    for line in started.stdout:
        if words in line:
            return
    raise AssertionError(started.communicate()[1])


def test_a_pod_that_has_lost_its_label_is_waited_for(run, start, write, kubelet, pod, objects):
    write(with_worker())
    run("apply", "jobs", code=0)
    pod.patch(finalizers=["example.com/hold"], labels={LABEL: None})
    write(with_worker(workingDir="/data"))
    old = pod.uid()
    started = start("apply", "jobs", "--replace", "--config", "take-ownership=*")
    wait_for_output(started, "mnist-worker-0  deleting")
    threading.Event().wait(1.0)
    assert started.poll() is None
    assert pod.uid() == old
    pod.patch(finalizers=None)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    assert objects()["Pod/mnist-worker-0"]["spec"]["containers"][0]["workingDir"] == "/data"


def test_a_pod_of_helm_that_is_being_deleted_is_waited_for(
    start, write, kubelet, pod, ask, objects
):
    annotations = {"meta.helm.sh/release-name": "mnist", "meta.helm.sh/release-namespace": "x"}
    theirs = {
        "metadata": {
            "name": "mnist-worker-0",
            "labels": {"app.kubernetes.io/managed-by": "Helm"},
            "annotations": annotations,
            "finalizers": ["example.com/hold"],
        },
        "spec": {"containers": [{"name": "main", "image": "busybox:1"}]},
    }
    ask("POST", "pods", theirs)
    old = pod.uid()
    ask("DELETE", f"{pod.path}?gracePeriodSeconds=0")
    write(with_worker())
    started = start("apply", "jobs")
    wait_for_output(started, "mnist-worker-0  waiting")
    threading.Event().wait(1.5)
    assert started.poll() is None
    assert pod.uid() == old
    pod.patch(finalizers=None)
    out, err = started.communicate(timeout=60)
    assert started.returncode == 0, out + err
    with contextlib.suppress(urllib.error.HTTPError):
        assert objects()["Pod/mnist-worker-0"]["metadata"]["uid"] != old


def test_a_deletion_that_nobody_finished_is_explained(
    applied, control_plane, namespace, run, kubelet, pod, ask
):
    applied(replicas=1)
    failed = {"phase": "Failed", "containerStatuses": []}
    ask("PATCH", f"{pod.path}/status", {"status": failed})
    control_plane.half_delete(namespace, "mnist-worker-0")
    done = run("apply", "jobs", "--timeout", "3s", code=3)
    for shown in (done.stdout, run("status", "mnist").stdout):
        assert "kubectl delete pod mnist-worker-0 finishes it" in shown
