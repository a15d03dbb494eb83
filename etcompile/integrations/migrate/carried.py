"""What jobs of every kind carry over into a TrainJob and its runtime, and what each loses."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from etcompile.backend.variables import merged_variables
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.frontends.trainer_merge import node_counts
from etcompile.frontends.trainer_policies import MAIN
from etcompile.frontends.trainjob import ANNOTATIONS
from etcompile.load import Document
from etcompile.stages.runtimes import RUNTIME_KINDS, RUNTIME_VERSION

FOR_EVER = 2**31 - 1
"""The backoffLimit of what restarts for ever."""
TRAINER = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
"""The metadata of the replicatedJob that a TrainJob's fields are for."""
SIDECAR_ENV = "etcompile.dev/sidecar-env"
"""The annotation by which containers beside the one that trains have its variables, too."""
_OURS = "etcompile.dev/"
_MOST = 63
"""The longest name of a Pod that JobSet lets a Job have."""
_SUFFIX = "-abcde"
"""What the Job controller adds to it, as long as that is."""
_MANAGERS = (None, "kubeflow.org/training-operator", "kubeflow.org/mpi-operator")
_RESTARTS = {
    "Always": "it becomes OnFailure: a container that has succeeded is not started again",
    "ExitCode": "it becomes Never: each failure of a Pod counts, whatever its exit code",
}


# Making -----------------------------------------------------------------------------------------


def job(document: Document, trainer: Mapping[str, Any]) -> dict[str, Any]:
    """A TrainJob of a runtime with its own name.

    Args:
        document: The job that it was.
        trainer: Its `spec.trainer`, JSON.
    """
    policy = document.data["spec"].get("runPolicy") or {}
    spec: dict[str, Any] = {
        "runtimeRef": {"kind": RUNTIME_KINDS[0], "name": str(document.name)},
        "trainer": trainer,
    }
    if policy.get("suspend"):
        spec["suspend"] = True
    if (deadline := policy.get("activeDeadlineSeconds")) is not None:
        spec["activeDeadlineSeconds"] = deadline
    if (manager := policy.get("managedBy")) not in _MANAGERS:
        spec["managedBy"] = manager
    metadata = document.data["metadata"]
    annotations = {
        name: value
        for name, value in (metadata.get("annotations") or {}).items()
        if not name.startswith(_OURS) or name in ANNOTATIONS
    }
    kept = {"labels": metadata.get("labels"), "annotations": annotations}
    return {
        "apiVersion": RUNTIME_VERSION,
        "kind": "TrainJob",
        "metadata": {**_head(document), **{key: value for key, value in kept.items() if value}},
        "spec": spec,
    }


def runtime(
    document: Document,
    policy: Mapping[str, Any],
    parts: Sequence[Mapping[str, Any]],
    **more: Any,
) -> dict[str, Any]:
    """The TrainingRuntime of a job.

    Args:
        document: The job.
        policy: Its `spec.mlPolicy`, JSON.
        parts: Its replicatedJobs, JSON, in their order.
        **more: Further fields of its JobSet's spec.
    """
    job_set: dict[str, Any] = {"replicatedJobs": [*parts], **more}
    run_policy = document.data["spec"].get("runPolicy") or {}
    if (ttl := run_policy.get("ttlSecondsAfterFinished")) is not None:
        job_set["ttlSecondsAfterFinished"] = ttl
    return {
        "apiVersion": RUNTIME_VERSION,
        "kind": RUNTIME_KINDS[0],
        "metadata": _head(document),
        "spec": {"mlPolicy": policy, "template": {"spec": job_set}},
    }


def template(
    given: Mapping[str, Any], trains: str, restart: str, container: Mapping[str, Any]
) -> dict[str, Any]:
    """A Pod template whose container that trains has Trainer's name.

    Args:
        given: As it was, JSON.
        trains: The name of the container that trains.
        restart: The restartPolicy of its replicas.
        container: That container as it is now, JSON; its name is set here.
    """
    stays = restart in ("OnFailure", "Always")
    containers = [
        {**container, "name": MAIN} if each["name"] == trains else each
        for each in given["spec"]["containers"]
    ]
    spec = {**given["spec"], "restartPolicy": "OnFailure" if stays else "Never"}
    spec["containers"] = [*map(_with_named_ports, containers)]
    if inits := spec.get("initContainers"):
        spec["initContainers"] = [*map(_with_named_ports, inits)]
    return {**given, "spec": spec}


def _with_named_ports(container: Mapping[str, Any]) -> Mapping[str, Any]:
    """A container whose ports all have names: of Trainer, one without is any other (defect T6)."""
    ports = container.get("ports") or ()
    if all(port.get("name") for port in ports):
        return container
    names = {port["name"] for port in ports if port.get("name")}
    made = []
    for port in ports:
        if port.get("name"):
            made.append(port)
            continue
        protocol = str(port.get("protocol") or "TCP").lower()
        name = f"{protocol}-{port['containerPort']}"
        while name in names:
            name += "a"
        names.add(name)
        made.append({**port, "name": name})
    return {**container, "ports": made}


