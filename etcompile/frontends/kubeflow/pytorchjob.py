"""Turn a PyTorchJob (`kubeflow.org/v1`) into a job: with a master, a first worker, or elastic.

See reference/training-operator-pytorchjob.md.
"""

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends import hosts
from etcompile.frontends.annotations import FLAG, GATED, gate_timeout
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.k8s.requests import devices
from etcompile.launch.launchers import command_words
from etcompile.launch.shell import whole_number
from etcompile.model import Bounds, Env, IndexedEnv, Origin, Port, Success, Variable

_GATED = "etcompile.dev/wait-for-master"
_ADDRESSES = frozenset(
    (
        *("MASTER_PORT", "PET_MASTER_PORT", "MASTER_ADDR", "PET_MASTER_ADDR"),
        *("WORLD_SIZE", "RANK", "PET_NODE_RANK"),
    )
)
_OF_POLICY = {
    "maxRestarts": "PET_MAX_RESTARTS",
    "nProcPerNode": "PET_NPROC_PER_NODE",
    "rdzvId": "PET_RDZV_ID",
}
"""Fields of the policy whose values are variables."""

FRAMEWORK = Framework(
    kind="PyTorchJob",
    types="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    summary="Training Operator: PyTorch jobs, also elastic ones",
    container="pytorch",
    port=Port("pytorchjob-port", 23456),
    restart="OnFailure",
    annotations={_GATED: FLAG, **GATED},
    elastic="spec.elasticPolicy",
    trainer="torch",
)


def describe(spec: Spec) -> Described:
    gated = spec.of("Master") is not None and spec.annotation(_GATED) != "false"
    elastic = spec.fields.get("elasticPolicy")
    # See reference 5.
    success = Success(("worker",), "all" if elastic is None else "any")
    roles = []
    for replica in spec.replicas:
        is_worker = replica.type == "Worker"
        changes: dict[str, Any] = {}
        if is_worker and gated:
            timeout = gate_timeout(spec.source)
            changes["additions"] = {"gate": hosts.peer_gate("master", timeout, name="init-pytorch")}
        if is_worker and elastic is not None:
            # If one of the two is missing, messages name the other one.
            both = ("minReplicas", "maxReplicas")
            named = [name for name in both if name in elastic]
            least, most = named * 2 if len(named) == 1 else both
            absent = "".join({*both} - {*named}) if len(named) == 1 else ""
            names = (f"elasticPolicy.{least}", f"elasticPolicy.{most}")
            missing = f"elasticPolicy.{absent}" if absent else ""
            place = structs.replace(replica.origin, path=("spec", "elasticPolicy"))
            changes["bounds"] = Bounds(*_range(spec), place, names, missing=missing)
            if "rdzvHost" not in elastic:
                changes["anchored"] = (1, "it holds the rendezvous of all others")
        role = framework.role(
            spec,
            replica,
            tuple(_variables(spec, replica)),
            master=not is_worker,
            first_is_master=is_worker and spec.of("Master") is None,
            **changes,
        )
        roles.append(role)
    return Described(
        roles=tuple(roles),
        success=Success(("master",)) if spec.of("Master") else success,
        changes={"host_lists": (hosts.peer_list("master"),)} if gated else {},
        diagnostics=tuple(_problems(spec)),
        # A replica that restarts joins the next round of torchrun's rendezvous.
        each=None if elastic is None else tuple(role.name for role in roles),
    )


def _range(spec: Spec) -> tuple[int, int]:
    """Return the fewest and the most nodes; one gives both, none the workers (reference 1.3)."""
    elastic, worker = spec.fields.get("elasticPolicy") or {}, spec.of("Worker")
    limits = [elastic.get("minReplicas"), elastic.get("maxReplicas")]
    named = [limit for limit in limits if limit is not None] or [worker.replicas if worker else 0]
    return named[0], named[-1]


