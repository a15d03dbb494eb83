"""What waits for what: the edges, the deadlocks, and how many alike become one."""

from typing import Any

import pytest

from etcompile import Compilation, SecretMode, Settings
from etcompile.plan.needs import Graph, bundled, deadlock, graph, label
from etcompile.plan.step import Declared
from specs import compiled, launcher, manifest, scale_in, training_job, worker


def built(*documents: Any, **options: Any) -> Graph:
    return of(compiled(*documents, **options))


def of(compilation: Compilation) -> Graph:
    groups = [Declared(one.name, one.objects, one.waits) for one in compilation.groups]
    return graph(groups)


def edges_of(graph: Graph) -> set[str]:
    return {
        f"{graph.nodes[edge.source]} {edge.how} {graph.nodes[edge.target]}" for edge in graph.edges
    }


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "busybox:1.36"}]
    return manifest("Pod", name, spec={"containers": containers, **spec})


def mounting(name: str) -> list[dict[str, Any]]:
    return [{"name": "data", "configMap": {"name": name}}]


def test_the_launcher_waits_for_its_workers() -> None:
    job_graph = built(training_job())
    gates = {one for one in edges_of(job_graph) if "waits for" in one}
    assert gates == {
        "Pod mnist-launcher waits for Pod mnist-worker-0",
        "Pod mnist-launcher waits for Pod mnist-worker-1",
    }


def test_a_worker_that_is_scaled_in_is_waited_for_no_more() -> None:
    edges = edges_of(built(training_job(), scale_in("in", ["mnist-worker-0"])))
    assert "Pod mnist-launcher waits for Pod mnist-worker-1" in edges
    assert not any("worker-0" in one for one in edges)


def test_a_pod_needs_what_its_spec_names() -> None:
    job = training_job()
    spec = worker(job)["template"]["spec"]
    spec["volumes"] = [
        {"name": "a", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "b", "projected": {"sources": [{"secret": {"name": "token"}}]}},
        {"name": "c", "configMap": {"name": "perhaps", "optional": True}},
    ]
    spec["containers"][0]["envFrom"] = [{"configMapRef": {"name": "settings"}}]
    spec["containers"][0]["env"] = [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "k"}}}
    ]
    spec["imagePullSecrets"] = [{"name": "registry"}]
    spec["serviceAccountName"] = "trainer"
    edges = {one for one in edges_of(built(job, config_map("settings"))) if "worker-0 " in one}
    assert edges == {
        f"Pod mnist-worker-0 {needed}"
        for needed in (
            "mounts PersistentVolumeClaim data",
            "mounts Secret token",
            "reads ConfigMap settings",
            "reads Secret keys",
            "pulls images with Secret registry",
            "runs as ServiceAccount trainer",
            "mounts ConfigMap mnist-config",
            "mounts Secret mnist",
            "is found by Service mnist-worker-0",
        )
    }


def test_what_is_not_in_the_output_has_no_wave() -> None:
    nodes = {str(node): node for node in built(training_job()).nodes}
    assert nodes["Secret mnist"].wave is None
    assert nodes["ConfigMap mnist-config"].wave == 0
    assert "ConfigMap mnist-etcompile-status" not in nodes  # optional: nobody waits for it


def test_a_secret_is_what_makes_it() -> None:
    edges = edges_of(built(training_job(), settings=Settings(secret=SecretMode("external"))))
    assert "Pod mnist-worker-0 mounts ExternalSecret mnist-ssh" in edges
    assert "ExternalSecret mnist-ssh is made by SSHKey mnist-ssh" in edges


def test_a_binding_needs_its_role_and_names_its_account() -> None:
    job = training_job()

    spec = launcher(job)["template"]["spec"]
    spec["containers"][0]["command"] = ["mpirun", "python", "train.py"]
    job["spec"]["launcherAttachMode"] = "kubexec"

    job["metadata"]["namespace"] = "ml"
    edges = edges_of(built(job))
    assert "RoleBinding mnist-launcher grants Role mnist-launcher" in edges
    assert "RoleBinding mnist-launcher grants to ServiceAccount mnist-launcher" in edges


def test_service_selects_pods_by_all_its_labels_in_the_same_namespace() -> None:
    job = training_job()
    job["metadata"]["namespace"] = "ml"
    labels = {"etcompile.dev/job": "mnist", "etcompile.dev/role": "worker"}
    ports = [{"port": 80}]
    services = [
        manifest(
            "Service",
            name,
            metadata={"namespace": namespace},
            spec={"selector": selector, "ports": ports},
        )
        for name, namespace, selector in (
            ("all", "ml", labels),
            ("none", "ml", {**labels, "color": "blue"}),
            ("elsewhere", "other", labels),
            ("manual", "ml", {}),
        )
    ]
    edges = {one for one in edges_of(built(job, *services)) if "Service mnist" not in one}
    assert {one for one in edges if "is found by" in one} == {
        "Pod mnist-worker-0 is found by Service all",
        "Pod mnist-worker-1 is found by Service all",
    }


