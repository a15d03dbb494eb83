"""`etcompile diff` against a real API server: what it made of our objects is no difference."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile.k8s.listkeys import value_at
from etcompile.k8s.managedfields import ownership
from etcompile.kubeapi import ClusterError, connect
from etcompile.plan.comparison import compared
from etcompile.plan.planner import plan
from etcompile.plan.step import Declared, Plan, reference
from etcompile.rollout.live import Live
from specs import manifest

EXAMPLES = Path(__file__).parents[2] / "examples"


def at(namespace: str, values: Any) -> list[dict[str, Any]]:
    """The objects in a namespace, as far as they are of one."""
    return [
        one
        if one["kind"] == "CustomResourceDefinition"
        else {**one, "metadata": {**one["metadata"], "namespace": namespace}}
        for one in values
    ]


def planned(live: Live, values: list[Any]) -> Plan:
    there = live.get([reference(value) for value in values])
    return plan([Declared("j", values)], there, namespace=live.namespace)


@pytest.mark.parametrize("kind", sorted(one.name for one in EXAMPLES.iterdir() if one.is_dir()))
def test_what_was_applied_is_unchanged(control_plane: Any, kind: str) -> None:
    for example in sorted((EXAMPLES / kind).glob("*/")):
        namespace = control_plane.namespace()
        with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
            values = at(namespace, etcompile.compile([example]).objects)
            assert values
            for value in values:
                cluster.server_side_apply(value)
            plan = planned(Live(cluster), values)
            assert plan.counts() == {"unchanged": len(values)}, example


def pod(namespace: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "busybox:1",
        "command": ["sleep", "1"],
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
        "ports": [{"containerPort": 22}],
        "resources": {"limits": {"cpu": "1000m", "memory": "1024Mi"}},
    }
    return manifest(
        "Pod",
        "p",
        metadata={
            "namespace": namespace,
            "labels": {"a": "1", "b": "2"},
            "annotations": {"x.example.com/y": "1"},
        },
        spec={"containers": [container], **spec},
    )


CHANGES: list[tuple[str, Any]] = [
    ("nothing", lambda o: None),
    ("label", lambda o: o["metadata"]["labels"].update(a="3")),
    ("label gone", lambda o: o["metadata"]["labels"].pop("a")),
    ("all labels gone", lambda o: o["metadata"].pop("labels")),
    ("annotations empty", lambda o: o["metadata"].update(annotations={})),
    ("image", lambda o: o["spec"]["containers"][0].update(image="busybox:2")),
    ("default written", lambda o: o["spec"].update(restartPolicy="Always", hostNetwork=False)),
    ("policy written", lambda o: o["spec"]["containers"][0].update(imagePullPolicy="IfNotPresent")),
    ("amount", lambda o: o["spec"]["containers"][0]["resources"]["limits"].update(cpu=1)),
    ("protocol", lambda o: o["spec"]["containers"][0]["ports"][0].update(protocol="TCP")),
    ("deadline", lambda o: o["spec"].update(activeDeadlineSeconds=9)),
    ("toleration", lambda o: o["spec"].update(tolerations=[{"key": "gpu", "operator": "Exists"}])),
]


@pytest.mark.parametrize(("_name", "change"), CHANGES, ids=[name for name, _ in CHANGES])
def test_we_foresee_what_a_dry_run_would_change(
    control_plane: Any, namespace: str, _name: str, change: Any
) -> None:
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        cluster.server_side_apply(pod(namespace))
        desired = pod(namespace)
        change(desired)
        (live,) = Live(cluster).get([reference(desired)])
        answer = cluster.server_side_apply(desired, dry_run=True)
        differences = compared(desired, live, ownership(live, "etcompile"))

        def plain(value: Any) -> Any:
            metadata = {key: value["metadata"].get(key) or {} for key in ("labels", "annotations")}
            return {"metadata": metadata, "spec": value["spec"]}

        assert bool(differences) == (plain(answer) != plain(live))
        for place in differences:
            after = value_at(answer, place.path)
            if isinstance(after, list):  # the API server adds tolerations
                assert all(item in after for item in place.after)
            else:
                assert after == place.after


def test_what_a_dry_run_refuses_is_a_replacement(control_plane: Any, namespace: str) -> None:
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        cluster.server_side_apply(pod(namespace))
        desired = pod(namespace)
        desired["spec"]["containers"][0]["command"] = ["sleep", "2"]
        with pytest.raises(ClusterError, match="pod updates may not change"):
            cluster.server_side_apply(desired, dry_run=True)
        (step,) = planned(Live(cluster), [desired]).steps
        assert (step.action, step.needs) == ("replace", "replace")


def test_what_conflicts_there_is_a_conflict_here(control_plane: Any, namespace: str) -> None:
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        value = manifest("ConfigMap", "c", metadata={"namespace": namespace}, data={"a": "1"})
        cluster.server_side_apply(value)
        cluster.server_side_apply({**value, "data": {"a": "2"}}, field_manager="scaler", force=True)
        (step,) = planned(Live(cluster), [value]).steps
        (change,) = step.changes
        assert step.action == "conflict"
        assert (change.manager, change.before, change.after) == ("scaler", "2", "1")


def test_the_command_reads_the_cluster_and_writes_nothing(
    control_plane: Any, namespace: str, jobs: Path, diff: Any
) -> None:
    text = (jobs / "job.yaml").read_text().replace("namespace: ml", f"namespace: {namespace}")
    (jobs / "job.yaml").write_text(text)
    (jobs / "out.yaml").unlink()
    kubeconfig = str(control_plane.kubeconfig())
    done = diff("jobs", "--kubeconfig", kubeconfig, "--output", "json", code=1)
    assert set(json.loads(done.stdout)["counts"]) == {"create"}
    assert control_plane.writes(namespace) == [] or all(
        write.get("verb") == "create" and write["objectRef"]["resource"] == "namespaces"
        for write in control_plane.writes(namespace)
    )
    command = ["apply", "jobs", "--kubeconfig", kubeconfig, "--wait", "none"]
    subprocess.run([sys.executable, "-m", "etcompile", *command], cwd=jobs.parent, check=True)
    before = control_plane.writes(namespace)
    done = diff("jobs", "--kubeconfig", kubeconfig, code=0)
    assert "no differences" in done.stdout
    assert control_plane.writes(namespace) == before


def service(namespace: str) -> dict[str, Any]:
    return manifest(
        "Service",
        "s",
        metadata={"namespace": namespace},
        spec={"selector": {"app": "bert"}, "ports": [{"port": 22}], "clusterIP": "None"},
    )


def network_policy(namespace: str) -> dict[str, Any]:
    return manifest(
        "NetworkPolicy",
        "n",
        api_version="networking.k8s.io/v1",
        metadata={"namespace": namespace},
        spec={"podSelector": {"matchLabels": {"app": "bert"}}, "policyTypes": ["Ingress"]},
    )


@pytest.mark.parametrize(
    ("make", "path", "patch", "place"),
    [
        (service, "/api/v1/namespaces/{}/services/s", {"selector": {"x": "1"}}, "spec.selector.x"),
        (
            network_policy,
            "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies/n",
            {"podSelector": {"matchLabels": {"x": "1"}}},
            "spec.podSelector.matchLabels.x",
        ),
    ],
)
def test_a_key_that_somebody_patched_into_a_selector_is_a_difference(
    control_plane: Any, namespace: str, make: Any, path: str, patch: Any, place: str
) -> None:
    with connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace) as cluster:
        desired = make(namespace)
        cluster.server_side_apply(desired)
        merge = "application/merge-patch+json"
        control_plane.ask("PATCH", path.format(namespace), {"spec": patch}, merge)
        (step,) = planned(Live(cluster), [desired]).steps
        assert (step.action, step.needs) == ("conflict", "take-ownership")
        assert [(one.path, one.how) for one in step.changes] == [(place, "removed")]
        assert step.changes[0].manager
