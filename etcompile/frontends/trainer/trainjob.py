"""TrainJob of Kubeflow Trainer v2 (`trainer.kubeflow.org/v1alpha1`) to a job.

reference/trainer-v2.md. The document that is read here is the one that `merge` makes of a
TrainJob and its runtime. What Trainer leaves to JobSet and to the Job controller is done as they
do it: one headless Service, names of Pods that are their host names, their labels and annotations.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends import gang, restarts
from etcompile.frontends.annotations import (
    GATE_TIMEOUT,
    NNODES,
    annotations_of,
    flag_errors,
    gate_timeout,
    unknown_annotations,
)
from etcompile.frontends.document_parts import clean_document, main_container, pod_template
from etcompile.frontends.hosts import SSH_PORT
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import template_notes
from etcompile.frontends.operators import TRAINER
from etcompile.frontends.restarts import TOGETHER
from etcompile.frontends.trainer import (
    elastic_nodes,
    exclusive_topology,
    mpi_policy,
    policies,
)
from etcompile.frontends.trainer.merge import JOB_SET, RUNTIME, claims, step_of, trainers
from etcompile.frontends.trainer.policies import INDEX, MAIN
from etcompile.k8s.path import value_at
from etcompile.model import (
    ConfigFile,
    Gate,
    HostList,
    Job,
    Member,
    Naming,
    Origin,
    PodAdditions,
    Recovery,
    Role,
    RoleLabels,
    RunPolicy,
    SharedService,
    Success,
)
from etcompile.model.protocol import SCRIPTS_PATH, config_name

API_VERSION = "trainer.kubeflow.org/v1alpha1"
_JOB_SET_LABEL = "jobset.sigs.k8s.io"
ANNOTATIONS = (
    TOGETHER,
    SSH_PORT,
    GATE_TIMEOUT,
    NNODES,
    *gang.ANNOTATIONS,
    *restarts.ANNOTATIONS,
)
_DEADLINE = "activeDeadlineSeconds"
_APART = "exclusive topology tells Jobs of one name apart by it"


class _Part(Struct, frozen=True):
    """A Job of the JobSet that Trainer would make.

    Args:
        replicated: Its replicatedJob, JSON.
        place: Which of the replicatedJobs that is.
        number: Its number among the Jobs of that.
        numbers: Its numbers, and how many there are, as JobSet's labels tell them.
    """

    replicated: Mapping[str, Any]
    place: int
    number: int
    numbers: Mapping[str, str]

    @property
    def role(self) -> str:
        """The name of the role that it becomes."""
        name: str = self.replicated["name"]
        return f"{name}-{self.number}" if (self.replicated.get("replicas") or 1) > 1 else name

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the Job."""
        found: Mapping[str, Any] = self.replicated["template"]["spec"]
        return found


