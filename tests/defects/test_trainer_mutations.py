"""Whatever stands in a runtime or in a TrainJob, it compiles or is told of: never a traceback."""

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

import etcompile
from defects.test_trainer import job, mpi, patch, runtime, with_data

WRONG: list[Any] = [None, [], {}, "x", 3, [None], [{}], {"a": 1}, [{"name": 3}], True]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    entries: Any = value.items() if isinstance(value, dict) else ()
    for key, inner in enumerate(value) if isinstance(value, list) else entries:
        yield (*path, key)
        yield from paths(inner, (*path, key))


def rich(value: dict[str, Any]) -> dict[str, Any]:
    """A runtime whose Pod templates have all that a merge looks at."""
    topology = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "topology.kubernetes.io/zone"}
    value["spec"]["template"]["metadata"] = {"annotations": topology}
    for replicated in value["spec"]["template"]["spec"]["replicatedJobs"]:
        pod = replicated["template"]["spec"]["template"]["spec"]
        pod["volumes"] = [{"name": "v", "emptyDir": {}}]
        env = [{"name": "A", "value": "b"}]
        pod["initContainers"] = [{"name": "i", "image": "example.com/a:1", "env": env}]
        main = pod["containers"][0]
        main |= {
            "env": [{"name": "A", "value": "b"}],
            "ports": [{"containerPort": 80, "name": "p"}],
            "readinessProbe": {"tcpSocket": {"port": "p"}},
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            "envFrom": [{"secretRef": {"name": "x"}}],
        }
        main.setdefault("volumeMounts", []).append({"name": "v", "mountPath": "/v"})
        required = {"requiredDuringSchedulingIgnoredDuringExecution": []}
        pod["affinity"] = {"podAffinity": required}
        replicated["template"]["spec"]["template"]["metadata"] = {"labels": {"a": "b"}}
    return value


def detailed_job(*, fetches: bool) -> dict[str, Any]:
    data = {"storageUri": "hf://a/b", "env": [{"name": "Z", "value": "1"}]}
    change = patch(
        volumes=[{"name": "n", "emptyDir": {}}],
        containers=[{"name": "node", "volumeMounts": [{"name": "n", "mountPath": "/n"}]}],
        initContainers=[{"name": "i", "env": [{"name": "A", "value": "c"}]}],
    )
    trainer = {"numNodes": 2, "env": [{"name": "Q", "value": "1"}]}
    more = {"initializer": {"dataset": {**data, "secretRef": {"name": "s"}}}} if fetches else {}
    return job(trainer=trainer, runtimePatches=[change], **more)


def changed(value: dict[str, Any], choice: random.Random) -> None:
    """Changes one part of a document's spec, or takes it away."""
    path = choice.choice([*paths(value["spec"])])
    inner: Any = value["spec"]
    for step in path[:-1]:
        inner = inner[step]
    if choice.random() < 0.3:
        del inner[path[-1]]
    else:
        inner[path[-1]] = copy.deepcopy(choice.choice(WRONG))


@pytest.mark.parametrize("seed", range(40))
def test_mutated_job_compiles_or_has_diagnostics(seed: int) -> None:
    choice = random.Random(seed)
    for make in (runtime, mpi, with_data):
        custom, wanted = rich(make()), detailed_job(fetches=make is with_data)
        for _ in range(choice.choice([1, 1, 2])):
            changed(choice.choice([custom, custom, wanted]), choice)
        compilation = etcompile.compile([custom, wanted])
        assert compilation.ok or compilation.diagnostics
