"""Jobs of the Training Operator to the files of TrainJobs, each with a TrainingRuntime.

This is for those whose clusters change to Trainer. What has no counterpart there is reported with
its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.compiler import Options, compile, olderapis  # noqa: A004
from etcompile.diagnostics import Diagnostic, Severity, ValuePath, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.trainer.merge import node_counts
from etcompile.frontends.trainer.policies import MAIN
from etcompile.integrations.migrate.migration import Migrated, marked
from etcompile.integrations.migrate.trainjob_objects import (
    CONVERTED,
    SIDECAR_ENV,
    OperatorJob,
    converted,
    is_foreign,
    operator_job,
)
from etcompile.k8s.path import dotted
from etcompile.k8s.requests import gpus
from etcompile.load import Document

_API_VERSION = "kubeflow.org/v1"
_REFUSED: Mapping[str, str] = {
    "TFJob": "Trainer has no policy for TensorFlow, whose TF_CONFIG names hosts of several roles",
    "PaddleJob": "Trainer has no policy for Paddle, whose nodes are told of each other",
    "MXJob": "Trainer has no policy for MXNet, whose nodes have roles",
    "MPIJob": "Trainer starts its launcher with other keys, hosts and ranks: write it by hand",
}
"""Kinds that are not converted, and why."""
_LONGEST_POD = 63
"""The longest name of a Pod that JobSet lets a Job have."""
_SUFFIX = "-abcde"
"""What the Job controller adds to it, as long as that is."""
_RESTARTS = {
    "Always": "it becomes OnFailure: a container that has succeeded is not started again",
    "ExitCode": "it becomes Never: each failure of a Pod counts, whatever its exit code",
}


def to_trainjobs(documents: Sequence[Document], options: Options | None = None) -> Migrated:
    """The files of TrainJobs that do what jobs of the Training Operator do.

    Args:
        documents: Jobs of `kubeflow.org/v1`, or of an older version.

    Returns:
        NAME.yaml and NAME-runtime.yaml of each job; none if one was refused. The diagnostics say
        what does not carry over.
    """
    # What Kueue starts in another cluster has to compile, too.
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
    """The two files of a job; none if it is refused."""
    kind = document.kind or ""
    if kind not in CONVERTED or document.api_version != _API_VERSION:
        only = f"only {', '.join(CONVERTED)} of {_API_VERSION} are converted"
        return Migrated({}, (_refusal(document, ("kind",), _REFUSED.get(kind, only)),))
    before = compile([document], options)
    if not before.ok:
        return Migrated({}, before.diagnostics)
    job = operator_job(document)
    if refusals := tuple(_main_containers(job)):
        return Migrated({}, refusals)
    diagnostics = [*_losses(job)]
    train_job, runtime = converted(job)
    ((count, _),) = node_counts(train_job, runtime["spec"])
    rest = f"-{MAIN}-0-{max(count, 1) - 1}{_SUFFIX}"
    most = _LONGEST_POD - len(rest)
    if len(job.name) > most:
        # Trainer would say so in an Event only (defect T13).
        reason = f"a Pod would be called {job.name}{rest}, and JobSet takes {_LONGEST_POD}"
        reason += f" characters: the job's name may have {most}, and has {len(job.name)}"
        return Migrated({}, (*diagnostics, _refusal(document, ("metadata", "name"), reason)))
    after = compile([train_job, runtime], options)
    diagnostics += (d for d in after.diagnostics if d.severity is Severity.ERROR)
    head = f"# {document.label} of {document.relative}, for Kubeflow Trainer.\n"
    files = {}
    for name, value in ((f"{job.name}.yaml", train_job), (f"{job.name}-runtime.yaml", runtime)):
        files[name] = marked(name, head + to_yaml(value))
    return Migrated(files, tuple(diagnostics))


def _refusal(document: Document, path: ValuePath, reason: str) -> Diagnostic:
    place = document.locate(path)
    return diagnose(codes.NO_TRAINJOB, place, kind=document.kind or "", reason=reason)


def _main_containers(job: OperatorJob) -> Iterator[Diagnostic]:
    """Refuses other containers that have the name which Trainer wants for the one that trains."""
    role, replica = next(iter(job.replicas.items()))
    spec = replica["template"]["spec"]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            if container["name"] == MAIN:
                types = job.framework.types
                path = ("spec", types, role, "template", "spec", field, index, "name")
                reason = f"Trainer wants the name '{MAIN}' for the container that trains"
                reason += f", which is '{job.framework.container}' here: rename the other one"
                yield _refusal(job.document, path, reason)


# What does not carry over -------------------------------------------------------------------------


def _lost(
    job: OperatorJob, path: ValuePath, reason: str, advice: str, name: str | None = None
) -> Diagnostic:
    """That a field does not carry over; it is called by its path, or by `name`.

    Args:
        advice: What to do; `NAME` in it is the job's.
    """
    where = name or dotted(path)
    advice = advice.replace("NAME", job.name)
    place = job.document.locate(path, key=True)
    return diagnose(codes.NOT_CARRIED_OVER, place, where=where, reason=reason, advice=advice)


def _losses(job: OperatorJob) -> Iterator[Diagnostic]:
    """What does not carry over, each field with its place."""
    yield from _lost_of_job(job)
    first, types = job.first, job.framework.types
    containers = first["template"]["spec"]["containers"]
    for container in containers:
        if container["name"] != job.framework.container and not job.sets_sidecars:
            yield _lost(
                job,
                ("spec", types),
                "the operator gave it those of the container that trains, and it stays as it is"
                " written",
                f"if it reads them, convert with the annotation {SIDECAR_ENV}: 'true'",
                name=f"env of container {container['name']}",
            )
    mains = (each for each in containers if each["name"] == job.framework.container)
    main: Mapping[str, Any] = next(mains, {})
    # With a GPU, what Trainer says without a number is auto, too.
    same = job.processes != "cpu" and gpus(main) > 0
    if job.policy == "torch" and not job.processes.isdecimal() and not same:
        yield _lost(
            job,
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
            yield _lost(job, (*at, "restartPolicy"), _RESTARTS[policy], advice)
        for index, container in enumerate(replica["template"]["spec"]["containers"]):
            for number, entry in enumerate(container.get("env") or ()):
                is_main = container["name"] == job.framework.container
                if is_main and entry["name"] in job.reserved:
                    yield _lost(
                        job,
                        (*at, "template", "spec", "containers", index, "env", number),
                        "Trainer sets this variable itself",
                        "remove it",
                        name=f"env {entry['name']}",
                    )
    if len(job.replicas) == 2:
        yield from _lost_of_workers(job)


def _lost_of_job(job: OperatorJob) -> Iterator[Diagnostic]:
    """What is lost of annotations, the run policy and the elastic policy."""
    for name in job.annotations:
        if is_foreign(name) and name != SIDECAR_ENV:
            yield _lost(
                job,
                ("metadata", "annotations", name),
                "it has no meaning for a TrainJob",
                "docs/annotations.md has those of TrainJobs",
                name=f"annotation {name}",
            )
    policy = job.spec.get("runPolicy") or {}
    if policy.get("cleanPodPolicy") not in (None, "Running"):
        yield _lost(
            job,
            ("spec", "runPolicy", "cleanPodPolicy"),
            "JobSet deletes what still runs at the end and leaves what has ended",
            "remove it",
        )
    for field in policy.get("schedulingPolicy") or {}:
        yield _lost(
            job,
            ("spec", "runPolicy", "schedulingPolicy", field),
            "Trainer makes a PodGroup by podGroupPolicy of the runtime, of all Pods",
            "write podGroupPolicy into NAME-runtime.yaml, or pass --gang to etcompile",
        )
    for field in job.spec.get("elasticPolicy") or {}:
        yield _lost(
            job,
            ("spec", "elasticPolicy", field),
            "Trainer starts a number of nodes that stays, with a static rendezvous",
            "set numNodes in NAME.yaml to the number that you want; where etcompile compiles"
            f" it, {NNODES} says how many there may be",
        )


def _lost_of_workers(job: OperatorJob) -> Iterator[Diagnostic]:
    """What differs between master and workers, of which Trainer makes Pods of one template."""
    (master, first), (worker, second) = job.replicas.items()
    at: ValuePath = ("spec", job.framework.types, worker)
    yield _lost(
        job,
        ("spec", job.framework.types, master),
        "the run has succeeded when all nodes have, not when the master has",
        "end the workers, too, when the master is done",
        name="the master's success",
    )
    if job.restart != (second.get("restartPolicy") or job.framework.restart):
        reason = f"all nodes have the master's, {job.restart}"
        yield _lost(job, (*at, "restartPolicy"), reason, "give both the same")
    for path in _differences(first["template"], second["template"]):
        where = (*at, "template", *path)
        reason = "all nodes get the master's template"
        place = job.document.locate(where)
        yield diagnose(codes.DIFFERENT_NODES, place, where=dotted(where), reason=reason)


def _differences(one: Any, other: Any, path: ValuePath = ()) -> Iterator[ValuePath]:
    """The paths at which two JSON values differ, the outermost that says it."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*other, *one)):
            yield from _differences(one.get(key), other.get(key), (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, (*path, index))
    elif one != other:
        yield path
