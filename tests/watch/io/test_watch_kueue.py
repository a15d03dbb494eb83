"""Kueue keeps Pods that ended until others of other names have their places.

Kueue takes minutes to build and a webhook to run, so the tests play its part, by
reference/gang-scheduling.md 4.5: each Pod has its finalizer, which goes once another Pod of the
same role and number is there. With Kueue 0.14.0 itself (built from its Go module, a quota of four
CPUs) the same was seen: two failures in a row, a preemption by a job of a higher priority and the
return after that, the end of the run, and `etcompile delete`.
"""

import contextlib
import json
import threading
import time

import pytest
from watched import eventually

from etcompile.compiler import Options, compile  # noqa: A004
from etcompile.kubeapi import ClusterError
from etcompile.model import Settings
from etcompile.status import JobStatus, statuses
from specs import kubeflow_job, replicas

MANAGED = "kueue.x-k8s.io/managed"


class Kueue:
    """Who holds Pods back until they are replaced."""

    def __init__(self, place) -> None:
        self._place = place
        self._pods = place.cluster.resource("v1", "Pod")
        self._stop = threading.Event()
        threading.Thread(target=self._play, daemon=True).start()

    def _play(self) -> None:
        while not self._stop.wait(0.1):
            with contextlib.suppress(ClusterError):
                self._look()

    def _look(self) -> None:
        pods = self._place.pods()
        for name, pod in pods.items():
            metadata = pod["metadata"]
            going = "deletionTimestamp" in metadata
            if not metadata.get("finalizers") and not going:
                change = {"metadata": {"finalizers": [MANAGED]}}
                self._place.cluster.patch(self._pods, name, change)
            elif going and self._is_replaced(pods, pod):
                self._place.let_go(name)

    @staticmethod
    def _is_replaced(pods: dict[str, dict], pod: dict) -> bool:
        own = pod["metadata"]["labels"]
        keys = ("etcompile.dev/role", "etcompile.dev/index")
        return any(
            all(other["metadata"]["labels"].get(key) == own.get(key) for key in keys)
            and other["metadata"]["name"] != pod["metadata"]["name"]
            and "deletionTimestamp" not in other["metadata"]
            for other in pods.values()
        )

    def stop(self) -> None:
        self._stop.set()


@pytest.fixture
def kueue(place):
    found = Kueue(place)
    yield found
    found.stop()
    for name in place.pods():
        place.let_go(name)


def started(place) -> None:
    place.kubelets()
    types = {"Worker": {**replicas("PyTorchJob", 3), "restartPolicy": "ExitCode"}}
    job = kubeflow_job("PyTorchJob", types)
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    options = Options(namespace=place.namespace, settings=Settings(gang="kueue", run="one"))
    made = compile([job], options)
    assert made.ok, made.diagnostics
    for value in json.loads(json.dumps([*made.objects])):
        value["metadata"].setdefault("namespace", place.namespace)
        value.get("spec", {}).pop("schedulingGates", None)
        place.cluster.create(value)
    eventually(lambda: place.data("mnist-etcompile-status").get("phase") == "Running")
    eventually(lambda: all(pod["metadata"].get("finalizers") for pod in place.pods().values()))


def named(*numbers: int | str) -> list[str]:
    return [f"mnist-one-worker-{number}" for number in numbers]


def phases(place) -> dict[str, str]:
    return {name: pod["status"]["phase"] for name, pod in place.pods().items()}


def status(place) -> JobStatus:
    kinds = (("v1", "ConfigMap"), ("v1", "Pod"))
    objects = [
        one
        for version, kind in kinds
        for one in place.cluster.list(place.cluster.resource(version, kind), place.namespace).items
    ]
    [found] = statuses(objects)
    return found


@pytest.mark.usefixtures("kueue")
def test_a_failed_pod_is_replaced_under_another_name_and_then_goes(place, watching):
    watching()
    started(place)
    first = place.pod("mnist-one-worker-1")
    place.becomes("mnist-one-worker-1", "Failed", 137)
    eventually(lambda: phases(place) == dict.fromkeys(named(0, "1-a1", 2), "Running"), 20)
    after = place.pod("mnist-one-worker-1-a1")
    keys = ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/queue-name")
    for key in keys:
        assert after["metadata"]["labels"].get(key) == first["metadata"]["labels"].get(key)
    assert after["spec"]["hostname"] == first["spec"].get("hostname", "mnist-one-worker-1")
    [owner] = after["metadata"]["ownerReferences"]
    assert owner["name"] == "mnist-etcompile"
    place.becomes("mnist-one-worker-1-a1", "Failed", 143)
    eventually(lambda: phases(place) == dict.fromkeys(named(0, "1-a2", 2), "Running"), 20)
    assert place.record("mnist")["replaced"] == {"worker": 2}
    found = status(place)
    assert [one.name for one in found.replicas] == named(0, "1-a2", 2)
    assert ([role.ready for role in found.roles], found.surplus) == ([3], ())


@pytest.mark.usefixtures("kueue")
def test_pods_that_were_preempted_come_back_under_other_names(place, watching):
    first = watching(leads=False)
    started(place)
    resource = place.cluster.resource("v1", "Pod")
    for name in place.pods():
        place.cluster.delete(resource, name, grace=1)
    eventually(lambda: phases(place) == dict.fromkeys(named("0-a1", "1-a1", "2-a1"), "Running"), 30)
    # A watcher that begins now does nothing again.
    first.stop()
    watching(leads=False)
    time.sleep(1.5)
    assert sorted(place.pods()) == named("0-a1", "1-a1", "2-a1")
    for name in place.pods():
        place.becomes(name, "Succeeded", 0)
    eventually(lambda: place.data("mnist-etcompile-status").get("phase") == "Succeeded")
