"""Turn a TrainJob of Kubeflow Trainer v2 (`trainer.kubeflow.org/v1alpha1`) into a job.

See reference/trainer-v2.md. The document is the result of `merge`. As JobSet and the Job
controller would, this module creates one headless Service, Pods whose names are their host names,
and their labels and annotations.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile import model
from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends import annotations, gang
from etcompile.frontends.annotations import FLAG, NNODES, TOGETHER, annotations_of
from etcompile.frontends.document_parts import clean_document, main_container, pod_template
from etcompile.frontends.kind import TRAINER, Kind, Lowered
from etcompile.frontends.notes import template_notes
from etcompile.frontends.ssh_access import SSH_PORT
from etcompile.frontends.trainer import elastic_nodes, policies
from etcompile.frontends.trainer.runtimes import JOB_KIND, RUNTIME_KINDS
from etcompile.frontends.trainer.training_run import (
    INDEX,
    JOB_SET,
    LAUNCHER,
    MAIN,
    NODE,
    POD,
    RUNTIME,
    Training,
    backoff_limit,
    ready_port,
    step_of,
)
from etcompile.model.protocol import SCRIPTS_PATH, config_name

API_VERSION = "trainer.kubeflow.org/v1alpha1"
ANNOTATIONS = {
    TOGETHER: FLAG,
    SSH_PORT: annotations.ANY,
    **annotations.GATED,
    NNODES: annotations.ANY,
    **gang.ANNOTATIONS,
    **annotations.OF_RESTARTS,
}
_JOB_SET_LABEL = "jobset.sigs.k8s.io"
_REPLICATED_JOB = f"{_JOB_SET_LABEL}/replicatedjob-name"
_JOB_KEY = f"{_JOB_SET_LABEL}/job-key"
"""The label that distinguishes a Job's Pods from those of all others in the cluster."""
_PRIORITY = f"{_JOB_SET_LABEL}/priority"
"""The label with the priority of a Pod: a Job may replace one of lower priority."""
TOPOLOGY = f"alpha.{_JOB_SET_LABEL}/exclusive-topology"
"""The annotation of a JobSet, or of a Job's template, that gives each Job an exclusive zone, rack
or node. Its value is a label of nodes."""
_SYSTEM = {"system-cluster-critical": "2000000000", "system-node-critical": "2000001000"}
_APART = "exclusive topology tells Jobs of one name apart by it"
_DEADLINE = "activeDeadlineSeconds"


class _Part(Struct, frozen=True):
    """A Job of the JobSet that Trainer would create.

    Args:
        place: The number of its replicatedJob.
        number: Its number among the Jobs of that.
        numbers: JobSet's labels with its numbers and counts.
    """

    replicated: Mapping[str, Any]
    place: int
    number: int
    numbers: Mapping[str, str]

    @property
    def role(self) -> str:
        name: str = self.replicated["name"]
        return f"{name}-{self.number}" if (self.replicated.get("replicas") or 1) > 1 else name

    def waits_for(self, status: str) -> set[str]:
        entries = self.replicated.get("dependsOn", ())
        return {entry["name"] for entry in entries if entry["status"] == status}


