"""What a job loses as a TrainJob, and why it cannot become one, each with its place."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.trainer.merge import node_counts
from etcompile.frontends.trainer.policies import MAIN
from etcompile.integrations.migrate.trainjob_objects import (
    SIDECAR_ENV,
    Framework,
    is_foreign,
    tells_sidecars,
)
from etcompile.k8s.path import dotted
from etcompile.load import Document
from etcompile.model.gpus import gpus

_LONGEST_POD = 63
"""The longest name of a Pod that JobSet lets a Job have."""
_SUFFIX = "-abcde"
"""What the Job controller adds to it, as long as that is."""
_RESTARTS = {
    "Always": "it becomes OnFailure: a container that has succeeded is not started again",
    "ExitCode": "it becomes Never: each failure of a Pod counts, whatever its exit code",
}


def refusal(document: Document, path: ValuePath, reason: str) -> Diagnostic:
    """Why a job is not made into a TrainJob."""
    place = document.locate(path)
    return diagnose(codes.NO_TRAINJOB, place, kind=document.kind or "", reason=reason)


def name_taken(document: Document, framework: Framework) -> Iterator[Diagnostic]:
    """Why the container that trains cannot have the name that Trainer wants: another one has it."""
    name, replica = next(iter(framework.replicas(document).items()))
    spec = replica["template"]["spec"]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            if container["name"] == MAIN:
                path = ("spec", framework.types, name, "template", "spec", field, index, "name")
                reason = f"Trainer wants the name '{MAIN}' for the container that trains"
                reason += f", which is '{framework.container}' here: rename the other one"
                yield refusal(document, path, reason)


def too_long(
    document: Document, train_job: Mapping[str, Any], runtime: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    """Why JobSet would refuse the names of the Pods, which Trainer tells in an Event only (T13)."""
    ((count, _),) = node_counts(train_job, runtime["spec"])
    rest = f"-{MAIN}-0-{max(count, 1) - 1}{_SUFFIX}"
    name, most = str(document.name), _LONGEST_POD - len(rest)
    if len(name) > most:
        reason = f"a Pod would be called {name}{rest}, and JobSet takes {_LONGEST_POD} characters:"
        reason += f" the job's name may have {most}, and has {len(name)}"
        yield refusal(document, ("metadata", "name"), reason)


def losses(document: Document, framework: Framework) -> Iterator[Diagnostic]:
    """What does not carry over, each field with its place."""
    spec = document.data["spec"]
    yield from _lost_of_run_policy(document)
    replicas = framework.replicas(document)
    for field in spec.get("elasticPolicy") or {}:
        yield _lost(
            document,
            ("spec", "elasticPolicy", field),
            "Trainer starts a number of nodes that stays, with a static rendezvous",
            "set numNodes in NAME.yaml to the number that you want; where etcompile compiles"
            f" it, {NNODES} says how many there may be",
        )
    first = next(iter(replicas.values()))
    for container in first["template"]["spec"]["containers"]:
        if container["name"] != framework.container and not tells_sidecars(document):
            yield _lost(
                document,
                ("spec", framework.types),
                "the operator gave it those of the container that trains, and it stays as it is"
                " written",
                f"if it reads them, convert with the annotation {SIDECAR_ENV}: 'true'",
                name=f"env of container {container['name']}",
            )
    processes = str(spec.get("nprocPerNode") or "auto")
    # With a GPU, what Trainer says without a number is auto, too.
    same = processes != "cpu" and gpus(framework.trains(first)) > 0
    if framework.policy == "torch" and not processes.isdecimal() and not same:
        yield _lost(
            document,
            ("spec", "nprocPerNode") if "nprocPerNode" in spec else ("spec",),
            f"'{processes}' becomes as many as the container has processors, or auto with a GPU",
            "write a number",
            name="spec.nprocPerNode",
        )
    for name, replica in replicas.items():
        at: ValuePath = ("spec", framework.types, name)
        policy = replica.get("restartPolicy")
        if policy in _RESTARTS and policy == first.get("restartPolicy"):
            advice = "see backoffLimit in NAME-runtime.yaml"
            yield _lost(document, (*at, "restartPolicy"), _RESTARTS[policy], advice)
        for index, container in enumerate(replica["template"]["spec"]["containers"]):
            for number, entry in enumerate(container.get("env") or ()):
                if container["name"] == framework.container and entry["name"] in framework.reserved:
                    yield _lost(
                        document,
                        (*at, "template", "spec", "containers", index, "env", number),
                        "Trainer sets this variable itself",
                        "remove it",
                        name=f"env {entry['name']}",
                    )
    if len(replicas) == 2:
        yield from _lost_of_workers(document, framework, replicas)


def _lost_of_workers(
    document: Document, framework: Framework, replicas: Mapping[str, Mapping[str, Any]]
) -> Iterator[Diagnostic]:
    """What differs between master and workers, of which Trainer makes Pods of one template."""
    (master, first), (worker, second) = replicas.items()
    at: ValuePath = ("spec", framework.types, worker)
    yield _lost(
        document,
        ("spec", framework.types, master),
        "the run has succeeded when all nodes have, not when the master has",
        "end the workers, too, when the master is done",
        name="the master's success",
    )
    policies = [replica.get("restartPolicy") or framework.restart for replica in (first, second)]
    if policies[0] != policies[1]:
        yield _lost(
            document,
            (*at, "restartPolicy"),
            f"all nodes have the master's, {policies[0]}",
            "give both the same",
        )
    for path in _differences(first["template"], second["template"]):
        where = (*at, "template", *path)
        reason = "all nodes are made of the master's template"
        yield diagnose(
            codes.DIFFERENT_NODES, document.locate(where), where=dotted(where), reason=reason
        )


def _differences(one: Any, other: Any, path: ValuePath = ()) -> Iterator[ValuePath]:
    """The paths at which two JSON values differ, the outermost that tells."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*other, *one)):
            yield from _differences(one.get(key), other.get(key), (*path, key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, (*path, index))
    elif one != other:
        yield path


def _lost(
    document: Document, path: ValuePath, reason: str, advice: str, name: str | None = None
) -> Diagnostic:
    """That a field does not carry over.

    Args:
        document: The job.
        path: Where the field is.
        reason: What happens with it.
        advice: What to do; `NAME` in it is the job's.
        name: How to call it, if not by its path.
    """
    where = name or dotted(path)
    advice = advice.replace("NAME", str(document.name))
    place = document.locate(path, key=True)
    return diagnose(codes.NOT_CARRIED_OVER, place, where=where, reason=reason, advice=advice)


def _lost_of_run_policy(document: Document) -> Iterator[Diagnostic]:
    """What is lost of annotations and of the run policy."""
    for name in document.data["metadata"].get("annotations") or {}:
        if not is_foreign(name) or name == SIDECAR_ENV:
            continue
        yield _lost(
            document,
            ("metadata", "annotations", name),
            "it has no meaning for a TrainJob",
            "docs/annotations.md has those of TrainJobs",
            name=f"annotation {name}",
        )
    policy = document.data["spec"].get("runPolicy") or {}
    if policy.get("cleanPodPolicy") not in (None, "Running"):
        yield _lost(
            document,
            ("spec", "runPolicy", "cleanPodPolicy"),
            "JobSet deletes what still runs at the end and leaves what has ended",
            "remove it",
        )
    for field in policy.get("schedulingPolicy") or {}:
        yield _lost(
            document,
            ("spec", "runPolicy", "schedulingPolicy", field),
            "Trainer makes a PodGroup by podGroupPolicy of the runtime, of all Pods",
            "write podGroupPolicy into NAME-runtime.yaml, or pass --gang to etcompile",
        )
