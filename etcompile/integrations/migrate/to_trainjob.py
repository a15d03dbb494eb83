"""A PyTorchJob, JAXJob or XGBoostJob to a TrainJob and its TrainingRuntime, for Trainer v2.

The way out for those whose clusters change to Trainer. The Pod template goes into the runtime,
because a TrainJob has none (reference/trainer-v2.md 2); what the Training Operator told each
container goes there too, as variables, so that a program that reads RANK or MASTER_ADDR itself
finds them, which Trainer does not set (5.1). What has no counterpart is told with its place.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.compiler import Options, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.frontends.conversion import NotConvertibleError
from etcompile.frontends.trainer_policies import INDEX, MAIN, PORT, RESERVED, gpus
from etcompile.frontends.trainjob import ANNOTATIONS
from etcompile.integrations.migrate.files import marked
from etcompile.integrations.migrate.migration import Migrated
from etcompile.load import Document
from etcompile.stages import former
from etcompile.stages.runtimes import RUNTIME_KINDS, RUNTIME_VERSION

_V1 = "kubeflow.org/v1"
_REFUSED: Mapping[str, str] = {
    "TFJob": "Trainer has no policy for TensorFlow, whose TF_CONFIG names hosts of several roles",
    "PaddleJob": "Trainer has no policy for Paddle, whose nodes are told of each other",
    "MXJob": "Trainer has no policy for MXNet, whose nodes have roles",
    "MPIJob": "Trainer's launcher and nodes have other hosts, images and keys than its own",
}
"""Kinds that are not converted, and why."""
_RESTARTS = 2**31 - 1
"""The backoffLimit of what restarts for ever."""
_OF_A_JOB = 6
"""The backoffLimit of a Job that says none."""
_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}
_OURS = "etcompile.dev/"
_MANAGER = "kubeflow.org/training-operator"


class _Framework(Struct, frozen=True):
    """What differs between the kinds.

    Args:
        types: The field of its replica types.
        policy: The policy of Trainer's that is for it.
        container: The container that trains.
        restart: The restartPolicy of replicas that name none.
    """

    types: str
    policy: str
    container: str
    restart: str


_FRAMEWORKS = {
    "PyTorchJob": _Framework("pytorchReplicaSpecs", "torch", "pytorch", "OnFailure"),
    "JAXJob": _Framework("jaxReplicaSpecs", "jax", "jax", "Never"),
    "XGBoostJob": _Framework("xgbReplicaSpecs", "xgboost", "xgboost", "Never"),
}


def to_trainjobs(documents: Sequence[Document], options: Options | None = None) -> Migrated:
    """The files of TrainJobs that do what jobs of the Training Operator do.

    Args:
        documents: Jobs of `kubeflow.org/v1`, or of a former version.
        options: How to compile what is made, to find what is wrong with it.

    Returns:
        NAME.yaml and NAME-runtime.yaml of each job; none if one was refused. The diagnostics say
        what does not carry over.
    """
    options = options or Options()
    files: dict[str, str] = {}
    told: list[Diagnostic] = []
    for given in documents:
        try:
            now = former.current(given)
        except NotConvertibleError:
            told += former.former_version(given)
            continue
        told += now.diagnostics
        document = now.document
        framework = _FRAMEWORKS.get(document.kind or "")
        if framework is None or document.api_version != _V1:
            told.append(_refused(document))
            continue
        before = compile([document], options)
        if not before.ok:
            told += before.diagnostics
            continue
        told += _not_carried(document, framework)
        job, runtime = _converted(document, framework)
        after = compile([job, runtime], options)
        told += (made for made in after.diagnostics if made.severity.value == "error")
        name = str(document.name)
        head = f"# {document.label} of {document.relative}, for Kubeflow Trainer.\n"
        files[f"{name}.yaml"] = marked(f"{name}.yaml", head + to_yaml(job))
        stem = f"{name}-runtime.yaml"
        files[stem] = marked(stem, head + to_yaml(runtime))
    if not files and not told:
        told.append(diagnose(codes.NOTHING_TO_MIGRATE, None, example="pytorchjob"))
    return Migrated({} if has_errors(told) else files, tuple(dict.fromkeys(told)))


def _refused(document: Document) -> Diagnostic:
    kind = document.kind or ""
    known = ", ".join(_FRAMEWORKS)
    reason = _REFUSED.get(kind, f"only {known} of {_V1} are converted")
    return diagnose(codes.NO_TRAINJOB, document.locate(("kind",)), kind=kind, reason=reason)


# Making -----------------------------------------------------------------------------------------


def _replicas(document: Document, framework: _Framework) -> dict[str, Mapping[str, Any]]:
    """The replica types with the first node's first."""
    found: Mapping[str, Any] = document.data["spec"][framework.types]
    by_name = {name.capitalize(): (name, value) for name, value in found.items()}
    return {by_name[name][0]: by_name[name][1] for name in ("Master", "Worker") if name in by_name}