def lower(source: Source) -> Lowered:
    if RUNTIME not in source.data:
        return None, ()
    data, training = source.data, Training(source, model.Origin(source, (RUNTIME,)))
    name, job_set = training.name, training.job_set
    trainer = next((training.jobs[place]["name"] for place in training.trainers), None)
    parts = _parts(job_set, training.coordinator)
    # These Jobs decide that the run has succeeded (reference 7.5).
    policy = job_set.get("successPolicy", {})
    targets = policy.get("targetReplicatedJobs") or ()
    deciding = [part.role for part in parts if not targets or part.replicated["name"] in targets]
    any_of = policy.get("operator") == "Any" and len(deciding) > 1
    success = model.Success(tuple(deciding), "any" if any_of else "all")
    awaited = {name for part in parts for name in part.waits_for("Complete")}
    awaited = {part.role for part in parts if part.replicated["name"] in awaited}
    roles: list[model.Role] = []
    notes: list[Diagnostic] = []
    for part in parts:
        role, problems = _role(training, part, ends=part.role in {*success.roles, *awaited})
        roles.append(role)
        notes += problems
    of_mpi, fields, problems = policies.with_mpi(training, roles)
    elastic = elastic_nodes.described(training, of_mpi, success, awaited)
    gated, lists = _with_gates(parts, elastic.roles, training)
    notes += [*problems, *elastic.diagnostics]
    gates = {role.name: role.additions.gate for role in gated if role.additions.gate}
    if waiting := {name: gate.completed for name, gate in gates.items() if gate.completed}:
        # The runtime may be one that Trainer ships, which is in no file of the user.
        place = source.locate(("spec", "runtimeRef", "name"))
        others = dict.fromkeys(name for names in waiting.values() for name in names)
        facts = {"waiting": ", ".join(waiting), "awaited": " and ".join(others)}
        notes.append(diagnose(codes.NEEDS_WATCHER, place, **facts))
    # Finished Pods may go after the JobSet's time, or the longest of Jobs, unless one Job stays.
    if (ttl := job_set.get("ttlSecondsAfterFinished")) is None:
        specs = [replicated["template"]["spec"] for replicated in job_set["replicatedJobs"]]
        ttls = [spec.get("ttlSecondsAfterFinished") for spec in specs]
        ttl = None if None in ttls else max(ttls)
    max_restarts = (job_set.get("failurePolicy") or {}).get("maxRestarts") or 0
    apart = any(_JOB_KEY in role.labels.pods for role in gated)
    job = model.Job(
        **training.of_job,
        roles=gated,
        selector={f"{_JOB_SET_LABEL}/jobset-name": name},
        run=model.RunPolicy(
            restart="OnFailure" if max_restarts else "Never",
            backoff_limit=max_restarts,
            keeps_clock=True,
            # JobSet deletes running Pods and leaves those that have ended.
            clean_pods="Running",
            success=elastic.success,
            suspended=bool(data["spec"].get("suspend")),
            suspended_by=("spec", "suspend"),
            deadline=data["spec"].get(_DEADLINE),
            ttl=None if ttl is None else int(ttl),
            together=annotations_of(source).get(TOGETHER) == "true",
        ),
        config_name=config_name(name),
        document={**clean_document(source, ANNOTATIONS), RUNTIME: data[RUNTIME]},
        # No policies of the watcher, no sizes of elastic roles.
        identity={
            "kind": "TrainJob",
            "name": name,
            "subdomain": training.subdomain,
            "jobs": [
                {
                    "name": role.naming.stem,
                    **({} if role.bounds else {"nodes": len(role.members)}),
                    "template": {"spec": role.template.spec},
                    "dependsOn": part.replicated.get("dependsOn", []),
                }
                for part, role in zip(parts, gated, strict=True)
            ],
        },
        # Host names contain the Service's name, so they need no search domain.
        service=model.SharedService(training.subdomain, searched=False),
        host_lists=(*fields.pop("host_lists", ()), *lists),
        claims=tuple(
            model.Claim(
                name=training.claim_name(template),
                spec=template.get("spec", {}),
                labels=template["metadata"].get("labels", {}),
                annotations=template["metadata"].get("annotations", {}),
            )
            for template in training.claims
        ),
        gang=gang.by_runtime(source, (RUNTIME, "spec"), trainer),
        names_namespace=_APART if apart else None,
        fixed=elastic.fixed,
        **fields,
    )
    if not annotations.restarts_in_place(source):
        return job, notes
    each = elastic_nodes.restarting_alone(training, gated)
    notes += annotations.contradiction(source, gated, each)
    if each is None and len(gated) > 1:
        names = " and ".join(role.name for role in gated)
        problem = f"{names} would all run again together, also what has succeeded by then"
        advice = f"remove it, or let each node restart by itself: {NNODES} for torch"
        notes.append(annotations.impossible(source, problem, advice))
    elif each == ():
        problem = "its runtime has no launcher, and the nodes of MPI only serve one"
        notes.append(annotations.impossible(source, problem, "remove it"))
    return annotations.restarted(job, source, each), notes


