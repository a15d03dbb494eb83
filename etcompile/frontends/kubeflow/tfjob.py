"""TFJob (`kubeflow.org/v1`) to a job: TensorFlow's own cluster description in TF_CONFIG.

reference/training-operator-tfjob.md 1 and 2.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
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
    return Described(
        roles=tuple(_role(spec, replica, chiefs, dynamic) for replica in spec.replicas),
        success=_success(spec, chiefs),
        changes={
            "names_namespace": "TF_CONFIG names hosts with theirs" if _needs(spec) else None,
            "names_fewer": None if dynamic else _DYNAMIC,
        },
        diagnostics=tuple(_problems(spec, chiefs)),
    )


def _role(spec: Spec, replica: Replica, chiefs: tuple[str, ...], dynamic: bool) -> Role:  # noqa: FBT001
    role = framework.role(
        spec,
        replica,
        _variables(spec, replica, dynamic),
        master=replica.role in chiefs,
        # Without a chief the first worker is one (reference/training-operator.md 2.1).
        first_is_master=not chiefs and replica.type == "Worker",
    )
    elastic = dynamic and replica.type == "Worker"
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


def _needs(spec: Spec) -> bool:
    """Whether the job is distributed; else TensorFlow wants no TF_CONFIG (reference 1)."""
    return spec.total != 1 or bool(spec.fields.get("enableDynamicWorker"))


def _variables(spec: Spec, replica: Replica, dynamic: bool) -> tuple[IndexedEnv, ...]:  # noqa: FBT001
    if not _needs(spec):
        return ()
    config = _sparse(spec, replica) if dynamic else _dense(spec, replica)
    text = json.dumps(config, separators=(",", ":"))
    return (IndexedEnv("TF_CONFIG", tuple(text.replace(f'"{_INDEX}!"', _INDEX).split(_INDEX))),)


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
    servers = spec.of("PS")
    worker: dict[str, str] = {}
    if replica.type == "Worker":
        worker = {_INDEX: _host(spec, replica, _INDEX)}
    cluster: dict[str, Any] = {"worker": worker}
    if servers:
        cluster["ps"] = _hosts(spec, servers)
    if replica.type not in ("Worker", "PS"):
        cluster[replica.role] = _hosts(spec, replica)
    return {"cluster": cluster, "task": {"type": replica.role, "index": f"{_INDEX}!"}}


def _success(spec: Spec, chiefs: tuple[str, ...]) -> Success:
    """Who decides that the run is done (reference 2)."""
    if chiefs:
        return Success(chiefs)
    every = spec.fields.get("successPolicy") == "AllWorkers"
    return Success(("worker",), "all" if every else "first")


def _problems(spec: Spec, chiefs: tuple[str, ...]) -> Iterator[Diagnostic]:
    place = partial(spec.source.locate, ("spec", FRAMEWORK.types), key=True)
    if len(chiefs) > 1:
        yield diagnose(codes.TWO_CHIEFS, place())
    if not chiefs and spec.of("Worker") is None:
        yield diagnose(codes.NEVER_SUCCEEDS, place(), job=spec.name)


KINDS = (framework.kind(FRAMEWORK, describe),)
