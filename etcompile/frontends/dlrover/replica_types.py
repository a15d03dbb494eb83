"""A type of an ElasticJob as a role: what its Pods are called, carry and know (reference 3).

The same for workers that meet at a master and for parameter servers without one; what only one of
the strategies has is added there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from etcompile import model
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.dlrover import elastic_spec
from etcompile.frontends.dlrover.elastic_spec import MASTER, MASTER_PORT, Spec, pod_labels
from etcompile.frontends.dlrover.master import option
from etcompile.frontends.document_parts import pod_template
from etcompile.frontends.notes import no_effect

PORTS = {"ps": 2222, "chief": 3333, "worker": 3333, "evaluator": 3333}
"""The port of a type's Services."""
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
_KILLED = (137, 143)
"""Exit codes of who was killed, which is nobody's fault (reference 4.2)."""


def role(
    spec: Spec,
    name: str,
    count: int,
    env: Sequence[model.Variable],
    *,
    like: str = "",
    gate: model.Gate | None = None,
    run_once: bool = True,
    bounds: model.Bounds | None = None,
    **recovery: Any,
) -> model.Role:
    """A type's role.

    Args:
        name: The key of the type in `replicaSpecs`: `worker`, `ps`, `chief`, `evaluator`.
        env: The variables of its main container (`variables`).
        like: The type whose template it has, if not its own.
        recovery: Fields of `Recovery` that the strategy decides.
    """
    own = like or name
    priority = None
    # The master gives `high` to one Pod more than the share says; here it is the share
    # (reference 3.3).
    if share := str(spec.types[own].get("priority") or ""):
        if share in ("high", "low"):
            priority = model.Priority(count, share, share)
        else:
            priority = model.Priority(round(count * float(share)), "high", "low")
    return model.Role(
        name=name,
        naming=model.Naming(stem=spec.pod_stem(name), stable_address=True),
        labels=model.RoleLabels(
            common={elastic_spec.TYPE_LABEL: name},
            objects={"app": "dlrover"},
            index=elastic_spec.INDEX_LABEL,
            rank="elasticjob.dlrover/rank-index",
            relaunch="elasticjob.dlrover/relaunch-count",
        ),
        members=tuple(model.Member(index) for index in range(count)),
        template=_template(spec, own),
        origin=spec.origin(own),
        ports=(model.Port("grpc", PORTS[name]),),
        additions=model.PodAdditions(
            env=tuple(env), run_once=run_once, priority=priority, gate=gate
        ),
        recovery=model.Recovery(restart="OnFailure", **recovery),
        bounds=bounds,
    )


def _template(spec: Spec, name: str) -> model.PodTemplate:
    """A type's template, whose main container has each request for a limit, where it has no limit.

    DLRover's master makes limits of all requests (reference 3.3): quotas count them, and a
    namespace's default limit may be below the request. A limit that is written down stays
    (defect 1).
    """
    template, main = spec.types[name]["template"], spec.main(name)
    pod = template["spec"]
    resources = main.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if requests.keys() - limits.keys():
        limited = {**main, "resources": {**resources, "limits": {**requests, **limits}}}
        containers = [limited if other is main else other for other in pod["containers"]]
        pod = {**pod, "containers": containers}
    labels = pod_labels(template.get("metadata", {}).get("labels", {}))
    origin = spec.origin(name).at("template")
    return pod_template(origin, template, spec.mains[name], labels=labels, spec=pod)


