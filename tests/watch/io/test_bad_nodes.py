"""Nodes that fail Pods, before a real kube-scheduler, and nodes that do not answer.

Nodes are objects here, and a thread plays their kubelets. The bad one refuses every Pod at once, so
it has always the most room, and the scheduler likes it best.
"""

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from watched import QUICK, Place, Running, eventually, is_ready

from commandline import etcompile
from controlplane.server import ControlPlane
from etcompile.integrations.watcher_manifests import NAME, Installation, manifests
from etcompile.kubeapi import connect
from specs import kubeflow_job

GOOD, BAD = [f"good-{number}" for number in range(8)], "bad"
CPUS = 4
PODS = 8
AVOID, LOST = "etcompile.dev/avoid-nodes", "etcompile.dev/lost-node-after"


@pytest.fixture(scope="module")
def plane(control_plane, require, tmp_path_factory) -> Iterator[ControlPlane]:
    """An API server of these tests alone, with nodes and a real scheduler."""
    folder = tmp_path_factory.mktemp("scheduled")
    scheduler = control_plane.binaries / "kube-scheduler"
    require("scheduler", present=scheduler.exists(), why=f"there is no {scheduler}")
    plane = ControlPlane(folder, control_plane.binaries)
    with connect(kubeconfig=plane.kubeconfig()) as cluster:
        for name in (*GOOD, BAD):
            make_node(cluster, name)
    command = [scheduler, f"--kubeconfig={plane.kubeconfig()}", "--leader-elect=false"]
    with (folder / "scheduler.log").open("w") as log:
        process = subprocess.Popen([*map(str, command), "--secure-port=0"], stderr=log)
    yield plane
    process.kill()
    process.wait()
    plane.stop()


