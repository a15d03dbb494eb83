"""A TrainJob whose patches or runtime have odd parts compiles or is refused: never a traceback."""

import copy
import functools
import operator
import random
from typing import Any

import pytest

import etcompile
from defects.test_trainer import job, mpi, patch, runtime, with_data
from mutations.odd import ODD, paths


def rich(value: dict[str, Any]) -> dict[str, Any]:
    """A runtime whose Pod templates have all that a merge reads."""
    topology = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "topology.kubernetes.io/zone"}
    value["spec"]["template"]["metadata"] = {"annotations": topology}
    env = [{"name": "A", "value": "b"}]
    for replicated in value["spec"]["template"]["spec"]["replicatedJobs"]:
        template = replicated["template"]["spec"]["template"]
        template["metadata"] = {"labels": {"a": "b"}}
        template["spec"] |= {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "initContainers": [{"name": "i", "image": "example.com/a:1", "env": env}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}},
        }
        main = template["spec"]["containers"][0]
        main |= {
            "env": env,
            "ports": [{"containerPort": 80, "name": "p"}],
            "readinessProbe": {"tcpSocket": {"port": "p"}},
            "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            "envFrom": [{"secretRef": {"name": "x"}}],
        }
        main.setdefault("volumeMounts", []).append({"name": "v", "mountPath": "/v"})
    return copy.deepcopy(value)


def patched_job(*, fetches: bool) -> dict[str, Any]:
    change = patch(
        volumes=[{"name": "n", "emptyDir": {}}],
        containers=[{"name": "node", "volumeMounts": [{"name": "n", "mountPath": "/n"}]}],
        initContainers=[{"name": "i", "env": [{"name": "A", "value": "c"}]}],
    )
    env = [{"name": "Q", "value": "1"}]
    data = {"storageUri": "hf://a/b", "env": env, "secretRef": {"name": "s"}}
    more = {"initializer": {"dataset": data}} if fetches else {}
    return job(trainer={"numNodes": 2, "env": env}, runtimePatches=[change], **more)


@pytest.mark.parametrize("seed", range(40))
def test_mutated_runtime_or_patched_job_compiles_or_has_diagnostics(seed: int) -> None:
    dice = random.Random(seed)
    for make in (runtime, mpi, with_data):
        documents = [rich(make()), copy.deepcopy(patched_job(fetches=make is with_data))]
        for _ in range(dice.choice([1, 1, 2])):
            spec = dice.choice([documents[0], *documents])["spec"]
            *steps, last = dice.choice([*paths(spec)])
            inner = functools.reduce(operator.getitem, steps, spec)
            if dice.random() < 0.3:
                del inner[last]
            else:
                inner[last] = copy.deepcopy(dice.choice(ODD))
        compilation = etcompile.compile(documents)
        assert compilation.ok or compilation.diagnostics