def _variables(spec: Spec, replica: Replica) -> Iterator[Variable]:
    elastic = spec.fields.get("elasticPolicy")
    processes = str(spec.fields.get("nprocPerNode") or "auto")
    yield Env("PYTHONUNBUFFERED", "1", default=True)
    # Workers without a master do not get the address of rank 0 and their rank from the operator
    # (reference/training-operator.md 7, defect 35). Here the first worker is their master, unless
    # the job is elastic or the template sets one of these variables.
    master = spec.of("Master")
    first = master or replica
    names = {env["name"] for env in replica.template.main_container.get("env", ())}
    if master is not None or not (elastic is not None or names & _ADDRESSES):
        default = master is None
        address, number = spec.host(first.role, 0), str(first.port)
        before = first.replicas if first.type != replica.type else 0
        count = whole_number(processes)
        world = spec.total * (1 if count is None else count)
        yield Env("MASTER_PORT", number, default=default)
        yield Env("PET_MASTER_PORT", number, default=default)
        yield Env("MASTER_ADDR", address, default=default)
        yield Env("PET_MASTER_ADDR", address, default=default)
        yield Env("WORLD_SIZE", str(world), default=default)
        yield IndexedEnv("RANK", ("", ""), before, default)
        yield IndexedEnv("PET_NODE_RANK", ("", ""), before, default)
    if elastic is None or "nProcPerNode" not in elastic:
        yield Env("PET_NPROC_PER_NODE", processes)
    if elastic is None:
        yield Env("PET_NNODES", str(spec.total))
        return
    worker = spec.of("Worker")
    host = elastic.get("rdzvHost") or spec.host("worker", 0)
    port = elastic.get("rdzvPort") or (worker.port if worker else "")
    low, high = _range(spec)
    yield Env("PET_RDZV_ENDPOINT", f"{host}:{port}")
    yield Env("PET_RDZV_BACKEND", elastic.get("rdzvBackend") or "c10d")
    yield Env("PET_NNODES", f"{low}:{high}")
    for field, name in _OF_POLICY.items():
        if (value := elastic.get(field)) is not None:
            yield Env(name, str(value))
    # An empty list stops the operator (defect 34), an empty PET_STANDALONE torchrun (defect 33).
    if pairs := elastic.get("rdzvConf"):
        text = ",".join(f"{pair.get('key', '')}={pair.get('value', '')}" for pair in pairs)
        yield Env("PET_RDZV_CONF", text)
    if elastic.get("standalone"):
        yield Env("PET_STANDALONE", "1")


def _problems(spec: Spec) -> Iterator[Diagnostic]:
    origin = Origin(spec.source, ("spec", "elasticPolicy"))
    policy: dict[str, Any] = spec.fields.get("elasticPolicy") or {}
    if policy.get("metrics"):
        place = origin.locate("metrics", key=True)
        yield diagnose(codes.NO_AUTOSCALING, place, job=spec.name)
    if "nProcPerNode" in policy:
        place = origin.locate("nProcPerNode", key=True)
        names = {"where": "spec.elasticPolicy.nProcPerNode", "instead": "spec.nprocPerNode"}
        yield diagnose(codes.DEPRECATED_FIELD, place, **names)
    elif (spec.fields.get("nprocPerNode") or "auto") == "auto":
        # Torchrun's `auto` starts a process for each processor of the node (defect 36).
        for replica in spec.replicas:
            main = replica.template.main_container
            words = " ".join(command_words(main))
            runs = "torchrun" in words or "torch.distributed.run" in words
            claims = main.get("resources", {}).get("claims")
            if runs and "nproc" not in words and not (claims or devices(main, counted=True)):
                place = replica.origin.locate(key=True)
                yield diagnose(codes.PROCESS_PER_PROCESSOR, place, where=replica.type)
                break
    # A rendezvous without other workers: torchrun's own, or an etcd that does not exist.
    high, backend = _range(spec)[1], str(policy.get("rdzvBackend") or "")
    rows: list[tuple[str | None, bool, str, str, str]] = []
    if spec.of("Master") and policy and high < spec.total:
        field = next((name for name in ("maxReplicas", "minReplicas") if name in policy), None)
        reason = f"with the Master {spec.total} torchruns start, and {high} may meet"
        advice = f"remove the Master, or set maxReplicas to {spec.total}"
        rows.append((field, field is None, "maxReplicas", reason, advice))
    if policy.get("standalone") and high > 1:
        reason = f"each trains by itself, and there may be {high}"
        advice = "remove it; it is for a job of one worker"
        rows.append(("standalone", True, "standalone", reason, advice))
    if backend.startswith("etcd") and not policy.get("rdzvHost"):
        reason = f"worker 0 does not serve {backend}"
        advice = "name the etcd in rdzvHost and rdzvPort, or use c10d"
        rows.append(("rdzvBackend", False, "rdzvBackend", reason, advice))
    for at, key, name, reason, advice in rows:
        where = origin.locate(*([at] if at else []), key=key)
        facts = {"field": name, "reason": reason, "advice": advice}
        yield diagnose(codes.NO_RENDEZVOUS, where, **facts)


KINDS = (framework.kind(FRAMEWORK, describe),)