def make_node(cluster: Any, name: str) -> None:
    """A node as its kubelet registers it, with room for one Pod."""
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": f"{name}.example"}},
        }
    )
    # So the scheduler likes the bad one best, and it has one Pod at a time.
    room = {"cpu": str(CPUS * (16 if name == BAD else 1)), "memory": "8Gi", "pods": "1"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    status = {"status": {"capacity": room, "allocatable": room, "conditions": [ready]}}
    cluster.patch(cluster.resource("v1", "Node"), name, status, subresource="status")
    # An admission plugin taints a node that is registered; its controller would untaint it.
    cluster.patch(cluster.resource("v1", "Node"), name, {"spec": {"taints": None}})


class Nodes:
    """The kubelets of a namespace: all are well, but the bad node's admits nothing."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.came: Counter[str] = Counter()
        self._known: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._play, daemon=True)
        self._thread.start()

    def _play(self) -> None:
        while not self._stop.wait(0.05):
            pods = self.place.pods().values()
            if not self._known and sum("nodeName" in pod["spec"] for pod in pods) < PODS:
                continue  # the first ones come all at once
            for pod in pods:
                node, uid = pod["spec"].get("nodeName"), pod["metadata"]["uid"]
                if not node or uid in self._known:
                    continue
                self._known.add(uid)
                self.came[node] += 1
                name = pod["metadata"]["name"]
                if node == BAD:
                    self.place.becomes(name, "Failed", reason="UnexpectedAdmissionError", uid=uid)
                else:
                    self.place.becomes(name, "Running", uid=uid)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def place(plane) -> Iterator[Place]:
    namespace = plane.namespace()
    with connect(kubeconfig=plane.kubeconfig(), namespace=namespace) as cluster:
        found = Place(plane, cluster, namespace)
        yield found
        found.close()
        # The next test needs the room.
        pods = cluster.resource("v1", "Pod")
        for name in found.pods():
            cluster.delete(pods, name, namespace, grace=0)


@pytest.fixture
def watcher(plane, place) -> Iterator[Callable[[], Running]]:
    """Starts a watcher with its own rights, none of them on nodes."""
    started: list[Running] = []

    def start() -> Running:
        paths = {
            "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
            "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
            "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
        }
        for value in manifests(Installation(place.namespace, (place.namespace,), "watcher:1")):
            if value["kind"] in paths:
                plane.ask("POST", paths[value["kind"]].format(place.namespace), value)
        token = plane.service_account(place.namespace, NAME)
        kubeconfig = plane.kubeconfig(token=token, namespace=place.namespace)
        started.append(Running(kubeconfig, place.namespace, leads=False, timeouts=QUICK).start())
        return started[-1]

    yield start
    for running in started:
        running.stop()


def job(**annotations: str) -> dict[str, Any]:
    """A master and seven workers, each for a node of its own."""
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 7})
    document["metadata"]["annotations"] = annotations
    for replica in document["spec"]["pytorchReplicaSpecs"].values():
        replica["restartPolicy"] = "OnFailure"
        [container] = replica["template"]["spec"]["containers"]
        container["resources"] = {"requests": {"cpu": str(CPUS - 1)}}
    return document


def all_ready(place: Place) -> bool:
    pods = place.pods()
    return len(pods) == PODS and all(map(is_ready, pods.values()))


def test_at_most_two_pods_of_a_job_go_to_a_node_that_fails_them(place, watcher) -> None:
    nodes = Nodes(place)
    running = watcher()
    place.submit(job(**{AVOID: "2"}))
    eventually(lambda: all_ready(place), 60)
    nodes.stop()
    assert nodes.came[BAD] == 2, nodes.came
    found = {pod["spec"]["nodeName"] for pod in place.pods().values()}
    assert found == set(GOOD)
    [told] = eventually(lambda: place.told("NodeAvoided"))
    assert "avoid the node bad: it caused at least 2 failures of Pods" in told["message"]
    assert running.value("etcompile_watch_failures_total", cause="Refused") == 2


@pytest.mark.parametrize(
    "profiles", [(), ("argocd",), ("flux",)], ids=lambda p: "".join(p) or "none"
)
def test_what_avoids_a_node_is_still_what_was_declared(place, watcher, profiles, tmp_path) -> None:
    nodes = Nodes(place)
    watcher()
    document = job(**{AVOID: "1"})
    declared = place.submit(document, profiles=profiles)
    eventually(lambda: all_ready(place), 60)
    nodes.stop()
    avoids = [pod for pod in place.pods().values() if "affinity" in pod["spec"]]
    assert len(avoids) == nodes.came[BAD] == 1
    # As Flux does it: a server-side apply that would change nothing.
    [name] = [pod["metadata"]["name"] for pod in avoids]
    [wanted] = [
        value for value in declared if value["metadata"]["name"] == name and value["kind"] == "Pod"
    ]
    made = place.cluster.server_side_apply(
        wanted, field_manager="kustomize-controller", force=True, dry_run=True
    )
    assert made["spec"] == avoids[0]["spec"]
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    told = etcompile("diff", file, "-n", place.namespace, "--kubeconfig", place.plane.kubeconfig())
    assert name not in told.stdout, told.stdout


def test_without_the_annotation_they_go_there_again_and_again(place, watcher) -> None:
    nodes = Nodes(place)
    watcher()
    place.submit(job())
    eventually(lambda: nodes.came[BAD] > 2 or all_ready(place), 60)
    nodes.stop()
    assert nodes.came[BAD] > 2, nodes.came


def test_a_pod_of_a_node_that_does_not_answer_is_replaced_in_the_time_that_was_given(
    place, watcher
) -> None:
    nodes = Nodes(place)
    watcher()
    place.submit(job(**{LOST: "30", AVOID: "2"}))
    eventually(lambda: all_ready(place), 60)
    name = next(name for name in place.pods() if "worker" in name)
    old = place.pods()[name]
    # As the node controller leaves it, half a minute ago.
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 25))
    conditions = [
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": since},
        {"type": "Ready", "status": "False", "lastTransitionTime": since},
    ]
    place.cluster.patch(
        place.cluster.resource("v1", "Pod"),
        name,
        {"status": {"conditions": conditions}},
        place.namespace,
        subresource="status",
    )
    eventually(lambda: place.uid(name) not in ("", old["metadata"]["uid"]), 30)
    eventually(lambda: all_ready(place), 30)
    nodes.stop()
    forced = [
        event
        for event in place.plane.writes(place.namespace)
        if (event["verb"], event["objectRef"].get("name")) == ("delete", name)
    ]
    assert len(forced) == 2, "asked first, then by force"
    assert '"gracePeriodSeconds":0' in str(forced[-1].get("requestObject")).replace(
        "'", '"'
    ).replace(" ", "")
    [told] = eventually(lambda: place.told("PodReleased"))
    assert "has not answered for 30 s" in told["message"]