def _parts(job_set: Mapping[str, Any], coordinator: str | None) -> list[_Part]:
    """Return the Jobs that JobSet creates, except those without Pods (reference 7.4)."""
    jobs: Sequence[Mapping[str, Any]] = job_set["replicatedJobs"]
    more = {} if coordinator is None else {"coordinator": coordinator}
    count = [replicated.get("replicas") or 1 for replicated in jobs]
    groups = [str(replicated.get("groupName") or "default") for replicated in jobs]
    sizes = [*zip(groups, count, strict=True)]
    seen: dict[str, int] = {}
    parts = []
    for place, replicated in enumerate(jobs):
        group = groups[place]
        for number in range(count[place]):
            numbers = {
                "restart-attempt": 0,
                "replicatedjob-replicas": count[place],
                "global-replicas": sum(count),
                "job-index": number,
                "job-global-index": sum(count[:place]) + number,
                "group-name": group,
                "group-replicas": sum(size for other, size in sizes if other == group),
                "job-group-index": seen.get(group, 0),
                **more,
            }
            seen[group] = seen.get(group, 0) + 1
            if replicated["template"]["spec"]["parallelism"]:
                labels = {f"{_JOB_SET_LABEL}/{key}": str(value) for key, value in numbers.items()}
                parts.append(_Part(replicated, place, number, labels))
    return parts


def _role(training: Training, part: _Part, *, ends: bool) -> tuple[model.Role, list[Diagnostic]]:
    """Return the Pods of a Job of a JobSet, which is an Indexed one (reference 7.4)."""
    origin = training.runtime.at(*JOB_SET, "replicatedJobs", part.place, *POD[:-1])
    job, name = training.name, part.replicated["name"]
    spec = part.replicated["template"]["spec"]
    template, pod_spec = spec["template"], spec["template"]["spec"]
    restart = pod_spec.get("restartPolicy") or "OnFailure"
    stem = f"{job}-{name}-{part.number}"
    # Trainer finds the container that trains by its name; other Jobs need not have one.
    problems: list[Diagnostic] = []
    names = [container["name"] for container in pod_spec["containers"]]
    main = next((known for known in (MAIN, step_of(part.replicated)) if known in names), None)
    if main is None:
        main, problems = main_container(origin, template)
    numbers, exclusive, domain = part.numbers, {}, {}
    # The label of nodes of the Job's exclusive domain.
    holders = (part.replicated["template"], training.spec["template"])
    stated = (holder.get("metadata", {}).get("annotations", {}).get(TOPOLOGY) for holder in holders)
    if (topology := next((name for name in stated if name is not None), None)) is not None:
        namespace = training.source.data["metadata"].get("namespace") or "default"
        text = f"{namespace}/{stem}".encode()
        key = hashlib.sha1(text, usedforsecurity=False).hexdigest()
        # JobSet uses the number; that of a class is unknown, so use its name.
        named = str(pod_spec.get("priorityClassName") or "")[:63].rstrip("-.")
        priority = str(pod_spec.get("priority") or _SYSTEM.get(named, named) or 0)
        # The Pods share a domain with no other Job of the same priority. JobSet binds the first
        # Pod, and lets the others follow it by a nodeSelector (reference 7.4). Here all Pods have
        # the affinity of the first, with the same result.
        this = {"key": _JOB_KEY, "operator": "In", "values": [key]}
        same = {"key": _PRIORITY, "operator": "In", "values": [priority]}
        others = [{"key": _JOB_KEY, "operator": "Exists"}, {**this, "operator": "NotIn"}, same]
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity = dict(pod_spec.get("affinity", {}))
        for field, expressions in (("podAffinity", [this]), ("podAntiAffinity", others)):
            term = {
                "labelSelector": {"matchExpressions": expressions},
                "topologyKey": topology,
                "namespaceSelector": {},
            }
            before = affinity.get(field, {})
            affinity[field] = {**before, required: [*before.get(required, ()), term]}
        pod_spec = {**pod_spec, "affinity": affinity}
        numbers = {**numbers, _JOB_KEY: key}
        exclusive, domain = {_PRIORITY: priority}, {TOPOLOGY: topology}
    noted = {
        **template.get("metadata", {}).get("annotations", {}),
        **domain,
        f"{_JOB_SET_LABEL}/jobset-name": job,
        _REPLICATED_JOB: name,
        **numbers,
    }
    common = {_REPLICATED_JOB: name}
    if part.role != name:
        # Distinguishes the Pods of several Jobs of a replicatedJob.
        index = f"{_JOB_SET_LABEL}/job-index"
        common[index] = part.numbers[index]
    deadlines = (spec.get(_DEADLINE), training.fields.get(_DEADLINE))
    role = model.Role(
        name=part.role,
        naming=model.Naming(stem=stem),
        labels=model.RoleLabels(
            common=common,
            pods={**numbers, **exclusive, "batch.kubernetes.io/job-name": stem, "job-name": stem},
            index=INDEX,
            annotated=True,
        ),
        members=tuple(model.Member(index) for index in range(spec["parallelism"])),
        template=pod_template(origin, template, main or names[0], annotations=noted, spec=pod_spec),
        origin=origin,
        additions=model.PodAdditions(run_once=ends),
        recovery=model.Recovery(
            restart="OnFailure",
            pod_restart=restart,
            # The Job controller recreates a Pod that is gone.
            comes_back="when-gone",
            deadline=min((seconds for seconds in deadlines if seconds is not None), default=None),
            serves=not ends,
            failures=backoff_limit(part.replicated),
        ),
    )
    return role, [*problems, *template_notes(origin, template, restart_policy=restart)]


