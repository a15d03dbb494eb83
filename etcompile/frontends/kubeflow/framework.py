"""Build jobs of the Kubeflow Training Operator's kinds (reference/training-operator.md 1 to 3).

A kind is a row of facts (`Framework`) and a function for what only it does: its variables and its
rule of success. Replica types, casing, defaults, ports, labels and the run policy are here.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from etcompile import model
from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends import annotations, gang
from etcompile.frontends.annotations import FLAG, TOGETHER, Annotations
from etcompile.frontends.document_parts import (
    JobDocument,
    clean_document,
    main_container,
    pod_template,
)
from etcompile.frontends.kind import TRAINING_OPERATOR, Kind, Lowered, Operator
from etcompile.frontends.kubeflow.run_policy import FIELDS, with_policy
from etcompile.frontends.notes import template_notes, ttl_note
from etcompile.model.protocol import config_name

API_VERSION = "kubeflow.org/v1"
_PREFIX = "training.kubeflow.org"
OPERATOR_LABEL = f"{_PREFIX}/operator-name"
JOB_LABEL = f"{_PREFIX}/job-name"
TYPE_LABEL = f"{_PREFIX}/replica-type"
INDEX_LABEL = f"{_PREFIX}/replica-index"
ROLE_LABEL = f"{_PREFIX}/job-role"
MASTER = {ROLE_LABEL: "master"}

_SIDECAR_ENV = "etcompile.dev/sidecar-env"
"""Annotation that gives sidecars the variables of the framework, too."""


class Framework(Struct, frozen=True):
    """A kind's row in the table of reference/training-operator.md 1.1.

    Args:
        types: The field in `spec` with its map of replica types.
        operator: The value of the label `operator-name`, if it is not `KIND-controller`.
        schema: The file of its JSON Schema, if it is not `KIND.json`.
        container: The container that trains; None if any name will do.
        port: The default port of that container, if any.
        restarts: The default restartPolicy of types for which it is not `restart`.
        any_case: Types whose casing does not matter.
        none: Types that have no replicas, not one, if the document gives no number.
        keeps_finalizers: Its Pods get their template's finalizers.
        gangs: What its operator does when it creates a gang.
        policy: The fields of `runPolicy` that `spec` does not have.
        trainer: Kubeflow Trainer's policy for it; empty if it has none.
        without_trainer: Why a job cannot become a TrainJob, if there is no policy.
    """

    kind: str
    types: str
    roles: tuple[str, ...]
    summary: str
    container: str | None
    port: model.Port | None
    restart: str
    api_version: str = API_VERSION
    operator: str = ""
    schema: str = ""
    any_case: tuple[str, ...] = ()
    annotations: Annotations = field(default_factory=dict)
    managers: tuple[str, ...] = ("kubeflow.org/training-operator",)
    run_by: Operator = TRAINING_OPERATOR
    gangs: model.GangOperator = gang.TRAINING_OPERATOR
    none: tuple[str, ...] = ()
    keeps_finalizers: bool = True
    elastic: str = ""
    restarts: Mapping[str, str] = field(default_factory=dict)
    volumes: tuple[str, ...] = ()
    policy: frozenset[str] = FIELDS
    trainer: str = ""
    without_trainer: str = ""


class Replica(Struct, frozen=True):
    """The replicas of one type in the document.

    Args:
        role: The type in lower case, as in names and labels.
        port: The number of the kind's port.
        missing: The kind's port, if the template has neither its name nor its number.
    """

    type: str
    role: str
    replicas: int
    restart: str
    template: model.PodTemplate
    origin: model.Origin
    port: int | None = None
    ports: tuple[model.Port, ...] = ()
    missing: tuple[model.Port, ...] = ()


class Spec(JobDocument, frozen=True):
    """A document of one of these kinds, with its replicas in the kind's order."""

    framework: Framework
    replicas: tuple[Replica, ...]

    @property
    def total(self) -> int:
        return sum(replica.replicas for replica in self.replicas)

    def part(self, kind: str) -> Replica:
        return next(replica for replica in self.replicas if replica.type == kind)

    def of(self, kind: str) -> Replica | None:
        return next((replica for replica in self.replicas if replica.type == kind), None)

    def host(self, role: str, index: int) -> str:
        return f"{self.name}-{role}-{index}"


class Described(Struct, frozen=True):
    """What a kind decides about a document, beyond what all kinds share.

    Args:
        roles: Its roles, in the order in which they start.
        changes: Fields of the job that the kind decides.
        each: With restarts in place, the roles whose replicas restart independently; None if all
            restart together.
    """

    roles: tuple[model.Role, ...]
    success: model.Success
    changes: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()
    each: tuple[str, ...] | None = None


