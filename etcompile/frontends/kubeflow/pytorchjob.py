"""PyTorchJob (`kubeflow.org/v1`) to a job: a rendezvous by master, by first worker, or elastic.

reference/training-operator-pytorchjob.md.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends import hosts
from etcompile.frontends.annotations import GATE_TIMEOUT, gate_timeout
from etcompile.frontends.kubeflow import framework
from etcompile.frontends.kubeflow.framework import Described, Framework, Replica, Spec
from etcompile.frontends.notes import unused
from etcompile.launch.commands import command_words
from etcompile.model import Bounds, Env, IndexedEnv, Port, Role, Success, Variable
from etcompile.model.gpus import gpus
from etcompile.model.quantity import whole_number

_GATED = "etcompile.dev/wait-for-master"
_ADDRESSES = frozenset(
    (
        *("MASTER_PORT", "PET_MASTER_PORT", "MASTER_ADDR", "PET_MASTER_ADDR"),
        *("WORLD_SIZE", "RANK", "PET_NODE_RANK"),
    )
)

FRAMEWORK = Framework(
    kind="PyTorchJob",
    types="pytorchReplicaSpecs",
    roles=("Master", "Worker"),
    operator="pytorchjob-controller",
    schema="PyTorchJob.json",
    summary="Training Operator: PyTorch jobs, also elastic ones",
    container="pytorch",
    port=Port("pytorchjob-port", 23456),
    restart="OnFailure",
    annotations=(GATE_TIMEOUT,),
    flags=(_GATED,),
    elastic="spec.elasticPolicy",
)


def describe(spec: Spec) -> Described:
    """The roles of a PyTorchJob."""
    timeout, problems = gate_timeout(spec.source)
    gated = spec.of("Master") is not None and spec.annotation(_GATED) != "false"
    return Described(
        roles=tuple(_role(spec, replica, timeout if gated else None) for replica in spec.replicas),
        success=_success(spec),
        changes={"host_lists": (hosts.peer_list("master"),)} if gated else {},
        diagnostics=(*problems, *_problems(spec)),
        # A rendezvous of torchrun has its own rounds: who comes back joins the next.
        each=None if _elastic(spec) is None else tuple(replica.role for replica in spec.replicas),
    )


def _role(spec: Spec, replica: Replica, timeout: int | None) -> Role:
    is_worker = replica.type == "Worker"
    role = framework.role(
        spec,
        replica,
        tuple(_variables(spec, replica)),
        master=not is_worker,
        first_is_master=is_worker and spec.of("Master") is None,
    )
    gate = None
    if timeout is not None and is_worker:
        gate = hosts.peer_gate("master", timeout, "init-pytorch")
    elastic = _elastic(spec)
    return structs.replace(
        role,
        additions=structs.replace(role.additions, gate=gate),
        bounds=_bounds(spec, replica) if is_worker else None,
        anchored=(1, "it holds the rendezvous of all others")
        if is_worker and elastic is not None and "rdzvHost" not in elastic
        else None,
    )


def _elastic(spec: Spec) -> Mapping[str, Any] | None:
    elastic: Mapping[str, Any] | None = spec.fields.get("elasticPolicy")
    return elastic


def _range(spec: Spec) -> tuple[int, int]:
    """The fewest and the most nodes: one stands for both, none for the workers (reference 1.3)."""
    elastic, worker = _elastic(spec) or {}, spec.of("Worker")
    replicas = worker.replicas if worker else 0
    low: int | None = elastic.get("minReplicas")
    high: int | None = elastic.get("maxReplicas")
    if low is None:
        low = replicas if high is None else high
    return low, low if high is None else high


def _bounds(spec: Spec, replica: Replica) -> Bounds | None:
    if _elastic(spec) is None:
        return None
    low, high = _range(spec)
    place = structs.replace(replica.origin, path=("spec", "elasticPolicy"))
    given = _elastic(spec) or {}
    # One that is not there is as the other: a message names the one that is.
    both = ("minReplicas", "maxReplicas")
    named = [name for name in both if name in given]
    least, most = named * 2 if len(named) == 1 else both
    return Bounds(low, high, place, (f"elasticPolicy.{least}", f"elasticPolicy.{most}"))


# Variables --------------------------------------------------------------------------------------


def _variables(spec: Spec, replica: Replica) -> Iterator[Variable]:
    """The variables of reference 1, in its order."""
    yield Env("PYTHONUNBUFFERED", "1")
    yield from _addresses(spec, replica)
    elastic = _elastic(spec)
    if elastic is None or "nProcPerNode" not in elastic:
        yield Env("PET_NPROC_PER_NODE", _processes(spec))
    if elastic is None:
        yield Env("PET_NNODES", str(spec.total))
    else:
        yield from _rendezvous(spec, elastic)


def _processes(spec: Spec) -> str:
    return str(spec.fields.get("nprocPerNode") or "auto")


def _addresses(spec: Spec, replica: Replica) -> Iterator[Variable]:
    """Where rank 0 is, and who one is oneself.

    Workers without a master do not get these from the operator (reference/training-operator.md
    7, defect 35). Here the first worker is their master, unless the job is elastic or the
    template says itself who it is.
    """
    master = spec.of("Master")
    first = master or replica
    given = {env["name"] for env in replica.template.main_container.get("env", ())}
    if master is None and (_elastic(spec) is not None or given & _ADDRESSES):
        return
    default = master is None
    host, port = spec.host(first.role, 0), str(first.port)
    before = first.replicas if first.type != replica.type else 0
    count = whole_number(_processes(spec))
    world = spec.total * (1 if count is None else count)
    yield Env("MASTER_PORT", port, default=default)
    yield Env("PET_MASTER_PORT", port, default=default)
    yield Env("MASTER_ADDR", host, default=default)
    yield Env("PET_MASTER_ADDR", host, default=default)
    yield Env("WORLD_SIZE", str(world), default=default)
    yield IndexedEnv("RANK", ("", ""), before, default)
    yield IndexedEnv("PET_NODE_RANK", ("", ""), before, default)


def _rendezvous(spec: Spec, elastic: Mapping[str, Any]) -> Iterator[Variable]:
    worker = spec.of("Worker")
    host = elastic.get("rdzvHost") or spec.host("worker", 0)
    port = elastic.get("rdzvPort") or (worker.port if worker else "")
    low, high = _range(spec)
    yield Env("PET_RDZV_ENDPOINT", f"{host}:{port}")
    yield Env("PET_RDZV_BACKEND", elastic.get("rdzvBackend") or "c10d")
    yield Env("PET_NNODES", f"{low}:{high}")
    if (restarts := elastic.get("maxRestarts")) is not None:
        yield Env("PET_MAX_RESTARTS", str(restarts))
    if (processes := elastic.get("nProcPerNode")) is not None:
        yield Env("PET_NPROC_PER_NODE", str(processes))
    if (name := elastic.get("rdzvId")) is not None:
        yield Env("PET_RDZV_ID", name)
    # An empty list stops the operator (defect 34), an empty PET_STANDALONE torchrun (defect 33).
    if pairs := elastic.get("rdzvConf"):
        text = ",".join(f"{pair.get('key', '')}={pair.get('value', '')}" for pair in pairs)
        yield Env("PET_RDZV_CONF", text)
    if elastic.get("standalone"):
        yield Env("PET_STANDALONE", "1")


# The rest ---------------------------------------------------------------------------------------


def _success(spec: Spec) -> Success:
    """Who decides that the run is done (reference 5)."""
    if spec.of("Master"):
        return Success(("master",))
    return Success(("worker",), "all" if _elastic(spec) is None else "any")


def _problems(spec: Spec) -> Iterator[Diagnostic]:
    policy = ("spec", "elasticPolicy")
    elastic = _elastic(spec) or {}
    if "nProcPerNode" in elastic:
        place = spec.source.locate((*policy, "nProcPerNode"), key=True)
        if "nprocPerNode" in spec.fields:
            yield diagnose(codes.PROCESSES_TWICE, place)
        else:
            reason = "it is deprecated; its value is used"
            yield unused(place, "spec.elasticPolicy.nProcPerNode", reason, "use spec.nprocPerNode")
    if elastic.get("metrics"):
        place = spec.source.locate((*policy, "metrics"), key=True)
        yield diagnose(codes.NO_AUTOSCALING, place, job=spec.name)
    yield from _alone(spec)
    yield from _per_processor(spec)


def _alone(spec: Spec) -> Iterator[Diagnostic]:
    """A rendezvous where no other worker is: torchrun's own, or at an etcd that nobody runs."""
    elastic = _elastic(spec) or {}
    place = ("spec", "elasticPolicy")
    if spec.of("Master") and elastic and (high := _range(spec)[1]) < spec.total:
        at = next((name for name in ("maxReplicas", "minReplicas") if name in elastic), None)
        facts = {
            "field": "maxReplicas",
            "reason": f"with the Master {spec.total} torchruns start, and {high} may meet",
            "advice": f"remove the Master, or set maxReplicas to {spec.total}",
        }
        where = spec.source.locate((*place, at) if at else place, key=at is None)
        yield diagnose(codes.NO_RENDEZVOUS, where, **facts)
    if elastic.get("standalone") and (high := _range(spec)[1]) > 1:
        facts = {
            "field": "standalone",
            "reason": f"each trains by itself, and there may be {high}",
            "advice": "remove it; it is for a job of one worker",
        }
        yield diagnose(
            codes.NO_RENDEZVOUS, spec.source.locate((*place, "standalone"), key=True), **facts
        )
    backend = elastic.get("rdzvBackend") or ""
    if backend.startswith("etcd") and not elastic.get("rdzvHost"):
        facts = {
            "field": "rdzvBackend",
            "reason": f"worker 0 does not serve {backend}",
            "advice": "name the etcd in rdzvHost and rdzvPort, or use c10d",
        }
        yield diagnose(codes.NO_RENDEZVOUS, spec.source.locate((*place, "rdzvBackend")), **facts)


def _per_processor(spec: Spec) -> Iterator[Diagnostic]:
    """Torchrun's `auto` is a process for each processor of the node, not of the Pod (defect 36)."""
    given = _elastic(spec) or {}
    if "nProcPerNode" in given or _processes(spec) != "auto":
        return
    for replica in spec.replicas:
        main = replica.template.main_container
        words = " ".join(command_words(main))
        runs = "torchrun" in words or "torch.distributed.run" in words
        if runs and "nproc" not in words and not gpus(main, slices=True):
            yield diagnose(
                codes.PROCESS_PER_PROCESSOR, replica.origin.locate(key=True), where=replica.type
            )
            return


KINDS = (framework.kind(FRAMEWORK, describe),)