def variables(
    container: Mapping[str, Any], told: Sequence[Mapping[str, Any]], taken: Collection[str]
) -> list[Mapping[str, Any]]:
    """The variables of a container with what its operator told it, which comes last and wins.

    Args:
        container: The container, JSON.
        told: What the operator told it.
        taken: Those that Trainer sets whatever the template says, left out.
    """
    own = [entry for entry in container.get("env") or () if entry["name"] not in taken]
    return merged_variables(own, told)


def _head(document: Document) -> dict[str, Any]:
    place = {"namespace": document.namespace} if document.namespace else {}
    return {"name": str(document.name), **place}


# Refusing ---------------------------------------------------------------------------------------


def too_long(
    document: Document, job: Mapping[str, Any], runtime: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    """Why JobSet would not take the names of the Pods, which Trainer tells in an Event only (T13).

    Args:
        document: The job that it was.
        job: The TrainJob, JSON.
        runtime: Its runtime, JSON.
    """
    jobs = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    counts = [count for count, _ in node_counts(job, runtime["spec"])]
    rest = max(
        (
            f"-{part['name']}-0-{max(count, 1) - 1}{_SUFFIX}"
            for part, count in zip(jobs, counts, strict=True)
        ),
        key=len,
    )
    name, most = str(document.name), _MOST - len(rest)
    if len(name) > most:
        reason = f"a Pod would be called {name}{rest}, and JobSet takes {_MOST} characters:"
        reason += f" the job's name may have {most}, and has {len(name)}"
        place = document.locate(("metadata", "name"))
        yield diagnose(codes.NO_TRAINJOB, place, kind=document.kind or "", reason=reason)


def name_taken(document: Document, template: ValuePath, trains: str) -> Iterator[Diagnostic]:
    """Whether a container beside the one that trains has the name that Trainer wants for that.

    Args:
        document: The job.
        template: Where the Pod template is.
        trains: The name of the container that trains.
    """
    spec: Any = document.data
    for step in (*template, "spec"):
        spec = spec[step]
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            if container["name"] == MAIN != trains:
                reason = f"Trainer wants the name '{MAIN}' for the container that trains"
                reason += f", which is '{trains}' here: rename the other one"
                place = document.locate((*template, "spec", field, index, "name"))
                yield diagnose(codes.NO_TRAINJOB, place, kind=document.kind or "", reason=reason)


# Telling ----------------------------------------------------------------------------------------


def lost(
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


def not_of_the_job(document: Document) -> Iterator[Diagnostic]:
    """What is lost of annotations and of the run policy."""
    for name in document.data["metadata"].get("annotations") or {}:
        if name.startswith(_OURS) and name not in (*ANNOTATIONS, SIDECAR_ENV):
            yield lost(
                document,
                ("metadata", "annotations", name),
                "it has no meaning for a TrainJob",
                "docs/annotations.md has those of TrainJobs",
                name=f"annotation {name}",
            )
    policy = document.data["spec"].get("runPolicy") or {}
    if policy.get("cleanPodPolicy") not in (None, "Running"):
        yield lost(
            document,
            ("spec", "runPolicy", "cleanPodPolicy"),
            "JobSet deletes what still runs at the end and leaves what has ended",
            "remove it",
        )
    for field in policy.get("schedulingPolicy") or {}:
        yield lost(
            document,
            ("spec", "runPolicy", "schedulingPolicy", field),
            "Trainer makes a PodGroup by podGroupPolicy of the runtime, of all Pods",
            "write podGroupPolicy into NAME-runtime.yaml, or pass --gang to etcompile",
        )


def restart(document: Document, replica: ValuePath, policy: str | None) -> Iterator[Diagnostic]:
    """What is lost of the restartPolicy of a replica type.

    Args:
        document: The job.
        replica: Where the replica type is.
        policy: Its restartPolicy, if it says one.
    """
    if policy in _RESTARTS:
        advice = "see backoffLimit in NAME-runtime.yaml"
        yield lost(document, (*replica, "restartPolicy"), _RESTARTS[policy], advice)


def reserved(
    document: Document, path: ValuePath, container: Mapping[str, Any], taken: Collection[str]
) -> Iterator[Diagnostic]:
    """Which variables of a container are lost, as Trainer sets them itself.

    Args:
        document: The job.
        path: Where the container is.
        container: The container, JSON.
        taken: What Trainer sets.
    """
    for number, entry in enumerate(container.get("env") or ()):
        if entry["name"] in taken:
            where = f"env {entry['name']}"
            reason = "Trainer sets this variable itself"
            yield lost(document, (*path, "env", number), reason, "remove it", name=where)


def dotted(path: ValuePath) -> str:
    """A path as users write it: `spec.containers[0].image`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text