def kind(framework: Framework, describe: Callable[[Spec], Described]) -> Kind:
    known = {
        _SIDECAR_ENV: FLAG,
        TOGETHER: FLAG,
        **annotations.OF_RESTARTS,
        **gang.BEYOND_POLICY,
        **framework.annotations,
    }
    return Kind(
        api_version=framework.api_version,
        name=framework.kind,
        schema=framework.schema or f"{framework.kind}.json",
        lower=lambda source: _lowered(framework, source, describe, known),
        summary=framework.summary,
        annotations=known,
        pod_counts=(
            ("spec", framework.types, "*", "replicas"),
            ("spec", "elasticPolicy", "minReplicas"),
        ),
        pod_templates=(("spec", framework.types, "*", "template"),),
        volumes=framework.volumes,
        operator=framework.run_by,
        elastic=framework.elastic,
        container=framework.container or "",
        managers=framework.managers,
        prepare=lambda source: with_policy(source, framework.policy, framework.run_by.name),
        exit_codes=framework.api_version == API_VERSION,
        definition=framework,
    )


def _lowered(
    framework: Framework, source: Source, describe: Callable[[Spec], Described], known: Annotations
) -> Lowered:
    path, specs = ("spec", framework.types), source.data["spec"][framework.types]
    canonical = {name.lower(): name for name in framework.any_case}
    keys: dict[str, str] = {}
    notes: list[Diagnostic] = []
    for key in specs:
        name = canonical.get(key.lower(), key)
        if (first := keys.setdefault(name, key)) != key:
            place = source.locate((*path, key), key=True)
            notes.append(diagnose(codes.REPLICA_TYPE_TWICE, place, name=key, first=first))
    replicas: list[Replica] = []
    for name in (name for name in framework.roles if name in keys):
        origin = model.Origin(source, (*path, keys[name]))
        replica, problems = _replica(framework, name, origin, specs[keys[name]])
        notes += problems
        replicas += [replica] if replica else []
    if len(replicas) < len(specs):
        return None, notes
    spec = Spec(source, framework, tuple(replicas))
    described = describe(spec)
    notes += described.diagnostics
    deciding = [replica for replica in replicas if replica.role in described.success.roles]
    if deciding and not any(replica.replicas for replica in deciding):
        place = deciding[0].origin.locate("replicas")
        notes.append(diagnose(codes.NOBODY_TRAINS, place, job=spec.name, where=deciding[0].type))
    notes += ttl_note(source, ("spec", "runPolicy", "ttlSecondsAfterFinished"))
    notes += annotations.contradiction(source, described.roles, described.each)
    job = _job(spec, described, clean_document(source, known))
    return annotations.restarted(job, source, described.each), notes


def _replica(
    framework: Framework, name: str, origin: model.Origin, fields: Mapping[str, Any]
) -> tuple[Replica | None, list[Diagnostic]]:
    template, place = fields["template"], origin.at("template")
    problems: list[Diagnostic] = []
    main = framework.container
    if main is None:
        main, problems = main_container(place, template)
    elif all(container["name"] != main for container in template["spec"]["containers"]):
        return None, []  # `Kind.problems` reports it
    restart = str(fields.get("restartPolicy") or framework.restarts.get(name, framework.restart))
    keeps = framework.keeps_finalizers
    problems += template_notes(
        place, template, restart_policy=pod_restart(restart), keeps_finalizers=keeps
    )
    if main is None:
        return None, problems
    finalizers = tuple(template.get("metadata", {}).get("finalizers", ())) if keeps else ()
    count = fields.get("replicas")
    replica = Replica(
        type=name,
        role=name.lower(),
        replicas=int(name not in framework.none) if count is None else count,
        restart=restart,
        template=pod_template(place, template, main, finalizers=finalizers),
        origin=origin,
    )
    if framework.port is None:
        return replica, problems
    declared = replica.template.main_container.get("ports", ())
    named = next((p for p in declared if p.get("name") == framework.port.name), None)
    missing = () if named else (framework.port,)
    numbers = {(port["containerPort"], port.get("protocol") or "TCP") for port in declared}
    replica = structs.replace(
        replica,
        port=named["containerPort"] if named else framework.port.number,
        ports=(*_service_ports(declared, missing),),
        # Server-side apply refuses a container with two ports of one number.
        missing=tuple(port for port in missing if (port.number, port.protocol) not in numbers),
    )
    return replica, problems


def pod_restart(policy: str) -> str:
    """Return the restartPolicy of Pods for the policy of a type (reference 2.4).

    The kubelet does not know ExitCode; the watcher replaces such Pods.
    """
    return "Never" if policy == "ExitCode" else policy