def lower(source: Source) -> Lowered:
    """The job of a TrainJob that its runtime is merged into; none of one without a runtime."""
    if not _is_whole(source.data.get(RUNTIME)):
        return Lowered(None)
    notes = [*unknown_annotations(source, ANNOTATIONS), *flag_errors(source, (TOGETHER,))]
    data, name = source.data, source.data["metadata"]["name"]
    runtime = data[RUNTIME]["spec"]
    job_set = runtime["template"]["spec"]
    jobs = job_set["replicatedJobs"]
    trains = next((jobs[place]["name"] for place in trainers(jobs)), None)
    asked, gang_problems = gang.by_runtime(source, (RUNTIME, "spec"), trains)
    timeout, problems = gate_timeout(source)
    notes += (*gang_problems, *problems)
    subdomain = policies.subdomain(data, runtime)
    parts = _parts(job_set, policies.coordinator(data, runtime))
    max_restarts = (job_set.get("failurePolicy") or {}).get("maxRestarts") or 0
    success = _success(job_set, parts)
    ends = {*success.roles, *_awaited(parts)}
    made = [_role(source, name, part, ends=part.role in ends) for part in parts]
    roles = tuple(role for role, _ in made)
    for _, told in made:
        notes += told
    lists: tuple[HostList, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    credentials = None
    if policies.mpi(runtime) is not None:
        mpi = mpi_policy.described(source, runtime, roles)
        roles, lists, credentials = mpi.roles, mpi.host_lists, mpi.credentials
        files = mpi.files
        notes += mpi.diagnostics
    elastic = elastic_nodes.described(source, runtime, roles, success, {*_awaited(parts)})
    roles, success = elastic.roles, elastic.success
    notes += elastic.diagnostics
    roles, more = _gated(parts, roles, timeout, runtime)
    notes += _watched(source, roles)
    has_key = any(exclusive_topology.JOB_KEY in role.labels.pods for role in roles)
    job = Job(
        name=name,
        namespace=data["metadata"].get("namespace"),
        kind="TrainJob",
        api_version=API_VERSION,
        roles=roles,
        selector={f"{_JOB_SET_LABEL}/jobset-name": name},
        run=RunPolicy(
            restart="OnFailure" if max_restarts else "Never",
            backoff_limit=max_restarts,
            keeps_clock=True,
            # JobSet deletes what still runs and leaves what has ended.
            clean_pods="Running",
            success=success,
            suspended=bool(data["spec"].get("suspend")),
            suspended_by=("spec", "suspend"),
            deadline=data["spec"].get(_DEADLINE),
            ttl=_ttl(job_set),
            together=annotations_of(source).get(TOGETHER) == "true",
        ),
        config_name=config_name(name),
        document={**clean_document(source, ANNOTATIONS), RUNTIME: data[RUNTIME]},
        identity=_identity(name, roles, subdomain, parts),
        origin=Origin(source),
        # Host names are written with the Service's name, so that they need no search domain.
        service=SharedService(subdomain, searched=False),
        files=files,
        host_lists=(*lists, *more),
        credentials=credentials,
        slots=mpi_policy.slots_of(data, runtime),
        claims=claims(data, runtime),
        gang=asked,
        names_namespace=_APART if has_key else None,
        fixed=elastic.fixed,
    )
    again, problems = restarts.by_annotation(source)
    notes += problems
    if again is None:
        return Lowered(job, tuple(notes))
    each = elastic_nodes.restarting_alone(runtime, roles)
    notes += restarts.contradiction(source, roles, each)
    notes += _not_in_place(source, roles, each)
    return Lowered(restarts.restarted(job, again, each), tuple(notes))


def _not_in_place(
    source: Source, roles: Sequence[Role], each: tuple[str, ...] | None
) -> Iterator[Diagnostic]:
    """Why the commands of a job cannot run again as its kind has it."""
    if each is None and len(roles) > 1:
        names = " and ".join(role.name for role in roles)
        problem = f"{names} would all run again together, also what has succeeded by then"
        advice = f"remove it, or let each node restart by itself: {NNODES} for torch"
        yield restarts.impossible(source, problem, advice)
    elif each == ():
        problem = "its runtime has no launcher, and the nodes of MPI only serve one"
        yield restarts.impossible(source, problem, "remove it")


def _is_whole(runtime: Any) -> bool:
    """Whether all Pod templates have containers: one that was faulty may be cut off."""
    jobs = value_at(runtime, ("spec", "template", "spec", "replicatedJobs"))
    below = ("template", "spec", "template", "spec", "containers")
    return isinstance(jobs, list) and all(value_at(replicated, below) for replicated in jobs)


def _parts(job_set: Mapping[str, Any], coordinator: str | None) -> list[_Part]:
    """The Jobs that JobSet makes, but those without Pods (reference 7.4)."""
    jobs: Sequence[Mapping[str, Any]] = job_set["replicatedJobs"]
    more = {}
    if coordinator is not None:
        more["coordinator"] = coordinator
    count = [replicated.get("replicas") or 1 for replicated in jobs]
    groups = [str(replicated.get("groupName") or "default") for replicated in jobs]
    of_group: dict[str, int] = {}
    for group, replicas in zip(groups, count, strict=True):
        of_group[group] = of_group.get(group, 0) + replicas
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
                "group-replicas": of_group[group],
                "job-group-index": seen.get(group, 0),
                **more,
            }
            seen[group] = seen.get(group, 0) + 1
            if replicated["template"]["spec"]["parallelism"]:
                labels = {f"{_JOB_SET_LABEL}/{key}": str(value) for key, value in numbers.items()}
                parts.append(_Part(replicated, place, number, labels))
    return parts


