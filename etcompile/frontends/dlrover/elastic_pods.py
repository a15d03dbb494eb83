"""Build the roles of an ElasticJob: names, labels and variables of its Pods (reference 3).

Workers that meet at a master and static parameter servers have the same Pods. The master's template
is the job's, completed with what the operator would fill in (2.2, 2.3). Annotations become separate
words of its command, without a shell.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from etcompile import model
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.annotations import annotation_value, unused_annotation
from etcompile.frontends.dlrover.elastic_spec import (
    INDEX_LABEL,
    JOB_LABEL,
    MASTER,
    MASTER_PORT,
    TYPE_LABEL,
    Spec,
    Version,
    crash_notes,
    pod_labels,
)
from etcompile.frontends.document_parts import pod_template
from etcompile.frontends.notes import no_effect, overwritten, unused
from etcompile.k8s.bookkeeping import PREFIXES

PORTS = {"ps": 2222, "chief": 3333, "worker": 3333, "evaluator": 3333}
_RELAUNCHES, _MOST_RELAUNCHES = 3, 5
_PENDING = 900  # seconds, a constant of the master whatever `pending_timeout` says (reference 4.3)
_TOLERANCE: dict[str, Literal["any", "minimum", "never"]] = {
    "-1": "never",
    "0": "never",
    "1": "minimum",
    "2": "any",
}
"""The values of `pending_fail_strategy`: disabled, skip, necessary, all."""
_KILLED = (137, 143)
"""Exit codes of killed containers, which do not count as failures (reference 4.2)."""


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
    """Return the role of a type, with the template of another one if it has none (`like`)."""
    source = like or name
    priority = None
    # Upstream's master gives `high` to one Pod more than the share (reference 3.3).
    if share := str(spec.types[source].get("priority") or ""):
        if share in ("high", "low"):
            priority = model.Priority(count, share, share)
        else:
            priority = model.Priority(round(count * float(share)), "high", "low")
    # Where limits are missing, DLRover's master sets them to the requests (reference 3.3): quotas
    # count them, and a namespace's default limit may be below the request. An explicit limit stays
    # (defect 1).
    template, main = spec.types[source]["template"], spec.main(source)
    pod = template["spec"]
    resources = main.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if requests.keys() - limits.keys():
        limited = {**main, "resources": {**resources, "limits": {**requests, **limits}}}
        containers = [limited if other is main else other for other in pod["containers"]]
        pod = {**pod, "containers": containers}
    labels = pod_labels(template.get("metadata", {}).get("labels", {}))
    origin = spec.origin(source).at("template")
    return model.Role(
        name=name,
        naming=model.Naming(stem=spec.pod_stem(name), stable_address=True),
        labels=model.RoleLabels(
            common={TYPE_LABEL: name},
            objects={"app": "dlrover"},
            index=INDEX_LABEL,
            rank="elasticjob.dlrover/rank-index",
            relaunch="elasticjob.dlrover/relaunch-count",
        ),
        members=tuple(model.Member(index) for index in range(count)),
        template=pod_template(origin, template, spec.mains[source], labels=labels, spec=pod),
        origin=spec.origin(source),
        ports=(model.Port("grpc", PORTS[name]),),
        additions=model.PodAdditions(
            env=tuple(env), run_once=run_once, priority=priority, gate=gate
        ),
        recovery=model.Recovery(restart="OnFailure", **recovery),
        bounds=bounds,
    )


def variables(spec: Spec, name: str, count: int, *, master: bool) -> Iterator[model.Variable]:
    """Yield the variables of a type's main container, in upstream's order (reference 3.2).

    `JOB_UID` is missing, because only a cluster knows it, and agents do not need it.
    """
    # The number in the document, because scaling must not change running Pods.
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


def relaunch(spec: Spec, *, budget: bool, **of_strategy: Any) -> model.Relaunch:
    """Return how failed replicas are followed (reference 4.2, 4.3)."""
    stated = spec.types["worker"].get("restartCount")
    count = _RELAUNCHES if stated is None else int(stated)
    return model.Relaunch(
        limit=min(count, _MOST_RELAUNCHES),
        free=_KILLED,
        # Upstream ends a job at this number of failed nodes, hence one fewer.
        budget=max(spec.replicas("worker"), count) - 1 if budget else None,
        pending=_PENDING,
        tolerance=_TOLERANCE[option(spec, "pending_fail_strategy", "1")],
        **of_strategy,
    )


# Fields without effect ----------------------------------------------------------------------------

UNREAD = {
    "brainService": "DLRover does not tell its master since 0.5",
    "envs": "no program of DLRover reads it",
    "enableElasticScheduling": "no program of DLRover reads it",
    "enableDynamicSharding": "no program of DLRover reads it",
}
"""Fields of an ElasticJob without effect, and why (reference 1.1)."""
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
        if named := fields["template"]["spec"].get("priorityClassName"):
            place = origin.locate("template", "spec", "priorityClassName")
            reason = f"{name}.priority says {priority}"
            yield overwritten(place, "priorityClassName", named, reason, "remove one of the two")


def unused_fields(spec: Spec, name: str, dead: Mapping[str, str]) -> Iterator[Diagnostic]:
    for field, reason in dead.items():
        path = ("spec", "replicaSpecs", name, field)
        yield from no_effect(spec.source, path, reason, where=f"{name}.{field}")


# The master --------------------------------------------------------------------------------------

PROGRAM = ("python", "-m", "dlrover.python.master.main")
_SELECTED = (JOB_LABEL, TYPE_LABEL, INDEX_LABEL)
_RESOURCES = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}


class Option(Struct, frozen=True):
    """An annotation of the job that its master takes as an option (reference 2.2).

    Args:
        since: The first version that forwards it.
        form: A regular expression of valid values.
        local: A master that creates no Pods reads it, too.
        dead: Why it has no effect, if nothing reads it.
    """

    name: str
    since: Version
    form: str
    expected: str
    local: bool = False
    dead: str = ""


_OPTIONS = (
    Option("pending_timeout", (0, 5), r"\d{1,9}", "seconds", dead="no master reads it"),
    Option("pending_fail_strategy", (0, 5), r"-1|0|1|2", "-1, 0, 1 or 2"),
    Option("service_type", (0, 5), r"grpc|http", "grpc or http", local=True),
    Option("pre_check_ops", (0, 5), r"\[.*\]", "a list of checks, [(MODULE, CLASS, BOOLEAN)]"),
    Option("pre_check_bypass", (0, 5), r".*", "anything", dead="the master has no such option"),
    Option("training_elastic_mode", (0, 7), r"base|ucp", "base or ucp", local=True),
    Option("enable_dashboard", (0, 7), r"(?i)true|false", "true or false", local=True),
    Option("dashboard_port", (0, 7), r"[1-9]\d{0,4}", "a port number", local=True),
)
ANNOTATIONS = tuple(option.name for option in _OPTIONS)
_NOT_FORWARDED = (
    *("hang_detection", "hang_downtime", "max_hang_downtime", "xpu_type"),
    *("task_process_timeout", "dynamic_failover_extension", "group-affinity"),
)
"""Options of the master that its documentation lists as annotations."""


def option(spec: Spec, name: str, default: str) -> str:
    known = next(option for option in _OPTIONS if option.name == name)
    text = spec.annotation(name)
    if text is None or spec.version < known.since or not re.fullmatch(known.form, text, re.ASCII):
        return default
    return text


def command_options(spec: Spec, *, local: bool) -> Iterator[str]:
    for known in _OPTIONS:
        value = option(spec, known.name, "")
        if value and not known.dead and (known.local or not local):
            yield from (f"--{known.name}", value)


def master_notes(spec: Spec, *, local: bool) -> Iterator[Diagnostic]:
    for known in _OPTIONS:
        text = spec.annotation(known.name)
        if text is None:
            continue
        reason = known.dead
        if spec.version < known.since:
            reason = "DLRover {}.{} forwards it first".format(*known.since)
        elif local and not known.local:
            reason = reason or "the master makes no Pods here"
            if known.name == "pending_fail_strategy":
                reason = ""  # the watcher reads it
        if reason:
            yield unused_annotation(spec.source, known.name, reason)
        elif not re.fullmatch(known.form, text, re.ASCII):
            yield annotation_value(spec.source, known.name, known.expected)
    for name in _NOT_FORWARDED:
        if spec.annotation(name) is not None:
            reason = "no version of the operator tells its master"
            yield unused_annotation(spec.source, name, reason)
    metadata = spec.source.data["metadata"]
    yield from crash_notes(model.Origin(spec.source, ("metadata",)), metadata)
    for label in _SELECTED:
        if label in metadata.get("labels", {}):
            at = spec.source.locate(("metadata", "labels", label), key=True)
            reason = "on the master's Pod it would hide the master from its own Service"
            yield unused(at, f"label {label}", reason)
    if MASTER not in spec.types:
        return
    origin, template = spec.origin(MASTER).at("template"), spec.types[MASTER]["template"]
    yield from crash_notes(origin.at("metadata"), template.get("metadata", {}))
    place, main = spec.main_place(MASTER), spec.main(MASTER)
    for field in ("command", "args"):
        if main.get(field):
            at = origin.locate("spec", "containers", place, field, key=True)
            reason = "it would be another master than the one that the job needs"
            yield overwritten(at, field, main["name"], reason)


def master_role(
    spec: Spec,
    command: Sequence[str],
    *,
    account: str | None,
    env: Sequence[model.Variable] = (),
    scripts: tuple[str, ...] = (),
    run_once: bool = False,
    **recovery: Any,
) -> model.Role:
    """Return the master's role; without an account it does not use the API."""
    numbered = spec.version >= (0, 5)
    service, pod_stem = spec.master_service, spec.master_pod_stem
    service_type = option(spec, "service_type", "grpc")
    # The client that primes the master needs a type that is not the default.
    kind = (
        [model.Env("DLROVER_MASTER_SERVICE_TYPE", service_type)] if service_type != "grpc" else []
    )
    # The operator completed the job's template of the master up to 0.3 and uses it unchanged since,
    # so that the API server refuses upstream's examples (reference 7, defect 5).
    written: Mapping[str, Any] = spec.types.get(MASTER, {}).get("template", {"spec": {}})
    containers = written["spec"].get("containers", [{"name": "main"}])
    name = spec.mains.get(MASTER, "main")
    main = next(container for container in containers if container["name"] == name)
    probe = {"tcpSocket": {"port": MASTER_PORT}, "periodSeconds": 2}
    completed = {
        **main,
        "image": main.get("image") or spec.main("worker").get("image", ""),
        "imagePullPolicy": main.get("imagePullPolicy", "IfNotPresent"),
        "command": [*command],
        "resources": main.get("resources") or {"requests": _RESOURCES, "limits": _RESOURCES},
        "readinessProbe": main.get("readinessProbe", probe),
    }
    completed.pop("args", None)
    rights = {"automountServiceAccountToken": False} if account is None else {}
    pod = {**rights, **written["spec"]}
    pod["containers"] = [completed if other is main else other for other in containers]
    # The operator copies these, also the labels that its Service selects (defect 22).
    copied = {
        field: {
            key: value
            for key, value in spec.source.data["metadata"].get(field, {}).items()
            if not key.startswith(PREFIXES) and not (field == "labels" and key in _SELECTED)
        }
        for field in ("labels", "annotations")
    }
    metadata = written.get("metadata", {})
    return model.Role(
        name=MASTER,
        naming=model.Naming(
            stem=service,
            pod_stem=None if pod_stem == service else pod_stem,
            service=service,
            stable_address=True,
        ),
        labels=model.RoleLabels(common={TYPE_LABEL: MASTER}, index=INDEX_LABEL),
        members=(model.Member(0 if numbered else None),),
        template=model.PodTemplate(
            labels=pod_labels({**metadata.get("labels", {}), **copied["labels"]}),
            annotations={**metadata.get("annotations", {}), **copied["annotations"]},
            spec=pod,
            main=name,
            origin=spec.origin(MASTER).at(*(["template"] if MASTER in spec.types else [])),
        ),
        origin=spec.origin(MASTER),
        ports=(model.Port("grpc", MASTER_PORT),),
        additions=model.PodAdditions(
            env=(model.Env("POD_IP", field="status.podIP"), *env, *kind),
            service_account=account,
            scripts=scripts,
            run_once=run_once,
        ),
        # Upstream's operator treats a deleted master like a failed one (defect c).
        recovery=model.Recovery(comes_back="when-gone", **recovery),
    )