def _with_gates(
    parts: Sequence[_Part], roles: Sequence[model.Role], training: Training
) -> tuple[tuple[model.Role, ...], list[model.HostList]]:
    gated: list[model.Role] = []
    lists: list[model.HostList] = []
    others = [*zip(parts, roles, strict=True)]
    for part, role in others:
        ready, complete = (
            [other for of, other in others if of.replicated["name"] in part.waits_for(status)]
            for status in ("Ready", "Complete")
        )
        if not ready and not complete:
            gated.append(role)
            continue
        # A launcher that is in its hostfile also waits until its name resolves (defect T18).
        itself = bool(ready) and role.name == LAUNCHER and training.launcher_is_node
        key = f"hosts-of-{role.name}" if ready else ""
        names = tuple(other.name for other in ready)
        if ready:
            listed = (*names, role.name) if itself else names
            lists.append(model.HostList(key, listed, "{host}", live=False))
        ssh = training.mpi is not None and NODE in names
        # `unsupported` ensures that all of them have the same port.
        ports = (ready_port(other.template.spec) for other in ready)
        gate = model.Gate(
            roles=names,
            hosts=f"{SCRIPTS_PATH}/{key}" if ready else "",
            ssh=ssh,
            timeout=annotations.gate_timeout(training.source),
            name="wait-for-workers" if ready else "wait-for-jobs",
            file=key or None,
            port=None if ssh else next((port for port in ports if port is not None), None),
            completed=tuple(other.name for other in complete),
            itself=itself,
        )
        additions = structs.replace(role.additions, gate=gate)
        gated.append(structs.replace(role, additions=additions))
    return tuple(gated), lists


KINDS = (
    Kind(
        api_version=API_VERSION,
        name=JOB_KIND,
        schema="TrainJob.json",
        lower=lower,
        summary="Kubeflow Trainer v2: torch, JAX, XGBoost, MPI and plain jobs, with their runtimes",
        annotations=ANNOTATIONS,
        pod_counts=(("spec", "trainer", "numNodes"),),
        pod_templates=((RUNTIME, *JOB_SET, "replicatedJobs", "*", *POD[:-1]),),
        volumes=(policies.MPI_KEYS, policies.MPI_HOSTS.volume),
        managed_by=("spec", "managedBy"),
        managers=("trainer.kubeflow.org/trainjob-controller",),
        operator=TRAINER,
        refers_by=(("spec", "runtimeRef", "name"),),
        refers_to=RUNTIME_KINDS,
    ),
)
