"""Convert jobs of the Training Operator to TrainJobs, each with a TrainingRuntime.

This is for clusters that change to Trainer. Fields that have no counterpart there are reported with
their places.

All nodes get one template: the master's, or the workers' if there is no master. It goes into the
runtime, because a TrainJob has no template (reference/trainer-v2.md 2). So do the variables that
the Training Operator sets and Trainer does not (5.1), for programs that read RANK or MASTER_ADDR.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.backend.pod_fields import merged_variables
from etcompile.compiler import olderapis
from etcompile.compiler.choices import Options
from etcompile.compiler.pipeline import compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, Severity, ValuePath, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.kubeflow.framework import API_VERSION, Framework
from etcompile.frontends.trainer.policies import RESERVED
from etcompile.frontends.trainer.runtimes import JOB_KIND, RUNTIME_KINDS, RUNTIME_VERSION
from etcompile.frontends.trainer.training_run import INDEX, MAIN, POLICIES, PORT
from etcompile.frontends.trainer.trainjob import ANNOTATIONS
from etcompile.integrations.migrate.migration import Migrated
from etcompile.k8s.path import containers_of, dotted
from etcompile.k8s.requests import gpus
from etcompile.load import Document

_LONGEST_POD = 63
"""The longest name of a Pod that JobSet lets a Job have."""
_SUFFIX = "-abcde"
"""A suffix as long as the one that the Job controller adds."""
_RESTARTS = {
    "Always": "it becomes OnFailure: a container that has succeeded is not started again",
    "ExitCode": "it becomes Never: each failure of a Pod counts, whatever its exit code",
}
_FOR_EVER = 2**31 - 1
"""The backoffLimit of Pods that always restart."""
_OF_A_JOB = 6
"""The default backoffLimit of a Job."""
_ADDRESSES = frozenset({"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK"})
"""Set by the operator in a PyTorchJob with a master only (training-operator-pytorchjob.md 1)."""
_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
_TRAINER = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
"""The metadata of the replicatedJob that the fields of a TrainJob apply to."""
_MANAGERS = (None, "kubeflow.org/training-operator")


class _OperatorJob(Struct, frozen=True):
    """A job of the Training Operator that is to become a TrainJob.

    Args:
        name: The name of the job, its TrainJob and its runtime.
        policy: Trainer's policy for its framework.
        replicas: Its replica types, the first node's first.
        first: The replica type whose template all nodes get.
        restart: The restartPolicy of that one.
        processes: The processes of a node: a number, or how to find it.
        annotations: The job's, not its Pods'.
    """

    document: Document
    name: str
    framework: Framework
    policy: str
    spec: Mapping[str, Any]
    replicas: Mapping[str, Mapping[str, Any]]
    first: Mapping[str, Any]
    restart: str
    processes: str
    annotations: Mapping[str, str]

    def lost(
        self, path: ValuePath, reason: str, advice: str, name: str | None = None
    ) -> Diagnostic:
        """Report that a field is lost; it is called by its path, or by `name`.

        Args:
            advice: What to do; `NAME` in it is the job's.
        """
        where = name or dotted(path)
        advice = advice.replace("NAME", self.name)
        place = self.document.locate(path, key=True)
        return diagnose(codes.NOT_CARRIED_OVER, place, where=where, reason=reason, advice=advice)


def to_trainjobs(documents: Sequence[Document], options: Options | None = None) -> Migrated:
    """Convert jobs of the Training Operator to the files of TrainJobs.

    Args:
        documents: Jobs of `kubeflow.org/v1`, or of an older version.

    Returns:
        NAME.yaml and NAME-runtime.yaml of each job; none if one was refused. The diagnostics say
        what is lost.
    """
    # A job that Kueue starts in another cluster has to compile, too.
    options = structs.replace(options or Options(), ignore_managed_by=True)
    files: dict[str, str] = {}
    diagnostics: list[Diagnostic] = []
    for document in documents:
        today = olderapis.current(document)
        diagnostics += today.diagnostics
        if not has_errors(today.diagnostics):
            result = _to_trainjob(today.document, options)
            files |= result.files
            diagnostics += result.diagnostics
    if not files and not diagnostics:
        diagnostics.append(diagnose(codes.NOTHING_TO_MIGRATE, None, example="pytorchjob"))
    return Migrated({} if has_errors(diagnostics) else files, tuple(dict.fromkeys(diagnostics)))


def _to_trainjob(document: Document, options: Options) -> Migrated:

    def refused(path: ValuePath, reason: str, *losses: Diagnostic) -> Migrated:
        place = document.locate(path)
        problem = diagnose(codes.NO_TRAINJOB, place, kind=document.kind or "", reason=reason)
        return Migrated({}, (*losses, problem))

    rows = {
        kind.name: kind.definition
        for kind in frontends.kinds()
        if isinstance(kind.definition, Framework) and kind.api_version == API_VERSION
    }
    framework = rows.get(document.kind or "")
    if framework is None or not framework.trainer or document.api_version != API_VERSION:
        convertible = [row for row in rows.values() if row.trainer]
        convertible.sort(key=lambda row: POLICIES.index(row.trainer))
        names = ", ".join(row.kind for row in convertible)
        reason = framework.without_trainer if framework else ""
        reason = reason or f"only {names} of {API_VERSION} are converted"
        return refused(("kind",), reason)
    before = compile([document], options)
    if not before.ok:
        return Migrated({}, before.diagnostics)
    spec = document.data["spec"]
    types = {name.capitalize(): name for name in spec[framework.types]}
    replicas = {
        types[role]: spec[framework.types][types[role]]
        for role in ("Master", "Worker")
        if role in types
    }
    first = next(iter(replicas.values()))
    job = _OperatorJob(
        document=document,
        name=str(document.name),
        framework=framework,
        policy=framework.trainer,
        spec=spec,
        replicas=replicas,
        first=first,
        restart=str(first.get("restartPolicy") or framework.restart),
        processes=str(spec.get("nprocPerNode") or "auto"),
        annotations=document.data["metadata"].get("annotations") or {},
    )
    for at, container in containers_of(first["template"]["spec"]):
        if container["name"] == MAIN:
            path = ("spec", framework.types, next(iter(replicas)), "template", "spec")
            reason = f"Trainer wants the name '{MAIN}' for the container that trains"
            reason += f", which is '{framework.container}' here: rename the other one"
            return refused((*path, *at, "name"), reason)
    diagnostics = [*_losses(job)]
    train_job, runtime = _converted(job)
    count = train_job["spec"]["trainer"]["numNodes"]
    rest = f"-{MAIN}-0-{max(count, 1) - 1}{_SUFFIX}"
    most = _LONGEST_POD - len(rest)
    if len(job.name) > most:
        # Trainer would report it in an Event only (defect T13).
        reason = f"a Pod would be called {job.name}{rest}, and JobSet takes {_LONGEST_POD}"
        reason += f" characters: the job's name may have {most}, and has {len(job.name)}"
        return refused(("metadata", "name"), reason, *diagnostics)
    after = compile([train_job, runtime], options)
    diagnostics += (d for d in after.diagnostics if d.severity is Severity.ERROR)
    head = f"# {document.label} of {document.relative}, for Kubeflow Trainer.\n"
    files = {
        f"{job.name}.yaml": head + to_yaml(train_job),
        f"{job.name}-runtime.yaml": head + to_yaml(runtime),
    }
    return Migrated(files, tuple(diagnostics))


# What does not carry over -------------------------------------------------------------------------


def _losses(job: _OperatorJob) -> Iterator[Diagnostic]:
    for name in job.annotations:
        if _is_foreign(name):
            yield job.lost(
                ("metadata", "annotations", name),
                "it has no meaning for a TrainJob",
                "docs/annotations.md has those of TrainJobs",
                name=f"annotation {name}",
            )
    policy = job.spec.get("runPolicy") or {}
    if policy.get("cleanPodPolicy") not in (None, "Running"):
        yield job.lost(
            ("spec", "runPolicy", "cleanPodPolicy"),
            "JobSet deletes what still runs at the end and leaves what has ended",
            "remove it",
        )
    reason = "Trainer makes a PodGroup by podGroupPolicy of the runtime, of all Pods"
    advice = "write podGroupPolicy into NAME-runtime.yaml, or choose the setting gang of etcompile"
    for field in policy.get("schedulingPolicy") or {}:
        yield job.lost(("spec", "runPolicy", "schedulingPolicy", field), reason, advice)
    reason = "Trainer starts a number of nodes that stays, with a static rendezvous"
    advice = (
        "set numNodes in NAME.yaml to the number that you want; where etcompile compiles"
        f" it, {NNODES} says how many there may be"
    )
    for field in job.spec.get("elasticPolicy") or {}:
        yield job.lost(("spec", "elasticPolicy", field), reason, advice)
    first, types = job.first, job.framework.types
    containers = first["template"]["spec"]["containers"]
    for container in containers:
        if container["name"] != job.framework.container:
            yield job.lost(
                ("spec", types),
                "the operator gave it those of the container that trains, and it stays as it is"
                " written",
                "write the variables that it reads into NAME-runtime.yaml",
                name=f"env of container {container['name']}",
            )
    mains = (each for each in containers if each["name"] == job.framework.container)
    main: Mapping[str, Any] = next(mains, {})
    # With a GPU, Trainer's default is auto, too.
    same = job.processes != "cpu" and gpus(main) > 0
    if job.policy == "torch" and not job.processes.isdecimal() and not same:
        yield job.lost(
            ("spec", "nprocPerNode") if "nprocPerNode" in job.spec else ("spec",),
            f"'{job.processes}' becomes as many as the container has processors, or auto with a"
            " GPU",
            "write a number",
            name="spec.nprocPerNode",
        )
    for role, replica in job.replicas.items():
        at: ValuePath = ("spec", types, role)
        policy = replica.get("restartPolicy")
        if policy in _RESTARTS and policy == first.get("restartPolicy"):
            advice = "see backoffLimit in NAME-runtime.yaml"
            yield job.lost((*at, "restartPolicy"), _RESTARTS[policy], advice)
        for index, container in enumerate(replica["template"]["spec"]["containers"]):
            for number, entry in enumerate(container.get("env") or ()):
                is_main = container["name"] == job.framework.container
                if is_main and entry["name"] in RESERVED.get(job.policy, ()):
                    yield job.lost(
                        (*at, "template", "spec", "containers", index, "env", number),
                        "Trainer sets this variable itself",
                        "remove it",
                        name=f"env {entry['name']}",
                    )
    if len(job.replicas) == 2:
        (master, first), (worker, second) = job.replicas.items()
        at = ("spec", types, worker)
        yield job.lost(
            ("spec", types, master),
            "the run has succeeded when all nodes have, not when the master has",
            "end the workers, too, when the master is done",
            name="the master's success",
        )
        if job.restart != (second.get("restartPolicy") or job.framework.restart):
            reason = f"all nodes have the master's, {job.restart}"
            yield job.lost((*at, "restartPolicy"), reason, "give both the same")
        for path in _differences(first["template"], second["template"]):
            where = (*at, "template", *path)
            reason = "all nodes get the master's template"
            place = job.document.locate(where)
            yield diagnose(codes.DIFFERENT_NODES, place, where=dotted(where), reason=reason)


def _differences(one: Any, other: Any, path: ValuePath = ()) -> Iterator[ValuePath]:
    """Yield the outermost paths at which two JSON values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*other, *one)):
            yield from _differences(one.get(key), other.get(key), (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, (*path, index))
    elif one != other:
        yield path


# The objects -------------------------------------------------------------------------------------


def _is_foreign(annotation: str) -> bool:
    return annotation.startswith("etcompile.dev/") and annotation not in ANNOTATIONS


def _converted(job: _OperatorJob) -> tuple[dict[str, Any], dict[str, Any]]:
    run_policy = job.spec.get("runPolicy") or {}
    counts = [replica.get("replicas") for replica in job.replicas.values()]
    nodes = sum(1 if count is None else int(count) for count in counts)
    trainer: dict[str, Any] = {"numNodes": nodes}
    if job.policy == "torch" and job.processes.isdecimal():
        trainer["numProcPerNode"] = int(job.processes)
    reference = {"kind": RUNTIME_KINDS[0], "name": job.name}
    spec: dict[str, Any] = {"runtimeRef": reference, "trainer": trainer}
    if run_policy.get("suspend"):
        spec["suspend"] = True
    if (deadline := run_policy.get("activeDeadlineSeconds")) is not None:
        spec["activeDeadlineSeconds"] = deadline
    if (manager := run_policy.get("managedBy")) not in _MANAGERS:
        spec["managedBy"] = manager
    namespace = job.document.namespace
    metadata = {"name": job.name, **({"namespace": namespace} if namespace else {})}
    marks = {
        "labels": job.document.data["metadata"].get("labels"),
        "annotations": {k: v for k, v in job.annotations.items() if not _is_foreign(k)},
    }
    train_job = {
        "apiVersion": RUNTIME_VERSION,
        "kind": JOB_KIND,
        "metadata": metadata | {name: values for name, values in marks.items() if values},
        "spec": spec,
    }
    limit = run_policy.get("backoffLimit")
    if limit is None:
        # With ExitCode some failures end the job: restart as often as a Job does by default.
        limit = {"Never": 0, "ExitCode": _OF_A_JOB}.get(job.restart, _FOR_EVER)
    template = job.first["template"]
    ours = [*_variables(job, nodes)]
    containers = []
    for container in template["spec"]["containers"]:
        changes: dict[str, Any] = {}
        env = container.get("env") or ()
        if container["name"] == job.framework.container:
            # Without a master the operator sets no address: the container's own stay.
            stay = job.policy == "torch" and "Master" not in job.replicas
            addresses = {entry["name"] for entry in env} & _ADDRESSES if stay else set()
            free = [entry for entry in env if entry["name"] not in RESERVED.get(job.policy, ())]
            added = [entry for entry in ours if entry["name"] not in addresses]
            changes = {"name": MAIN, "env": merged_variables(free, added)}
        containers.append(_with_named_ports({**container, **changes}))
    restart = "OnFailure" if job.restart in ("OnFailure", "Always") else "Never"
    pod_spec = {**template["spec"], "restartPolicy": restart, "containers": containers}
    if inits := pod_spec.get("initContainers"):
        pod_spec["initContainers"] = [*map(_with_named_ports, inits)]
    pods = {"backoffLimit": limit, "template": {**template, "spec": pod_spec}}
    part = {"name": MAIN, "template": {"metadata": _TRAINER, "spec": pods}}
    job_set: dict[str, Any] = {"replicatedJobs": [part]}
    if (ttl := run_policy.get("ttlSecondsAfterFinished")) is not None:
        job_set["ttlSecondsAfterFinished"] = ttl
    runtime = {
        "apiVersion": RUNTIME_VERSION,
        "kind": RUNTIME_KINDS[0],
        "metadata": metadata,
        "spec": {"mlPolicy": {job.policy: {}}, "template": {"spec": job_set}},
    }
    return train_job, runtime


def _with_named_ports(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """Name all ports of a container: Trainer confuses ports without names (defect T6)."""
    names = {port.get("name") for port in container.get("ports") or ()}
    if None not in names:
        return container
    ports = []
    for port in container["ports"]:
        name = port.get("name") or f"{port.get('protocol', 'TCP').lower()}-{port['containerPort']}"
        while not port.get("name") and name in names:
            name += "a"
        names.add(name)
        ports.append({**port, "name": name})
    return {**container, "ports": ports}


def _variables(job: _OperatorJob, nodes: int) -> Iterator[dict[str, Any]]:
    """Yield the variables that the Training Operator sets in a container, and Trainer does not."""
    leader = f"{job.name}-{MAIN}-0-0.{job.name}"
    yield {"name": "PYTHONUNBUFFERED", "value": "1"}
    if job.policy == "xgboost" and nodes > 1:
        # The machines of LightGBM: reference/training-operator-xgboostjob.md 1.
        hosts = ",".join(f"{job.name}-{MAIN}-0-{index}.{job.name}" for index in range(1, nodes))
        yield {"name": "WORKER_PORT", "value": str(PORT)}
        yield {"name": "WORKER_ADDRS", "value": hosts}
    if job.policy == "jax":
        yield {"name": "COORDINATOR_PORT", "value": str(PORT)}
        yield {"name": "COORDINATOR_ADDRESS", "value": leader}
        yield {"name": "NUM_PROCESSES", "value": str(nodes)}
        yield {"name": "PROCESS_ID", "valueFrom": _RANK}
        return
    world = nodes * (int(job.processes) if job.processes.isdecimal() else 1)
    yield {"name": "MASTER_PORT", "value": str(PORT)}
    yield {"name": "MASTER_ADDR", "value": leader}
    yield {"name": "WORLD_SIZE", "value": str(world)}
    yield {"name": "RANK", "valueFrom": _RANK}