def _nodes(replicas: Mapping[str, Mapping[str, Any]]) -> int:
    found = [spec.get("replicas") for spec in replicas.values()]
    return sum(1 if number is None else int(number) for number in found)


def _converted(document: Document, framework: _Framework) -> tuple[dict[str, Any], dict[str, Any]]:
    """The TrainJob and its TrainingRuntime."""
    spec, name = document.data["spec"], str(document.name)
    replicas = _replicas(document, framework)
    first = next(iter(replicas.values()))
    policy = spec.get("runPolicy") or {}
    restart = first.get("restartPolicy") or framework.restart
    template = _template(document, framework, first["template"], _nodes(replicas))
    stays = restart in ("OnFailure", "Always")
    template["spec"]["restartPolicy"] = "OnFailure" if stays else "Never"
    limit = policy.get("backoffLimit")
    if limit is None:
        # With ExitCode some failures end the job: for ever would be wrong, so it is a Job's own 6.
        limit = {"Never": 0, "ExitCode": _OF_A_JOB}.get(restart, _RESTARTS)
    place = {"namespace": document.namespace} if document.namespace else {}
    marker = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    job_spec = {"backoffLimit": limit, "template": template}
    part = {"name": MAIN, "template": {"metadata": marker, "spec": job_spec}}
    job_set: dict[str, Any] = {"replicatedJobs": [part]}
    if (ttl := policy.get("ttlSecondsAfterFinished")) is not None:
        job_set["ttlSecondsAfterFinished"] = ttl
    head = {"apiVersion": RUNTIME_VERSION}
    runtime = {
        **head,
        "kind": RUNTIME_KINDS[0],
        "metadata": {"name": name, **place},
        "spec": {"mlPolicy": {framework.policy: {}}, "template": {"spec": job_set}},
    }
    trainer: dict[str, Any] = {"numNodes": _nodes(replicas)}
    processes = str(spec.get("nprocPerNode") or "auto")
    if framework.policy == "torch" and processes.isdecimal():
        trainer["numProcPerNode"] = int(processes)
    made: dict[str, Any] = {
        "runtimeRef": {"kind": RUNTIME_KINDS[0], "name": name},
        "trainer": trainer,
    }
    if policy.get("suspend"):
        made["suspend"] = True
    if (deadline := policy.get("activeDeadlineSeconds")) is not None:
        made["activeDeadlineSeconds"] = deadline
    if (manager := policy.get("managedBy")) not in (None, _MANAGER):
        made["managedBy"] = manager
    metadata = document.data["metadata"]
    kept = {"labels": metadata.get("labels"), "annotations": _annotations(metadata)}
    job = {
        **head,
        "kind": "TrainJob",
        "metadata": {"name": name, **place, **{key: value for key, value in kept.items() if value}},
        "spec": made,
    }
    return job, runtime


