"""A type of an ElasticJob as a role: what its Pods are called, carry and know (reference 3).

The same for workers that meet at a master and for parameter servers without one; what only one of
the strategies has is added there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.dlrover import elastic_spec
from etcompile.frontends.dlrover.elastic_spec import Spec
from etcompile.frontends.dlrover.master import option
from etcompile.frontends.document_parts import pod_template
from etcompile.frontends.notes import no_effect
from etcompile.model import (
    Env,
    FieldEnv,
    IndexedEnv,
    Member,
    Naming,
    PodAdditions,
    PodTemplate,
    Port,
    Priority,
    Recovery,
    Relaunch,
    Role,
    RoleLabels,
    Variable,
)

_PORTS = {"ps": 2222}
_PORT = 3333
_RELAUNCHES, _MOST_RELAUNCHES = 3, 5
_PENDING = 900
"""Seconds: a constant of the master's, whatever `pending_timeout` says (reference 4.3)."""
_TOLERANCE: dict[str, Literal["any", "minimum", "never"]] = {
    "-1": "never",
    "0": "never",
    "1": "minimum",
    "2": "any",
}
"""What `pending_fail_strategy` says: disabled, skip, necessary, all."""
KILLED = (137, 143)
"""Exit codes of who was killed, which is nobody's fault (reference 4.2)."""
OUT_OF_MEMORY = ("OOMKilled", 247)
FATAL = (1, 134)


def host(spec: Spec, name: str, rank: int) -> str:
    """The bare name of a replica's host."""
    return f"{elastic_spec.pod_stem(spec.name, name)}-{rank}"


def port(name: str) -> int:
    """The port of a type's Services."""
    return _PORTS.get(name, _PORT)


def role(spec: Spec, name: str, count: int, env: Sequence[Variable], *, like: str = "") -> Role:
    """A type's role.

    Args:
        spec: The ElasticJob, read.
        name: The key of the type in `replicaSpecs`: `worker`, `ps`, `chief`, `evaluator`.
        count: How many replicas it begins with.
        env: The variables of its main container (`variables`).
        like: The type whose template it has, if not its own.
    """
    own = like or name
    return Role(
        name=name,
        naming=Naming(stem=elastic_spec.pod_stem(spec.name, name), stable_address=True),
        labels=RoleLabels(
            common={elastic_spec.TYPE_LABEL: name},
            objects=elastic_spec.APP,
            index=elastic_spec.INDEX_LABEL,
            rank=elastic_spec.RANK_LABEL,
            relaunch=elastic_spec.RELAUNCH_LABEL,
        ),
        members=tuple(Member(index) for index in range(count)),
        template=_template(spec, own),
        origin=spec.origin(own),
        ports=(Port("grpc", port(name)),),
        additions=PodAdditions(env=tuple(env), run_once=True, priority=_priority(spec, own, count)),
        recovery=Recovery(restart="OnFailure"),
    )


def variables(spec: Spec, name: str, count: int, *, master: bool) -> Iterator[Variable]:
    """The variables of a type's main container, in upstream's order (reference 3.2).

    `JOB_UID` is not among them: only a cluster knows it, and agents do without.

    Args:
        spec: The ElasticJob, read.
        name: The key of the type in `replicaSpecs`.
        count: How many replicas there are of it.
        master: Whether the job has a master, which they are told the address of.
    """
    # As the document says it, and not as scaling leaves it: running Pods must not change.
    nodes = str(spec.replicas("worker") or count)
    yield FieldEnv("POD_IP", "status.podIP")
    yield FieldEnv("NODE_IP", "status.hostIP")
    yield Env("ELASTIC_JOB_NAME", spec.name)
    yield Env("GRPC_ENABLE_FORK_SUPPORT", "false")
    yield Env("NODE_TYPE", name)
    yield IndexedEnv("NODE_ID", ("", ""))
    yield Env("NODE_NUM", nodes)
    yield IndexedEnv("NODE_RANK", ("", ""), rank=True)
    if spec.is_allreduce:
        yield Env("WORLD_SIZE", nodes)
        yield IndexedEnv("RANK", ("", ""), rank=True)
    yield Env("WORKER_TYPE", name)
    yield IndexedEnv("WORKER_ID", ("", ""))
    yield Env("WORKER_NUM", nodes)
    yield IndexedEnv("WORKER_RANK", ("", ""), rank=True)
    if master:
        address = f"{elastic_spec.master_name(spec.name)}:{elastic_spec.MASTER_PORT}"
        yield Env("DLROVER_MASTER_ADDR", address)
        if spec.version >= (0, 5):
            kind = option(spec, "service_type", "grpc")
            yield Env("DLROVER_MASTER_SERVICE_TYPE", kind)
        if spec.version >= (0, 7):
            mode = option(spec, "training_elastic_mode", "base")
            yield Env("DLROVER_TRAINING_ELASTIC_MODE", mode)
    yield FieldEnv("POD_NAME", "metadata.name")
    if master and spec.version >= (0, 7):
        yield Env("DLROVER_EXTENSION_DYNAMIC_FAILOVER", "")
    yield Env("MONITOR_ENABLED", "true")


