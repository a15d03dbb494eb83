"""DLRover's master as a role: one Pod behind one Service, started again where it ends too early.

Its template is made here, from what the job says of it and what the operator would fill in
(reference/dlrover.md 2.2, 2.3); what it is told by annotations becomes separate words of its
command, never a shell's.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.frontends.annotations import annotation_value, unused_annotation
from etcompile.frontends.dlrover import elastic_spec
from etcompile.frontends.dlrover.elastic_spec import MASTER, MASTER_PORT, Spec
from etcompile.frontends.notes import unused
from etcompile.model import (
    Env,
    FieldEnv,
    Member,
    Naming,
    Origin,
    PodAdditions,
    PodTemplate,
    Port,
    Recovery,
    Role,
    RoleLabels,
    Variable,
)
from etcompile.model.bookkeeping import PREFIXES

PROGRAM = ("python", "-m", "dlrover.python.master.main")
_RESOURCES = {"cpu": "1", "memory": "2Gi", "ephemeral-storage": "2Gi"}


class Option(Struct, frozen=True):
    """An annotation of the job that its master takes as an option (reference 2.2).

    Args:
        name: Its name, and that of the option.
        since: The version that forwards it first.
        form: What it may be, as a regular expression.
        expected: The same in words.
        local: Whether a master that makes no Pods cares.
        dead: Why it changes nothing, if nothing reads it.
    """

    name: str
    since: elastic_spec.Version
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
    given = spec.annotation(name)
    good = given is not None and re.fullmatch(known.form, given, re.ASCII)
    return str(given) if good and spec.version >= known.since else default


def words(spec: Spec, *, local: bool) -> Iterator[str]:
    """What the annotations add to the master's command."""
    for known in _OPTIONS:
        value = option(spec, known.name, "")
        if value and not known.dead and (known.local or not local):
            yield from (f"--{known.name}", value)


def notes(spec: Spec, *, local: bool) -> Iterator[Diagnostic]:
    """What is wrong with annotations for the master, and which of them change nothing."""
    for known in _OPTIONS:
        given = spec.annotation(known.name)
        if given is None:
            continue
        reason = known.dead
        if spec.version < known.since:
            reason = "DLRover {}.{} forwards it first".format(*known.since)
        elif local and not known.local:
            reason = reason or "the master makes no Pods here"
            if known.name == "pending_fail_strategy":
                reason = ""  # kept for the watcher
        if reason:
            yield unused_annotation(spec.source, known.name, reason)
        elif not re.fullmatch(known.form, given, re.ASCII):
            yield annotation_value(spec.source, known.name, known.expected)
    for name in _NOT_FORWARDED:
        if spec.annotation(name) is not None:
            reason = "no version of the operator tells its master"
            yield unused_annotation(spec.source, name, reason)


def role(
    spec: Spec, command: Sequence[str], *, account: str | None, env: Sequence[Variable] = ()
) -> Role:
    """The master's role, without what makes it end.

    Args:
        spec: The ElasticJob, read.
        command: The words of its container's `command`.
        account: The ServiceAccount that it asks the API as; None for none at all.
        env: Its variables besides POD_IP.
    """
    numbered = spec.version >= (0, 5)
    service, pod = elastic_spec.master_name(spec.name), elastic_spec.master_pod_stem(spec.name)
    return Role(
        name=MASTER,
        naming=Naming(
            stem=service,
            pod_stem=None if pod == service else pod,
            service=service,
            stable_address=True,
        ),
        labels=RoleLabels(common={elastic_spec.TYPE_LABEL: MASTER}, index=elastic_spec.INDEX_LABEL),
        members=(Member(0 if numbered else None),),
        template=_template(spec, command, token=account is not None),
        origin=spec.origin(MASTER),
        ports=(Port("grpc", MASTER_PORT),),
        additions=PodAdditions(
            env=(FieldEnv("POD_IP", "status.podIP"), *env, *_service_type(spec)),
            service_account=account,
        ),
        recovery=Recovery(
            # Upstream's operator takes a master that is deleted for one that failed (defect c).
            comes_back="when-gone",
        ),
    )