def _annotations(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Those that mean something for a TrainJob, or are not ours."""
    given = metadata.get("annotations") or {}
    return {
        name: value
        for name, value in given.items()
        if not name.startswith(_OURS) or name in ANNOTATIONS
    }


def _template(
    document: Document, framework: _Framework, template: Mapping[str, Any], nodes: int
) -> dict[str, Any]:
    """The Pod template, whose container has Trainer's name and the operator's variables."""
    containers = []
    for container in template["spec"]["containers"]:
        if container["name"] == framework.container:
            own = [
                entry
                for entry in container.get("env", ())
                if entry["name"] not in _reserved(framework)
            ]
            names = {entry["name"] for entry in own}
            told = _variables(document, framework, nodes)
            env = [*own, *(entry for entry in told if entry["name"] not in names)]
            container = {**container, "name": MAIN, "env": env}  # noqa: PLW2901 - as it is now
        containers.append(container)
    return {**template, "spec": {**template["spec"], "containers": containers}}


def _reserved(framework: _Framework) -> tuple[str, ...]:
    """Variables that Trainer sets whatever the template says."""
    return RESERVED.get(framework.policy, ())


def _variables(document: Document, framework: _Framework, nodes: int) -> Iterator[dict[str, Any]]:
    """What the Training Operator tells a container, and Trainer does not."""
    name = str(document.name)
    leader = f"{name}-{MAIN}-0-0.{name}"
    yield {"name": "PYTHONUNBUFFERED", "value": "1"}
    if framework.policy == "xgboost" and nodes > 1:
        # The machines of LightGBM: reference/training-operator-xgboostjob.md 1.
        hosts = ",".join(f"{name}-{MAIN}-0-{index}.{name}" for index in range(1, nodes))
        yield {"name": "WORKER_PORT", "value": str(PORT)}
        yield {"name": "WORKER_ADDRS", "value": hosts}
    if framework.policy == "jax":
        yield {"name": "COORDINATOR_PORT", "value": str(PORT)}
        yield {"name": "COORDINATOR_ADDRESS", "value": leader}
        yield {"name": "NUM_PROCESSES", "value": str(nodes)}
        yield {"name": "PROCESS_ID", "valueFrom": _RANK}
        return
    processes = str(document.data["spec"].get("nprocPerNode") or "auto")
    world = nodes * (int(processes) if processes.isdecimal() else 1)
    yield {"name": "MASTER_PORT", "value": str(PORT)}
    yield {"name": "MASTER_ADDR", "value": leader}
    yield {"name": "WORLD_SIZE", "value": str(world)}
    yield {"name": "RANK", "valueFrom": _RANK}


# Telling ----------------------------------------------------------------------------------------


def _not_carried(document: Document, framework: _Framework) -> Iterator[Diagnostic]:
    """What does not carry over, each field with its place."""
    spec = document.data["spec"]
    for name in document.data["metadata"].get("annotations") or {}:
        if name.startswith(_OURS) and name not in ANNOTATIONS:
            yield _lost(
                document,
                ("metadata", "annotations", name),
                "it has no meaning for a TrainJob",
                "docs/annotations.md has those of TrainJobs",
                name=f"annotation {name}",
            )
    yield from _of_policy(document)
    if (elastic := spec.get("elasticPolicy")) is not None:
        for field in elastic:
            yield _lost(
                document,
                ("spec", "elasticPolicy", field),
                "Trainer starts a number of nodes that stays, with a static rendezvous",
                "set numNodes in NAME.yaml to the number that you want",
            )
    replicas = _replicas(document, framework)
    first = next(iter(replicas.values()))["template"]["spec"]["containers"]
    trains: Mapping[str, Any] = next(
        (each for each in first if each["name"] == framework.container), {}
    )
    processes = str(spec.get("nprocPerNode") or "auto")
    # With a GPU, what Trainer says without a number is auto, too.
    same = processes.isdecimal() or (processes != "cpu" and gpus(trains) is not None)
    if framework.policy == "torch" and not same:
        yield _lost(
            document,
            ("spec", "nprocPerNode") if "nprocPerNode" in spec else ("spec",),
            f"'{processes}' becomes as many as the container has processors, or auto with a GPU",
            "write a number",
            name="spec.nprocPerNode",
        )
    whole = next(iter(replicas.values()))
    for name, replica in replicas.items():
        at: ValuePath = ("spec", framework.types, name)
        restart = replica.get("restartPolicy")
        if restart in ("Always", "ExitCode") and restart == whole.get("restartPolicy"):
            becomes = "OnFailure" if restart == "Always" else "Never"
            why = {
                "Always": "a container that has succeeded is not started again",
                "ExitCode": "each failure of a Pod counts, whatever its exit code",
            }
            yield _lost(
                document,
                (*at, "restartPolicy"),
                f"it becomes {becomes}: {why[restart]}",
                "see backoffLimit in NAME-runtime.yaml",
            )
        for index, container in enumerate(replica["template"]["spec"]["containers"]):
            for number, entry in enumerate(container.get("env", ())):
                ours = container["name"] == framework.container
                if ours and entry["name"] in _reserved(framework):
                    yield _lost(
                        document,
                        (*at, "template", "spec", "containers", index, "env", number),
                        "Trainer sets this variable itself",
                        "remove it",
                        name=f"env {entry['name']}",
                    )
    if len(replicas) == 2:
        yield from _apart(document, framework, replicas)


def _of_policy(document: Document) -> Iterator[Diagnostic]:
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


def _apart(
    document: Document, framework: _Framework, replicas: Mapping[str, Mapping[str, Any]]
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
        facts = {"where": _dotted(where), "reason": "all nodes are made of the master's template"}
        place = document.locate(where)
        yield diagnose(codes.DIFFERENT_NODES, place, **facts)


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


def _dotted(path: ValuePath) -> str:
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else str(step)
    return text


def _lost(
    document: Document, path: ValuePath, reason: str, advice: str, name: str | None = None
) -> Diagnostic:
    where = name or _dotted(path)
    advice = advice.replace("NAME", str(document.name))
    place = document.locate(path, key=True)
    return diagnose(codes.NOT_CARRIED_OVER, place, where=where, reason=reason, advice=advice)