def variables(spec: Spec, name: str, count: int, *, master: bool) -> Iterator[model.Variable]:
    """The variables of a type's main container, in upstream's order (reference 3.2).

    `JOB_UID` is not among them: only a cluster knows it, and agents do without.
    """
    # As the document says it, and not as scaling leaves it: running Pods must not change.
    nodes = str(spec.replicas("worker") or count)
    yield model.Env("POD_IP", field="status.podIP")
    yield model.Env("NODE_IP", field="status.hostIP")
    yield model.Env("ELASTIC_JOB_NAME", spec.name)
    yield model.Env("GRPC_ENABLE_FORK_SUPPORT", "false")
    yield model.Env("NODE_TYPE", name)
    yield model.IndexedEnv("NODE_ID", ("", ""))
    yield model.Env("NODE_NUM", nodes)
    yield model.IndexedEnv("NODE_RANK", ("", ""), rank=True)
    if spec.is_allreduce:
        yield model.Env("WORLD_SIZE", nodes)
        yield model.IndexedEnv("RANK", ("", ""), rank=True)
    yield model.Env("WORKER_TYPE", name)
    yield model.IndexedEnv("WORKER_ID", ("", ""))
    yield model.Env("WORKER_NUM", nodes)
    yield model.IndexedEnv("WORKER_RANK", ("", ""), rank=True)
    if master:
        yield model.Env("DLROVER_MASTER_ADDR", f"{spec.master_service}:{MASTER_PORT}")
        if spec.version >= (0, 5):
            yield model.Env("DLROVER_MASTER_SERVICE_TYPE", option(spec, "service_type", "grpc"))
        if spec.version >= (0, 7):
            mode = option(spec, "training_elastic_mode", "base")
            yield model.Env("DLROVER_TRAINING_ELASTIC_MODE", mode)
    yield model.Env("POD_NAME", field="metadata.name")
    if master and spec.version >= (0, 7):
        yield model.Env("DLROVER_EXTENSION_DYNAMIC_FAILOVER", "")
    yield model.Env("MONITOR_ENABLED", "true")


def relaunch(spec: Spec, *, budget: bool, **own: Any) -> model.Relaunch:
    """How failed replicas are followed (reference 4.2, 4.3); `own` is what the strategy decides."""
    stated = spec.types["worker"].get("restartCount")
    count = _RELAUNCHES if stated is None else int(stated)
    return model.Relaunch(
        limit=min(count, _MOST_RELAUNCHES),
        free=_KILLED,
        # Upstream ends a job at this number of failed nodes; here it may still have them.
        budget=max(spec.replicas("worker"), count) - 1 if budget else None,
        pending=_PENDING,
        tolerance=_TOLERANCE[option(spec, "pending_fail_strategy", "1")],
        **own,
    )


# What changes nothing, or replaces something ------------------------------------------------------

UNREAD = {
    "brainService": "DLRover does not tell its master since 0.5",
    "envs": "no program of DLRover reads it",
    "enableElasticScheduling": "no program of DLRover reads it",
    "enableDynamicSharding": "no program of DLRover reads it",
}
"""Fields of an ElasticJob that change nothing, and why (reference 1.1)."""
UNREAD_OF_TYPE = {
    "restartPolicy": "no program of DLRover reads it",
    "restartTimeout": "DLRover parses it and never uses it",
    "criticalNodes": "no definition of the kind has it, so the API server drops it",
    "BatchScheduler": "only an unfinished program of DLRover reads it",
}
_UNREAD_OF_MASTER = {
    "replicas": "there is always one master",
    "restartCount": "its Pod starts a master again that has ended",
    "autoScale": "a master is not scaled",
    "priority": "only Pods that a master makes have one",
}


def notes(spec: Spec) -> Iterator[Diagnostic]:
    """Warnings about fields that change nothing, and about priorities."""
    for field, reason in UNREAD.items():
        advice = "write the variables into the templates" if field == "envs" else "remove it"
        yield from no_effect(spec.source, ("spec", field), reason, advice)
    for name, fields in spec.types.items():
        dead = {**UNREAD_OF_TYPE, **(_UNREAD_OF_MASTER if name == MASTER else {})}
        yield from unused_fields(spec, name, dead)
        priority = fields.get("priority")
        if name == MASTER or not priority:
            continue
        origin = spec.origin(name)
        named = f"a PriorityClass named {priority}"
        classes = named if priority in ("high", "low") else "PriorityClasses named high and low"
        place = origin.locate("priority")
        yield diagnose(codes.PRIORITY_CLASS, place, where=f"{name}.priority", names=classes)
        if own := fields["template"]["spec"].get("priorityClassName"):
            place = origin.locate("template", "spec", "priorityClassName")
            reason = f"{name}.priority says {priority}"
            facts = {"where": "priorityClassName", "name": own, "reason": reason}
            yield diagnose(codes.OVERWRITTEN, place, **facts, advice="remove one of the two")


def unused_fields(spec: Spec, name: str, dead: Mapping[str, str]) -> Iterator[Diagnostic]:
    """A warning for each of these fields that a type has, with the reason."""
    for field, reason in dead.items():
        path = ("spec", "replicaSpecs", name, field)
        yield from no_effect(spec.source, path, reason, where=f"{name}.{field}")