def _ttl(job_set: Mapping[str, Any]) -> int | None:
    """Seconds after which what is left of a run may go: the JobSet's, or the longest of its Jobs.

    None if one of the Jobs is to stay.
    """
    if (own := job_set.get("ttlSecondsAfterFinished")) is not None:
        return int(own)
    specs = [replicated["template"]["spec"] for replicated in job_set["replicatedJobs"]]
    ttls = [spec.get("ttlSecondsAfterFinished") for spec in specs]
    return None if None in ttls else max(ttls)


def _success(job_set: Mapping[str, Any], parts: Sequence[_Part]) -> Success:
    """Which Jobs decide that the run has succeeded (reference 7.5)."""
    policy = job_set.get("successPolicy", {})
    targets = policy.get("targetReplicatedJobs") or ()
    roles = [part.role for part in parts if not targets or part.replicated["name"] in targets]
    any_of = policy.get("operator") == "Any" and len(roles) > 1
    return Success(tuple(roles), "any" if any_of else "all")


def _awaited(parts: Sequence[_Part]) -> Iterator[str]:
    """The roles that others wait for until they have succeeded."""
    named = {
        entry["name"]
        for part in parts
        for entry in part.replicated.get("dependsOn", ())
        if entry["status"] == "Complete"
    }
    return (part.role for part in parts if part.replicated["name"] in named)


def _role(source: Source, job: str, part: _Part, *, ends: bool) -> tuple[Role, list[Diagnostic]]:
    """The Pods of a Job of a JobSet, which is an Indexed one (reference 7.4)."""
    path = (*JOB_SET, "replicatedJobs", part.place, "template", "spec", "template")
    origin = Origin(source, path)
    spec, name = part.spec, part.replicated["name"]
    template = spec["template"]
    restart = template["spec"].get("restartPolicy") or "OnFailure"
    main, problems = _main(origin, template, part)
    stem = f"{job}-{name}-{part.number}"
    pod_spec, numbers = template["spec"], part.numbers
    own: Mapping[str, str] = {}
    topology = exclusive_topology.topology_of(source.data[RUNTIME]["spec"], part.replicated)
    if topology is not None:
        key = exclusive_topology.job_key(source.data["metadata"].get("namespace"), stem)
        pod_spec = exclusive_topology.kept_apart(pod_spec, topology, key)
        numbers = {**numbers, exclusive_topology.JOB_KEY: key}
        own = {exclusive_topology.PRIORITY: exclusive_topology.priority(pod_spec)}
    noted = {exclusive_topology.TOPOLOGY: topology} if topology is not None else {}
    annotations = {
        **template.get("metadata", {}).get("annotations", {}),
        **noted,
        f"{_JOB_SET_LABEL}/jobset-name": job,
        f"{_JOB_SET_LABEL}/replicatedjob-name": name,
        **numbers,
    }
    made = pod_template(origin, template, main, annotations=annotations, spec=pod_spec)
    given = (spec.get(_DEADLINE), source.data["spec"].get(_DEADLINE))
    deadlines = [seconds for seconds in given if seconds is not None]
    # Of several Jobs of a replicatedJob each finds its own Pods.
    several = {f"{_JOB_SET_LABEL}/job-index": part.numbers[f"{_JOB_SET_LABEL}/job-index"]}
    role = Role(
        name=part.role,
        naming=Naming(stem=stem),
        labels=RoleLabels(
            common={
                f"{_JOB_SET_LABEL}/replicatedjob-name": name,
                **(several if part.role != name else {}),
            },
            pods={**numbers, **own, "batch.kubernetes.io/job-name": stem, "job-name": stem},
            index=INDEX,
            annotated=True,
        ),
        members=tuple(Member(index) for index in range(spec["parallelism"])),
        template=made,
        origin=origin,
        additions=PodAdditions(run_once=ends),
        recovery=Recovery(
            restart="OnFailure",
            pod_restart=restart,
            # The Job controller makes a Pod again that is gone.
            comes_back="when-gone",
            deadline=min(deadlines, default=None),
            serves=not ends,
            failures=policies.backoff_limit(spec),
        ),
    )
    return role, [*problems, *template_notes(origin, template, restart_policy=restart)]