def _service_type(spec: Spec) -> Iterator[Env]:
    """Only where it is not the usual one: the client that primes the master must know it, too."""
    kind = option(spec, "service_type", "grpc")
    if kind != "grpc":
        yield Env("DLROVER_MASTER_SERVICE_TYPE", kind)


def _template(spec: Spec, command: Sequence[str], *, token: bool) -> PodTemplate:
    """The master's template: the job's own, with what it leaves out.

    The operator filled it in up to 0.3 and takes it as it is since, so that upstream's own
    examples are refused by the API server (reference 7, defect 5).
    """
    given: Mapping[str, Any] = spec.types.get(MASTER, {}).get("template", {"spec": {}})
    containers = given["spec"].get("containers", [{"name": "main"}])
    name = spec.mains.get(MASTER, "main")
    probe = {"tcpSocket": {"port": MASTER_PORT}, "periodSeconds": 2}
    own = {"requests": _RESOURCES, "limits": _RESOURCES}
    main = next(container for container in containers if container["name"] == name)
    made = {
        **main,
        "image": main.get("image") or spec.main("worker").get("image", ""),
        "imagePullPolicy": main.get("imagePullPolicy", "IfNotPresent"),
        "command": [*command],
        "resources": main.get("resources") or own,
        "readinessProbe": main.get("readinessProbe", probe),
    }
    made.pop("args", None)
    rest = {} if token else {"automountServiceAccountToken": False}
    pod = {**rest, **given["spec"]}
    pod["containers"] = [made if container is main else container for container in containers]
    metadata = given.get("metadata", {})
    taken = (elastic_spec.JOB_LABEL, elastic_spec.TYPE_LABEL, elastic_spec.INDEX_LABEL)
    labels = {**metadata.get("labels", {}), **_without(spec, "labels", taken)}
    return PodTemplate(
        # As the operator copies them, but for those by which its Service finds it (defect 22).
        labels=elastic_spec.pod_labels(labels),
        annotations={**metadata.get("annotations", {}), **_without(spec, "annotations")},
        spec=pod,
        main=name,
        origin=spec.origin(MASTER).at(*(["template"] if MASTER in spec.types else [])),
    )


def _without(spec: Spec, field: str, names: Sequence[str] = ()) -> dict[str, str]:
    given: Mapping[str, str] = spec.source.data["metadata"].get(field, {})
    return {k: v for k, v in given.items() if k not in names and not k.startswith(PREFIXES)}


def template_notes(spec: Spec) -> Iterator[Diagnostic]:
    """Warnings about what the job says of the master and does not get."""
    block = spec.types.get(MASTER)
    if block is None:
        return
    origin, main = spec.origin(MASTER), spec.mains[MASTER]
    containers = block["template"]["spec"]["containers"]
    place = next(i for i, container in enumerate(containers) if container["name"] == main)
    for field in ("command", "args"):
        if containers[place].get(field):
            at = origin.locate("template", "spec", "containers", place, field, key=True)
            reason = "it would be another master than the one that the job needs"
            yield diagnose(
                codes.OVERWRITTEN, at, where=field, name=main, reason=reason, advice="remove it"
            )


def label_notes(spec: Spec) -> Iterator[Diagnostic]:
    """Warnings about labels of the job that its master's Pod does not get."""
    metadata = Origin(spec.source, ("metadata",))
    yield from elastic_spec.crash_notes(metadata, spec.source.data["metadata"])
    if MASTER in spec.types:
        given = spec.types[MASTER]["template"].get("metadata", {})
        yield from elastic_spec.crash_notes(spec.origin(MASTER).at("template", "metadata"), given)
    for label in (elastic_spec.JOB_LABEL, elastic_spec.TYPE_LABEL, elastic_spec.INDEX_LABEL):
        if label in spec.source.data["metadata"].get("labels", {}):
            at = spec.source.locate(("metadata", "labels", label), key=True)
            reason = "on the master's Pod it would hide the master from its own Service"
            yield unused(at, f"label {label}", reason)