def test_objects_of_unknown_shape_are_only_nodes() -> None:
    odd: list[dict[str, Any]] = [
        manifest("ExternalSecret", f"odd-{number}", api_version="external-secrets.io/v1", spec=spec)
        for number, spec in enumerate(("text", {"dataFrom": "x"}, {"target": ["y"]}))
    ]
    job_graph = built(training_job(), *odd)
    assert {str(node) for node in job_graph.nodes} >= {
        "ExternalSecret odd-0",
        "ExternalSecret odd-2",
    }


# Deadlocks --------------------------------------------------------------------------------------


def test_a_job_has_no_deadlock() -> None:
    assert deadlock(built(training_job(), config_map("other"))) is None


@pytest.mark.parametrize("annotation", ["etcompile.dev/wave", "argocd.argoproj.io/sync-wave"])
def test_a_pod_that_needs_something_of_a_later_wave_waits_for_ever(annotation: str) -> None:
    late = config_map("late", annotations={annotation: "200"})
    job = training_job()
    worker(job)["template"]["spec"]["volumes"] = mounting("late")
    assert deadlock(built(job, late)) == (
        "Pod mnist-worker-0 mounts ConfigMap late, which is in wave 200 and so waits for"
        " Pod mnist-worker-0 in wave 100"
    )


def test_a_later_object_that_nobody_has_to_wait_for_is_no_deadlock() -> None:
    job = training_job()
    volume = {"name": "data", "configMap": {"name": "late", "optional": True}}
    worker(job)["template"]["spec"]["volumes"] = [volume]
    late = config_map("late", annotations={"etcompile.dev/wave": "200"})
    assert deadlock(built(job, late)) is None


def test_deadlock_of_pods_is_reported_with_the_whole_cycle() -> None:
    pods = [pod(name) for name in ("z", "a", "b", "c")]
    waits = {"z": ("a",), "a": ("b",), "b": ("c",), "c": ("a",)}
    assert deadlock(graph([Declared("ring", pods, waits)])) == (
        "Pod a waits for Pod b, which waits for Pod c, which waits for Pod a"
    )


def test_a_diamond_is_no_ring() -> None:
    pods = [pod(name) for name in "abcd"]
    waits = {"a": ("b", "c"), "b": ("d",), "c": ("d",)}
    assert deadlock(graph([Declared("diamond", pods, waits)])) is None


def test_a_chain_of_thousands_is_followed_to_its_end() -> None:
    pods = [pod(f"p{number}") for number in range(5000)]
    waits = {f"p{number}": (f"p{number + 1}",) for number in range(4999)}
    assert deadlock(graph([Declared("chain", pods, waits)])) is None
    ring = deadlock(graph([Declared("ring", pods, {**waits, "p4999": ("p0",)})]))
    assert ring is not None
    assert ring.endswith("which waits for Pod p0")


# Bundles ----------------------------------------------------------------------------------------


def labels(graph: Graph) -> list[str]:
    return [label(node.kind, node.names) for node in bundled(graph).nodes]


def test_three_workers_stay_apart_and_four_become_one() -> None:
    assert "Pod mnist-worker-2" in labels(built(training_job(replicas=3)))
    shown = labels(built(training_job(replicas=4)))
    assert "Pod mnist-worker-0 … 3 (4 Pods)" in shown
    assert "Service mnist-worker-0 … 3 (4 Services)" in shown


def test_gaps_are_written_out_while_there_are_few() -> None:
    gone = scale_in("in", ["mnist-worker-2", "mnist-worker-5"])
    shown = labels(built(training_job(replicas=9), gone))
    assert "Pod mnist-worker-0, 1, 3, 4, 6 … 8 (7 Pods)" in shown
    gone = scale_in("in", [f"mnist-worker-{number}" for number in range(1, 19, 2)])
    shown = labels(built(training_job(replicas=20), gone))
    assert "Pod mnist-worker-0 … 19 (11 Pods)" in shown


def test_a_thousand_workers_are_as_small_as_five() -> None:
    five, thousand = (bundled(built(training_job(replicas=count))) for count in (5, 1000))
    assert len(five.nodes) == len(thousand.nodes)
    assert five.edges == thousand.edges


def test_numbered_pods_with_different_dependencies_are_not_grouped() -> None:
    pods = [pod(f"p-{number}") for number in range(10)]
    pods[0] = pod("p-0", volumes=mounting("settings"))
    one = Declared(None, [config_map("settings"), *pods])
    shown = labels(graph([one]))
    assert shown == ["ConfigMap settings", "Pod p-0", "Pod p-1 … 9 (9 Pods)"]


def test_plurals_are_english() -> None:
    kinds = ("NetworkPolicy", "Ingress", "Gateway")
    values = [
        {"apiVersion": "x/v1", "kind": kind, "metadata": {"name": f"n-{number}"}}
        for kind in kinds
        for number in range(4)
    ]
    assert labels(graph([Declared(None, values)])) == [
        "NetworkPolicy n-0 … 3 (4 NetworkPolicies)",
        "Ingress n-0 … 3 (4 Ingresses)",
        "Gateway n-0 … 3 (4 Gateways)",
    ]