def _service_ports(
    declared: Sequence[Mapping[str, Any]], missing: Sequence[model.Port]
) -> Iterator[model.Port]:
    """Yield the ports of a replica's Service, each with a name and each once.

    The API server requires names if there are several, so an unnamed port next to the default one
    makes the operator's Service invalid (reference 7, defect 6).
    """
    named = {(p["containerPort"], p.get("protocol") or "TCP") for p in declared if p.get("name")}
    named |= {(port.number, port.protocol) for port in missing}
    names = {port["name"] for port in declared if port.get("name")}
    seen = set()
    for port in declared:
        number, protocol = port["containerPort"], port.get("protocol") or "TCP"
        if (number, protocol) in seen or (not port.get("name") and (number, protocol) in named):
            continue
        seen.add((number, protocol))
        suffix = "" if protocol == "TCP" else f"-{protocol.lower()}"
        unused = f"port-{number}{suffix}"
        while unused in names:
            unused += "-0"
        yield model.Port(port.get("name") or unused, number, protocol)
    yield from (port for port in missing if (port.number, port.protocol) not in seen)


def role(
    spec: Spec,
    replica: Replica,
    env: Sequence[model.Variable],
    *,
    master: bool = False,
    first_is_master: bool = False,
    additions: Mapping[str, Any] | None = None,
    recovery: Mapping[str, Any] | None = None,
    **changes: Any,
) -> model.Role:
    """Return the role of a type, for all kinds with Services (reference 2 and 3).

    The label `job-role: master` is on all of its Pods (`master`), or only on the first. The kind
    decides about fields of `PodAdditions`, of `Recovery`, and of the role (`changes`).
    """
    # Kubernetes accepts 1 to 2^31 - 1; more than 68 years are no deadline.
    deadline = spec.fields.get("runPolicy", {}).get("activeDeadlineSeconds")
    deadline = None if deadline is None or deadline >= 2**31 else max(int(deadline), 1)
    result = model.Role(
        name=replica.role,
        naming=model.Naming(stem=f"{spec.name}-{replica.role}"),
        labels=model.RoleLabels(
            common={TYPE_LABEL: replica.role},
            pods=MASTER if master else {},
            leader=MASTER if first_is_master else {},
            index=INDEX_LABEL,
        ),
        members=tuple(model.Member(index) for index in range(replica.replicas)),
        template=replica.template,
        origin=replica.origin,
        ports=replica.ports,
        additions=model.PodAdditions(
            env=tuple(env),
            env_everywhere=spec.annotation(_SIDECAR_ENV) == "true",
            main_ports=replica.missing,
            run_once=True,
        ),
        recovery=model.Recovery(
            restart=replica.restart,
            pod_restart=pod_restart(replica.restart),
            # A missing index is recreated, whatever the policy (reference 2.3).
            comes_back="when-gone",
            deadline=deadline,
        ),
    )
    return structs.replace(
        result,
        additions=structs.replace(result.additions, **(additions or {})),
        recovery=structs.replace(result.recovery, **(recovery or {})),
        **changes,
    )


def _job(spec: Spec, described: Described, document: dict[str, Any]) -> model.Job:
    # The identity excludes policies that only a watcher reads, and the number of replicas of an
    # elastic type. Pods know the numbers of all other types by their variables.
    bounded = {role.name for role in described.roles if role.bounds}
    types = {
        replica.type: {
            **({} if replica.role in bounded else {"replicas": replica.replicas}),
            "template": {"spec": replica.template.spec},
        }
        for replica in spec.replicas
    }
    fields = {k: v for k, v in document["spec"].items() if k not in ("runPolicy", "cleanPodPolicy")}
    fields[spec.framework.types] = types
    policy = spec.fields.get("runPolicy", {})
    # MPIJob has this field in two places (reference 1.3).
    clean_pods = policy.get("cleanPodPolicy") or spec.fields.get("cleanPodPolicy")
    run = model.RunPolicy(
        restart="Never",
        backoff_limit=policy.get("backoffLimit"),
        clean_pods=str(clean_pods or "None"),
        success=described.success,
        suspended=bool(policy.get("suspend")),
        suspended_by=("spec", "runPolicy", "suspend"),
        deadline=policy.get("activeDeadlineSeconds"),
        ttl=policy.get("ttlSecondsAfterFinished"),
        together=spec.annotation(TOGETHER) == "true",
        limits="failures",
    )
    elastic = spec.framework.elastic
    operator = spec.framework.operator or f"{spec.framework.kind.lower()}-controller"
    job = model.Job(
        **spec.of_job,
        roles=described.roles,
        selector={OPERATOR_LABEL: operator, JOB_LABEL: spec.name},
        run=run,
        config_name=config_name(spec.name),
        document=document,
        identity={"kind": document["kind"], "name": spec.name, "spec": fields},
        gang=gang.by_policy(spec.source, spec.framework.gangs),
        fixed=f"{elastic} is not set" if elastic else None,
    )
    return structs.replace(job, **described.changes)
