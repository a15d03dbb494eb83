"""DLRover's master as a role: one Pod behind one Service, started again where it ends too early.

Its template is made here, from what the job says of it and what the operator would fill in
(reference/dlrover.md 2.2, 2.3); what it is told by annotations becomes separate words of its
command, never a shell's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from etcompile.frontends.notes import unused
from etcompile.k8s.bookkeeping import PREFIXES

PROGRAM = ("python", "-m", "dlrover.python.master.main")
_OWN_LABELS = (JOB_LABEL, TYPE_LABEL, INDEX_LABEL)
_RESOURCES = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}


class Option(Struct, frozen=True):
    """An annotation of the job that its master takes as an option (reference 2.2).

    Args:
        since: The version that forwards it first.
        form: What it may be, as a regular expression.
        local: Whether a master that makes no Pods cares.
        dead: Why it changes nothing, if nothing reads it.
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
"""Options of the master that its documentation promises as annotations."""


def option(spec: Spec, name: str, default: str) -> str:
    """The value of an annotation that this version of DLRover forwards; else the default."""
    known = next(option for option in _OPTIONS if option.name == name)
    text = spec.annotation(name)
    if text is None or spec.version < known.since or not re.fullmatch(known.form, text, re.ASCII):
        return default
    return text


def command_options(spec: Spec, *, local: bool) -> Iterator[str]:
    """What the annotations add to the master's command."""
    for known in _OPTIONS:
        value = option(spec, known.name, "")
        if value and not known.dead and (known.local or not local):
            yield from (f"--{known.name}", value)


def notes(spec: Spec, *, local: bool) -> Iterator[Diagnostic]:
    """What is wrong with what the job says of its master, and what of it changes nothing."""
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
    for label in _OWN_LABELS:
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
            facts = {"where": field, "name": main["name"], "reason": reason}
            yield diagnose(codes.OVERWRITTEN, at, **facts, advice="remove it")


def role(
    spec: Spec,
    command: Sequence[str],
    *,
    account: str | None,
    env: Sequence[model.Variable] = (),
    scripts: tuple[str, ...] = (),
    run_once: bool = False,
    **recovery: Any,
) -> model.Role:
    """The master's role.

    Args:
        account: The ServiceAccount with which it talks to the API; None for none at all.
        env: Its variables besides POD_IP.
        recovery: Fields of `Recovery` that the strategy decides.
    """
    numbered = spec.version >= (0, 5)
    service, pod = spec.master_service, spec.master_pod_stem
    service_type = option(spec, "service_type", "grpc")
    # Only where it is not the usual one: the client that primes the master must know it, too.
    kind = (
        [model.Env("DLROVER_MASTER_SERVICE_TYPE", service_type)] if service_type != "grpc" else []
    )
    return model.Role(
        name=MASTER,
        naming=model.Naming(
            stem=service,
            pod_stem=None if pod == service else pod,
            service=service,
            stable_address=True,
        ),
        labels=model.RoleLabels(common={TYPE_LABEL: MASTER}, index=INDEX_LABEL),
        members=(model.Member(0 if numbered else None),),
        template=_template(spec, command, token=account is not None),
        origin=spec.origin(MASTER),
        ports=(model.Port("grpc", MASTER_PORT),),
        additions=model.PodAdditions(
            env=(model.Env("POD_IP", field="status.podIP"), *env, *kind),
            service_account=account,
            scripts=scripts,
            run_once=run_once,
        ),
        # Upstream's operator takes a master that is deleted for one that failed (defect c).
        recovery=model.Recovery(comes_back="when-gone", **recovery),
    )


def _template(spec: Spec, command: Sequence[str], *, token: bool) -> model.PodTemplate:
    """The master's template: the job's own, with what it leaves out.

    The operator filled it in up to 0.3 and takes it as it is since, so that upstream's own
    examples are refused by the API server (reference 7, defect 5).
    """
    own: Mapping[str, Any] = spec.types.get(MASTER, {}).get("template", {"spec": {}})
    containers = own["spec"].get("containers", [{"name": "main"}])
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
    pod = {**({} if token else {"automountServiceAccountToken": False}), **own["spec"]}
    pod["containers"] = [completed if other is main else other for other in containers]
    # As the operator copies them, but for those by which its Service finds it (defect 22).
    copied = {
        field: {
            key: value
            for key, value in spec.source.data["metadata"].get(field, {}).items()
            if not key.startswith(PREFIXES) and not (field == "labels" and key in _OWN_LABELS)
        }
        for field in ("labels", "annotations")
    }
    metadata = own.get("metadata", {})
    return model.PodTemplate(
        labels=pod_labels({**metadata.get("labels", {}), **copied["labels"]}),
        annotations={**metadata.get("annotations", {}), **copied["annotations"]},
        spec=pod,
        main=name,
        origin=spec.origin(MASTER).at(*(["template"] if MASTER in spec.types else [])),
    )
