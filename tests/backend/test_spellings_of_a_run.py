"""A job is the same run whichever way an equal value of it is spelt."""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import commandline
from etcompile.k8s.defaults import table
from etcompile.k8s.quantity import canonical, number
from etcompile.model import Settings
from etcompile.plan.comparison import compared
from specs import compiled, kubeflow_job, replicas, training_job

HASH = "etcompile.dev/spec-hash"
PROBE = {"httpGet": {"port": 80}}
ENV = [
    {"name": "A"},
    {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
]
CONTAINER = {
    "env": ENV,
    "lifecycle": {"postStart": PROBE, "preStop": PROBE},
    "livenessProbe": PROBE,
    "ports": [{"containerPort": 80}],
    "resources": {"limits": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": 1}},
    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
}
FIELDS = {"fieldRef": {"fieldPath": "metadata.name"}, "path": "name"}
TOKEN = {"serviceAccountToken": {"path": "token"}}
VOLUMES: list[dict[str, Any]] = [
    {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
    {"name": "config", "configMap": {"name": "c"}},
    {"name": "secret", "secret": {"secretName": "s"}},
    {"name": "claim", "persistentVolumeClaim": {"claimName": "p"}},
    {"name": "host", "hostPath": {"path": "/data"}},
    {"name": "fields", "downwardAPI": {"items": [FIELDS]}},
    {"name": "both", "projected": {"sources": [TOKEN, {"downwardAPI": {"items": [FIELDS]}}]}},
]
Path = tuple[str, ...]


def jobs() -> dict[str, tuple[dict[str, Any], list[dict[str, Any]]]]:
    """A job of each of some kinds, and its PodSpecs in it."""
    torch = kubeflow_job("PyTorchJob", {"Worker": replicas("PyTorchJob", 2)})
    horovod = training_job(launcherAttachMode="kubexec")
    of_torch = [torch["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]]
    roles = horovod["spec"]["etReplicaSpecs"]
    specs = {
        "PyTorchJob": (torch, of_torch),
        "TrainingJob": (horovod, [role["template"]["spec"] for role in roles.values()]),
    }
    for _, pods in specs.values():
        for pod in pods:
            pod["volumes"] = json.loads(json.dumps(VOLUMES))
            pod["containers"][0] |= json.loads(json.dumps(CONTAINER))
            sidecar = {"name": "side", "image": "x:1", "restartPolicy": "Always"}
            pod["initContainers"] = [sidecar | json.loads(json.dumps(CONTAINER))]
    return specs


def objects(job: dict[str, Any], gang: str = "none") -> list[dict[str, Any]]:
    return [dict(one) for one in compiled(job, settings=Settings(gang=gang)).objects]


def hashes(objects: list[dict[str, Any]]) -> set[str]:
    return {one["metadata"]["annotations"][HASH] for one in objects if one["kind"] == "Pod"}


def constants(
    fields: dict[str, Any], at: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The fields of a Pod that have a default, each with that."""
    for name, value in fields.items():
        if not isinstance(value, dict):
            yield (*at, name), value
        elif "computed" not in value:
            yield from constants(value, (*at, name))


def write(value: Any, path: Path, default: Any) -> bool:
    """Write a default wherever a field is that has it, and say whether there is any."""
    if path[0] == "*":
        written = [write(item, path[1:], default) for item in value]
        return any(written)
    if len(path) > 1:
        return path[0] in value and write(value[path[0]], path[1:], default)
    if path[0] in value or (path[0] == "value" and "valueFrom" in value):
        return False
    value[path[0]] = default
    return True


OURS = {"schedulerName", "serviceAccountName", "terminationMessagePolicy"}
"""Fields that etcompile fills in itself, with other values than the API server."""


@pytest.mark.parametrize("gang", ["none", "volcano"])
@pytest.mark.parametrize("kind", ["PyTorchJob", "TrainingJob"])
def test_written_default_is_the_same_run_if_the_pods_are_the_same(kind: str, gang: str) -> None:
    before = objects(jobs()[kind][0], gang)
    seen = set()
    for path, default in constants(table()["defaults"]["Pod"]["spec"]):
        job, pods = jobs()[kind]
        written = [write(pod, path, default) for pod in pods]
        if not all(written):
            continue
        seen.add(path[-1])
        if path[-1] == "schedulerName" and gang != "none":
            continue  # refused: a gang has one
        after = objects(job, gang)
        is_same = hashes(after) == hashes(before)
        assert is_same == (path[-1] not in OURS), path
        for old, new in zip(before, after, strict=True) if is_same else ():
            assert not compared(new, old, None) or old["kind"] == "ConfigMap", path
    assert {"restartPolicy", "dnsPolicy", "protocol", "defaultMode", "scheme", "divisor"} <= seen


@pytest.mark.parametrize(
    ("resource", "spellings"),
    [
        ("cpu", ["4", 4, 4.0, "4000m"]),
        ("memory", ["8Gi", "8192Mi", "8589934592", 8589934592]),
        ("nvidia.com/gpu", [1, "1"]),
    ],
)
def test_quantity_in_another_spelling_is_the_same_run(resource: str, spellings: list[Any]) -> None:
    seen = set()
    for spelling in [*spellings, "3"]:
        job, [pod] = jobs()["PyTorchJob"]
        pod["containers"][0]["resources"]["limits"][resource] = spelling
        seen |= hashes(objects(job))
    assert len(seen) == 2


@pytest.mark.parametrize("empty", [{"args": []}, {"resources": {}}, {"securityContext": {}}])
def test_empty_field_is_the_same_run(empty: dict[str, Any]) -> None:
    job, plain = (kubeflow_job("PyTorchJob", {"Worker": 2}) for _ in range(2))
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0] |= empty
    assert hashes(objects(job)) == hashes(objects(plain))


def test_label_selector_that_is_empty_selects_and_is_another_run() -> None:
    def spread(**fields: Any) -> set[str]:
        job, [pod] = jobs()["PyTorchJob"]
        rule = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        pod["topologySpreadConstraints"] = [{**rule, **fields}]
        return hashes(objects(job))

    assert spread() != spread(labelSelector={})


def test_job_with_equivalent_spelling_renders_the_same_run(tmp_path: pathlib.Path) -> None:
    job, [pod] = jobs()["PyTorchJob"]
    command = ("render", "job.yaml", "-d", "out", "--run", "auto", "-q")
    names = []
    for memory in ("8Gi", "8192Mi", "9Gi"):
        pod["containers"][0]["resources"]["limits"]["memory"] = memory
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        assert commandline.etcompile(*command, cwd=tmp_path).returncode == 0
        text = "".join(path.read_text() for path in sorted((tmp_path / "out").rglob("*.yaml")))
        named = (one.get("metadata") or {} for one in yaml.safe_load_all(text))
        names.append({metadata.get("name") for metadata in named})
    assert names[0] == names[1] != names[2]


quantities = st.builds(
    lambda digits, unit: f"{digits}{unit}",
    st.integers(-5000, 5000) | st.decimals(0, 100, places=3),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "e3", "E-2"]),
)


@given(quantities, quantities)
def test_canonical_quantities_are_equal_if_their_numbers_are(one: str, other: str) -> None:
    assert (canonical(one) == canonical(other)) == (number(one) == number(other))
    assert number(canonical(one) or one) == number(one)