def relaunch(spec: Spec, *, budget: bool) -> Relaunch:
    """How failed replicas are followed, before what only one strategy does (reference 4.2, 4.3)."""
    given = spec.types["worker"].get("restartCount")
    count = _RELAUNCHES if given is None else int(given)
    strategy = option(spec, "pending_fail_strategy", "1")
    return Relaunch(
        limit=min(count, _MOST_RELAUNCHES),
        free=KILLED,
        # Upstream ends a job at this number of failed nodes; here it may still have them.
        budget=max(spec.replicas("worker"), count) - 1 if budget else None,
        pending=_PENDING,
        tolerance=_TOLERANCE[strategy],
    )


def _template(spec: Spec, name: str) -> PodTemplate:
    template = spec.types[name]["template"]
    main = spec.mains[name]
    return pod_template(
        spec.origin(name).at("template"),
        template,
        main,
        labels=elastic_spec.pod_labels(template.get("metadata", {}).get("labels", {})),
        spec=_limited(template["spec"], main),
    )


def _limited(pod: Mapping[str, Any], main: str) -> Mapping[str, Any]:
    """A PodSpec whose main container has each request for a limit, where it has no limit.

    DLRover's master makes limits of all requests (reference 3.3): quotas count them, and a
    namespace's default limit may be below the request. A limit that is written down stays
    (defect 1).
    """
    container = next(candidate for candidate in pod["containers"] if candidate["name"] == main)
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if requests.keys() <= limits.keys():
        return pod
    made = {**container, "resources": {**resources, "limits": {**requests, **limits}}}
    containers = [made if other is container else other for other in pod["containers"]]
    return {**pod, "containers": containers}


# Priorities ---------------------------------------------------------------------------------------


def _priority(spec: Spec, name: str, count: int) -> Priority | None:
    """The classes of a type's Pods (reference 3.3).

    The master gives `high` to one Pod more than the share says; here it is the share.
    """
    given = str(spec.types[name].get("priority") or "")
    if not given:
        return None
    if given in ("high", "low"):
        return Priority(count, given, given)
    return Priority(round(count * float(given)), "high", "low")


def priority_notes(spec: Spec, names: Sequence[str]) -> Iterator[Diagnostic]:
    """Warnings about priorities: what they need, and what they replace."""
    for name in names:
        given = spec.types.get(name, {}).get("priority")
        if not given:
            continue
        origin = spec.origin(name)
        named = f"a PriorityClass named {given}"
        classes = named if given in ("high", "low") else "PriorityClasses named high and low"
        yield diagnose(
            codes.PRIORITY_CLASS, origin.locate("priority"), where=f"{name}.priority", names=classes
        )
        own = spec.types[name]["template"]["spec"].get("priorityClassName")
        if own:
            place = origin.locate("template", "spec", "priorityClassName")
            reason = f"{name}.priority says {given}"
            facts = {"where": "priorityClassName", "name": own, "reason": reason}
            yield diagnose(codes.OVERWRITTEN, place, **facts, advice="remove one of the two")


# What changes nothing -----------------------------------------------------------------------------

_DEAD_FIELDS = {
    "brainService": "DLRover does not tell its master since 0.5",
    "envs": "no program of DLRover reads it",
    "enableElasticScheduling": "no program of DLRover reads it",
    "enableDynamicSharding": "no program of DLRover reads it",
}
_DEAD_TYPE_FIELDS = {
    "restartPolicy": "no program of DLRover reads it",
    "restartTimeout": "DLRover parses it and never uses it",
    "criticalNodes": "no definition of the kind has it, so the API server drops it",
    "BatchScheduler": "only an unfinished program of DLRover reads it",
}
_DEAD_MASTER_FIELDS = {
    "replicas": "there is always one master",
    "restartCount": "its Pod starts a master again that has ended",
    "autoScale": "a master is not scaled",
    "priority": "only Pods that a master makes have one",
}
_ADVICE = {"envs": "write the variables into the templates"}


def dead_notes(spec: Spec) -> Iterator[Diagnostic]:
    """A warning for each field that changes nothing, upstream and here (reference 1.1)."""
    for field, reason in _DEAD_FIELDS.items():
        advice = _ADVICE.get(field, "remove it")
        yield from no_effect(spec.source, ("spec", field), reason, advice)
    for name in spec.types:
        dead: Mapping[str, str] = _DEAD_TYPE_FIELDS
        dead = {**dead, **(_DEAD_MASTER_FIELDS if name == elastic_spec.MASTER else {})}
        yield from unused_fields(spec, name, dead)


def unused_fields(spec: Spec, name: str, dead: Mapping[str, str]) -> Iterator[Diagnostic]:
    """A warning for each of these fields that a type has."""
    for field, reason in dead.items():
        path = ("spec", "replicaSpecs", name, field)
        yield from no_effect(spec.source, path, reason, where=f"{name}.{field}")


def ends_with_run(declared: Role) -> Role:
    """The role with a main container that ends when the run is done."""
    return structs.replace(
        declared,
        additions=structs.replace(declared.additions, run_once=False),
        recovery=structs.replace(declared.recovery, serves=True),
    )
