"""TFJob (`kubeflow.org/v1`) to a job: TensorFlow's own cluster description in TF_CONFIG.

reference/training-operator-tfjob.md 1 and 2.
"""

import json
from collections.abc import Mapping
from typing import Any

from msgspec import structs

from etcompile.diagnostics import codes, diagnose
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.model import DOMAIN, Bounds, IndexedEnv, Port, Role, Success

_CHIEFS = ("Chief", "Master")
_TYPES = ("Chief", "Evaluator", "Master", "PS", "Worker")
_PORT = 2222
_DYNAMIC = (
    "set spec.enableDynamicWorker, by which a worker knows only itself and the parameter servers"
)
_INDEX = "{index}"
"""Stands for the index in a TF_CONFIG, until it is cut there."""

FRAMEWORK = Framework(
    kind="TFJob",
    types="tfReplicaSpecs",
    roles=_TYPES,
    operator="tfjob-controller",
    schema="TFJob.json",
    summary="Training Operator: TensorFlow jobs with workers, chief and parameter servers",
    container="tensorflow",
    port=Port("tfjob-port", _PORT),
    restart="Never",
    any_case=_TYPES,
    elastic="spec.enableDynamicWorker",
)


def describe(spec: Spec) -> Described:
    """The roles of a TFJob, each with its TF_CONFIG."""
    chiefs = tuple(replica.role for name in _CHIEFS if (replica := spec.of(name)))
    dynamic = bool(spec.fields.get("enableDynamicWorker"))
    # TensorFlow wants no TF_CONFIG in a job that is not distributed (reference 1).
    distributed = spec.total != 1 or dynamic
    roles = []
    for replica in spec.replicas:
        env: tuple[IndexedEnv, ...] = ()
        if distributed:
            config = _sparse(spec, replica) if dynamic else _dense(spec, replica)
            parts = json.dumps(config, separators=(",", ":")).replace(f'"{_INDEX}!"', _INDEX)
            env = (IndexedEnv("TF_CONFIG", tuple(parts.split(_INDEX))),)
        roles.append(_role(spec, replica, chiefs, env))
    every = spec.fields.get("successPolicy") == "AllWorkers"
    # Who decides that the run is done (reference 2).
    success = Success(chiefs) if chiefs else Success(("worker",), "all" if every else "first")
    types, problems = ("spec", FRAMEWORK.types), []
    if len(chiefs) > 1:
        problems.append(diagnose(codes.TWO_CHIEFS, spec.source.locate(types, key=True)))
    if not chiefs and spec.of("Worker") is None:
        place = spec.source.locate(types, key=True)
        problems.append(diagnose(codes.NEVER_SUCCEEDS, place, job=spec.name))
    return Described(
        roles=tuple(roles),
        success=success,
        changes={
            "names_namespace": "TF_CONFIG names hosts with theirs" if distributed else None,
            "names_fewer": None if dynamic else _DYNAMIC,
        },
        diagnostics=tuple(problems),
    )


def _role(
    spec: Spec, replica: Replica, chiefs: tuple[str, ...], env: tuple[IndexedEnv, ...]
) -> Role:
    is_worker = replica.type == "Worker"
    role = framework.role(
        spec,
        replica,
        env,
        master=replica.role in chiefs,
        # Without a chief the first worker is one (reference/training-operator.md 2.1).
        first_is_master=not chiefs and is_worker,
    )
    elastic = is_worker and bool(spec.fields.get("enableDynamicWorker"))
    return structs.replace(
        role,
        bounds=Bounds(quorum=replica.replicas) if elastic else None,
        recovery=structs.replace(
            role.recovery,
            # The job "continues regardless" (reference 2).
            vital=not elastic,
            # TensorFlow's server.join() never returns.
            serves=replica.type == "PS",
        ),
    )


def _hosts(spec: Spec, replica: Replica) -> list[str]:
    return [_host(spec, replica, str(index)) for index in range(replica.replicas)]


def _host(spec: Spec, replica: Replica, index: str) -> str:
    return f"{spec.name}-{replica.role}-{index}{DOMAIN}:{replica.port}"


def _dense(spec: Spec, replica: Replica) -> Mapping[str, Any]:
    """Everybody knows everybody; a change of any number changes every Pod."""
    roles = sorted(spec.replicas, key=lambda peer: peer.role)
    return {
        "cluster": {peer.role: _hosts(spec, peer) for peer in roles},
        "task": {"type": replica.role, "index": f"{_INDEX}!"},
        "environment": "cloud",
    }


def _sparse(spec: Spec, replica: Replica) -> Mapping[str, Any]:
    """A worker knows itself and the parameter servers, so that workers may come and go.

    The operator tells a parameter server only of itself, under a wrong index from the second on,
    and a chief or an evaluator of nobody (reference/training-operator.md 7, defect 30); here
    each knows all of its own type and the parameter servers.
    """
    worker = {_INDEX: _host(spec, replica, _INDEX)} if replica.type == "Worker" else {}
    cluster: dict[str, Any] = {"worker": worker}
    if servers := spec.of("PS"):
        cluster["ps"] = _hosts(spec, servers)
    if replica.type not in ("Worker", "PS"):
        cluster[replica.role] = _hosts(spec, replica)
    return {"cluster": cluster, "task": {"type": replica.role, "index": f"{_INDEX}!"}}


KINDS = (framework.kind(FRAMEWORK, describe),)
