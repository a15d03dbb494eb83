"""Turn a TFJob (`kubeflow.org/v1`) into a job, with TensorFlow's cluster in TF_CONFIG.

See reference/training-operator-tfjob.md 1 and 2.
"""

import json
from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics import codes, diagnose
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.model import DOMAIN, Bounds, IndexedEnv, Port, Success

_CHIEFS = ("Chief", "Master")
_TYPES = ("Chief", "Evaluator", "Master", "PS", "Worker")
_PORT = 2222
_DYNAMIC = (
    "set spec.enableDynamicWorker, by which a worker knows only itself and the parameter servers"
)
_INDEX = "{index}"  # stands for the index in a TF_CONFIG, which is split there

FRAMEWORK = Framework(
    kind="TFJob",
    types="tfReplicaSpecs",
    roles=_TYPES,
    summary="Training Operator: TensorFlow jobs with workers, chief and parameter servers",
    container="tensorflow",
    port=Port("tfjob-port", _PORT),
    restart="Never",
    any_case=_TYPES,
    elastic="spec.enableDynamicWorker",
    without_trainer="Trainer has no policy for TensorFlow, whose TF_CONFIG names hosts of several"
    " roles",
)


def describe(spec: Spec) -> Described:
    chiefs = tuple(replica.role for name in _CHIEFS if (replica := spec.of(name)))
    dynamic = bool(spec.fields.get("enableDynamicWorker"))
    # A job that is not distributed has no TF_CONFIG (reference 1).
    distributed = spec.total != 1 or dynamic
    roles = []
    for replica in spec.replicas:
        env: tuple[IndexedEnv, ...] = ()
        if distributed:
            config = _config(spec, replica, dynamic=dynamic)
            parts = json.dumps(config, separators=(",", ":")).replace(f'"{_INDEX}!"', _INDEX)
            env = (IndexedEnv("TF_CONFIG", tuple(parts.split(_INDEX))),)
        is_worker = replica.type == "Worker"
        elastic = is_worker and dynamic
        role = framework.role(
            spec,
            replica,
            env,
            master=replica.role in chiefs,
            # Without a chief the first worker is the chief (reference/training-operator.md 2.1).
            first_is_master=not chiefs and is_worker,
            # An elastic job "continues regardless" (reference 2). TensorFlow's server.join()
            # never returns.
            recovery={"vital": not elastic, "serves": replica.type == "PS"},
            bounds=Bounds(quorum=replica.replicas) if elastic else None,
        )
        roles.append(role)
    every = spec.fields.get("successPolicy") == "AllWorkers"
    # See reference 2.
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


def _config(spec: Spec, replica: Replica, *, dynamic: bool) -> Mapping[str, Any]:
    """Return the TF_CONFIG of a replica. It lists all, so a change of any number changes every Pod.

    With dynamic workers, a worker knows itself and the parameter servers, so that workers may come
    and go. The operator lists in a parameter server only itself, from the second on under a wrong
    index, and in a chief or an evaluator nothing (reference/training-operator.md 7, defect 30).
    Here each knows all of its type and the parameter servers.
    """

    def host(peer: Replica, index: str) -> str:
        return f"{spec.name}-{peer.role}-{index}{DOMAIN}:{peer.port}"

    def hosts(peer: Replica) -> list[str]:
        return [host(peer, str(index)) for index in range(peer.replicas)]

    task = {"type": replica.role, "index": f"{_INDEX}!"}
    if not dynamic:
        roles = sorted(spec.replicas, key=lambda peer: peer.role)
        cluster: dict[str, Any] = {peer.role: hosts(peer) for peer in roles}
        return {"cluster": cluster, "task": task, "environment": "cloud"}
    cluster = {"worker": {_INDEX: host(replica, _INDEX)} if replica.type == "Worker" else {}}
    if servers := spec.of("PS"):
        cluster["ps"] = hosts(servers)
    if replica.type not in ("Worker", "PS"):
        cluster[replica.role] = hosts(replica)
    return {"cluster": cluster, "task": task}


KINDS = (framework.kind(FRAMEWORK, describe),)