def _main(origin: Origin, template: Mapping[str, Any], part: _Part) -> tuple[str, list[Diagnostic]]:
    """The container that does the work: the one that Trainer knows by its name, if it is there."""
    names = [container["name"] for container in template["spec"]["containers"]]
    for known in (MAIN, step_of(part.replicated)):
        if known is not None and known in names:
            return known, []
    named, problems = main_container(origin, template)
    return named or names[0], problems


def _gated(
    parts: Sequence[_Part],
    roles: Sequence[Role],
    timeout: int,
    runtime: Mapping[str, Any],
) -> tuple[tuple[Role, ...], list[HostList]]:
    """The roles with what they wait for, and the lists of hosts that they look at (`dependsOn`)."""
    made, lists = [], []
    by_role = {role.name: role for role in roles}
    for part, role in zip(parts, roles, strict=True):
        status = {entry["name"]: entry["status"] for entry in part.replicated.get("dependsOn", ())}
        of: dict[str, list[Role]] = {"Ready": [], "Complete": []}
        for other in parts:
            if (waits := status.get(other.replicated["name"])) is not None:
                of[waits].append(by_role[other.role])
        ready, complete = of["Ready"], of["Complete"]
        if not ready and not complete:
            made.append(role)
            continue
        # A launcher that is a host of its own must be known by its name too (defect T18).
        itself = bool(ready) and mpi_policy.is_own_host(runtime, role.name)
        key = f"hosts-of-{role.name}" if ready else ""
        names = [other.name for other in ready]
        if ready:
            listed = (*names, role.name) if itself else tuple(names)
            lists.append(HostList(key, listed, "{host}", live=False))
        ssh = mpi_policy.is_reached_by_ssh(runtime, names)
        # The same for all of them: `unsupported` has looked.
        ports = (policies.ready_port(other.template.spec) for other in ready)
        gate = Gate(
            roles=tuple(names),
            hosts=f"{SCRIPTS_PATH}/{key}" if ready else "",
            mounts=(),
            ssh=ssh,
            timeout=timeout,
            name="wait-for-workers" if ready else "wait-for-jobs",
            file=key or None,
            port=None if ssh else next((port for port in ports if port is not None), None),
            completed=tuple(other.name for other in complete),
            itself=itself,
        )
        additions = structs.replace(role.additions, gate=gate)
        made.append(structs.replace(role, additions=additions))
    return tuple(made), lists


def _watched(source: Source, roles: Sequence[Role]) -> Iterator[Diagnostic]:
    """A warning for a job of which Pods wait for others to succeed."""
    waiting = [role for role in roles if role.additions.gate and role.additions.gate.completed]
    if not waiting:
        return
    # The runtime may be one that Trainer ships, and not be in any file.
    place = source.locate(("spec", "runtimeRef", "name"))
    gates = [role.additions.gate for role in waiting if role.additions.gate]
    awaited = dict.fromkeys(name for gate in gates for name in gate.completed)
    facts = {"waiting": ", ".join(role.name for role in waiting)}
    yield diagnose(codes.NEEDS_WATCHER, place, **facts, awaited=" and ".join(awaited))


def _identity(
    name: str, roles: Sequence[Role], subdomain: str, parts: Sequence[_Part]
) -> dict[str, Any]:
    """What the job's Pods are made of, without what only a watcher reads.

    Nor how many nodes a role has that scales: its Pods do not know.
    """
    return {
        "kind": "TrainJob",
        "name": name,
        "subdomain": subdomain,
        "jobs": [
            {
                "name": role.naming.stem,
                **({} if role.bounds else {"nodes": len(role.members)}),
                "template": {"spec": role.template.spec},
                "dependsOn": part.replicated.get("dependsOn", []),
            }
            for part, role in zip(parts, roles, strict=True)
        ],
    }


KINDS = (
    Kind(
        api_version=API_VERSION,
        name="TrainJob",
        schema="TrainJob.json",
        lower=lower,
        summary="Kubeflow Trainer v2: torch, JAX, XGBoost, MPI and plain jobs, with their runtimes",
        pod_counts=(("spec", "trainer", "numNodes"),),
        pod_templates=((*JOB_SET, "replicatedJobs", "*", "template", "spec", "template"),),
        volumes=(mpi_policy.KEYS, mpi_policy.HOSTS.volume),
        managed_by=("spec", "managedBy"),
        managers=("trainer.kubeflow.org/trainjob-controller",),
        operator=TRAINER,
    ),
)
