"""A job of the Training Operator or MPI Operator to a TrainJob and its TrainingRuntime.

The way out for those whose clusters change to Trainer. The Pod template goes into the runtime,
because a TrainJob has none (reference/trainer-v2.md 2); what the Training Operator told each
container goes there too, as variables, so that a program that reads RANK or MASTER_ADDR itself
finds them, which Trainer does not set (5.1). What has no counterpart is told with its place.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from etcompile.compiler import Options, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose, has_errors
from etcompile.emit import to_yaml
from etcompile.frontends.annotations import NNODES
from etcompile.frontends.trainer_policies import INDEX, MAIN, PORT, RESERVED
from etcompile.integrations.migrate import carried, mpijob_to_trainjob
from etcompile.integrations.migrate.files import marked
from etcompile.integrations.migrate.migration import Migrated
from etcompile.load import Document
from etcompile.model.gpus import gpus
from etcompile.stages import former

_V1 = "kubeflow.org/v1"
_REFUSED: Mapping[str, str] = {
    "TFJob": "Trainer has no policy for TensorFlow, whose TF_CONFIG names hosts of several roles",
    "PaddleJob": "Trainer has no policy for Paddle, whose nodes are told of each other",
    "MXJob": "Trainer has no policy for MXNet, whose nodes have roles",
    "MPIJob": "its launcher reaches workers by kubectl exec, and Trainer's by ssh; make it a job"
    " of kubeflow.org/v2beta1 first",
}
"""Kinds that are not converted, and why."""
_MOST_INJECTED = 8
"""Containers that a target of envInjection may name."""
_OF_A_JOB = 6
"""The backoffLimit of a Job that says none."""
_ADDRESSES = frozenset({"MASTER_PORT", "MASTER_ADDR", "WORLD_SIZE", "RANK"})
"""What only a PyTorchJob with a master is told (reference/training-operator-pytorchjob.md 1)."""
_RANK = {"fieldRef": {"fieldPath": f"metadata.annotations['{INDEX}']"}}


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
    """The files of TrainJobs that do what jobs of the former operators do.

    Args:
        documents: Jobs of `kubeflow.org/v1` or `v2beta1`, or of a former version.
        options: How to compile what is made, to find what is wrong with it.

    Returns:
        NAME.yaml and NAME-runtime.yaml of each job; none if one was refused. The diagnostics say
        what does not carry over.
    """
    options = options or Options()
    files: dict[str, str] = {}
    told: list[Diagnostic] = []
    for given in documents:
        now = former.current(given)
        told += now.diagnostics
        if has_errors(now.diagnostics):
            continue
        document = now.document
        way = _WAYS.get((document.api_version or "", document.kind or ""))
        if way is None:
            told.append(_refused(document))
            continue
        before = compile([_unmanaged(document)], options)
        if not before.ok:
            told += before.diagnostics
            continue
        if refusals := [*way.refused(document)]:
            told += refusals
            continue
        told += way.not_carried(document)
        job, runtime = way.converted(document)
        if refusals := [*carried.too_long(document, job, runtime)]:
            told += refusals
            continue
        spec = {key: value for key, value in job["spec"].items() if key != "managedBy"}
        after = compile([{**job, "spec": spec}, runtime], options)
        told += (made for made in after.diagnostics if made.severity.value == "error")
        name = str(document.name)
        head = f"# {document.label} of {document.relative}, for Kubeflow Trainer.\n"
        files[f"{name}.yaml"] = marked(f"{name}.yaml", head + to_yaml(job))
        stem = f"{name}-runtime.yaml"
        files[stem] = marked(stem, head + to_yaml(runtime))
    if not files and not told:
        told.append(diagnose(codes.NOTHING_TO_MIGRATE, None, example="pytorchjob"))
    return Migrated({} if has_errors(told) else files, tuple(dict.fromkeys(told)))


def _unmanaged(document: Document) -> Document:
    """A job as it is where nobody else has it: what Kueue starts elsewhere has to compile, too."""
    policy = document.data["spec"].get("runPolicy") if "spec" in document.data else None
    if not isinstance(policy, Mapping) or "managedBy" not in policy:
        return document
    kept = {key: value for key, value in policy.items() if key != "managedBy"}
    spec = {**document.data["spec"], "runPolicy": kept}
    return structs.replace(document, data={**document.data, "spec": spec})


def _refused(document: Document) -> Diagnostic:
    kind = document.kind or ""
    known = [name for version, name in _WAYS if version == _V1]
    only = f"only {', '.join(known)} of {_V1} and MPIJob of {mpijob_to_trainjob.API_VERSION} are"
    reason = _REFUSED.get(kind, f"{only} converted")
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
    spec = document.data["spec"]
    replicas = _replicas(document, framework)
    first = next(iter(replicas.values()))
    policy = spec.get("runPolicy") or {}
    restart = first.get("restartPolicy") or framework.restart
    limit = policy.get("backoffLimit")
    if limit is None:
        # With ExitCode some failures end the job: for ever would be wrong, so it is a Job's own 6.
        limit = {"Never": 0, "ExitCode": _OF_A_JOB}.get(restart, carried.FOR_EVER)
    template = _template(document, framework, first["template"], restart, _nodes(replicas))
    job_spec = {"backoffLimit": limit, "template": template}
    part = {"name": MAIN, "template": {"metadata": carried.TRAINER, "spec": job_spec}}
    trainer: dict[str, Any] = {"numNodes": _nodes(replicas)}
    processes = str(spec.get("nprocPerNode") or "auto")
    if framework.policy == "torch" and processes.isdecimal():
        trainer["numProcPerNode"] = int(processes)
    of_torch: dict[str, Any] = {}
    if framework.policy == "torch" and _tells_sidecars(document):
        # What Trainer itself sets, in up to eight containers of a target.
        names = _sidecars(document, framework)
        targets = [
            {"jobName": MAIN, "containerNames": names[first : first + _MOST_INJECTED]}
            for first in range(0, len(names), _MOST_INJECTED)
        ]
        of_torch = {"envInjection": {"targets": targets}} if targets else {}
    runtime = carried.runtime(document, {framework.policy: of_torch}, [part])
    return carried.job(document, trainer), runtime


def _template(
    document: Document,
    framework: _Framework,
    template: Mapping[str, Any],
    restart: str,
    nodes: int,
) -> dict[str, Any]:
    """The Pod template, whose container has Trainer's name and the operator's variables."""
    told = [*_variables(document, framework, nodes)]
    containers = []
    for each in template["spec"]["containers"]:
        if each["name"] == framework.container:
            # Where nobody is told who the master is, addresses of its own are what it has.
            own = _own_addresses(document, framework, each)
            ours = [entry for entry in told if entry["name"] not in own]
            env = carried.variables(each, ours, _reserved(framework))
            containers.append({**each, "env": env})
        elif _tells_sidecars(document):
            containers.append({**each, "env": carried.variables(each, told, ())})
        else:
            containers.append(each)
    given = {**template, "spec": {**template["spec"], "containers": containers}}
    trains = _trains(given, framework)
    return carried.template(given, framework.container, restart, trains)


def _tells_sidecars(document: Document) -> bool:
    annotations = document.data["metadata"].get("annotations") or {}
    return annotations.get(carried.SIDECAR_ENV) == "true"


def _sidecars(document: Document, framework: _Framework) -> list[str]:
    """The containers beside the one that trains."""
    template = next(iter(_replicas(document, framework).values()))["template"]
    names = [each["name"] for each in template["spec"]["containers"]]
    return [name for name in names if name != framework.container]


def _own_addresses(
    document: Document, framework: _Framework, container: Mapping[str, Any]
) -> frozenset[str]:
    """Addresses that a container names itself, and the operator leaves as they are."""
    if framework.policy != "torch" or "Master" in _replicas(document, framework):
        return frozenset()
    return frozenset(entry["name"] for entry in container.get("env") or ()) & _ADDRESSES


def _trains(template: Mapping[str, Any], framework: _Framework) -> Mapping[str, Any]:
    containers = template["spec"]["containers"]
    return next((each for each in containers if each["name"] == framework.container), {})


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
    yield from carried.not_of_the_job(document)
    if (elastic := spec.get("elasticPolicy")) is not None:
        for field in elastic:
            yield carried.lost(
                document,
                ("spec", "elasticPolicy", field),
                "Trainer starts a number of nodes that stays, with a static rendezvous",
                "set numNodes in NAME.yaml to the number that you want; where etcompile compiles"
                f" it, {NNODES} says how many there may be",
            )
    if not _tells_sidecars(document):
        for name in _sidecars(document, framework):
            yield carried.lost(
                document,
                ("spec", framework.types),
                "the operator gave it those of the container that trains, and it stays as it is"
                " written",
                f"if it reads them, convert with the annotation {carried.SIDECAR_ENV}: 'true'",
                name=f"env of container {name}",
            )
    replicas = _replicas(document, framework)
    whole = next(iter(replicas.values()))
    trains = _trains(whole["template"], framework)
    processes = str(spec.get("nprocPerNode") or "auto")
    # With a GPU, what Trainer says without a number is auto, too.
    same = processes.isdecimal() or (processes != "cpu" and gpus(trains) > 0)
    if framework.policy == "torch" and not same:
        yield carried.lost(
            document,
            ("spec", "nprocPerNode") if "nprocPerNode" in spec else ("spec",),
            f"'{processes}' becomes as many as the container has processors, or auto with a GPU",
            "write a number",
            name="spec.nprocPerNode",
        )
    for name, replica in replicas.items():
        at: ValuePath = ("spec", framework.types, name)
        if (policy := replica.get("restartPolicy")) == whole.get("restartPolicy"):
            yield from carried.restart(document, at, policy)
        for index, container in enumerate(replica["template"]["spec"]["containers"]):
            if container["name"] == framework.container:
                path = (*at, "template", "spec", "containers", index)
                yield from carried.reserved(document, path, container, _reserved(framework))
    if len(replicas) == 2:
        yield from _apart(document, framework, replicas)


def _apart(
    document: Document, framework: _Framework, replicas: Mapping[str, Mapping[str, Any]]
) -> Iterator[Diagnostic]:
    """What differs between master and workers, of which Trainer makes Pods of one template."""
    (master, first), (worker, second) = replicas.items()
    at: ValuePath = ("spec", framework.types, worker)
    yield carried.lost(
        document,
        ("spec", framework.types, master),
        "the run has succeeded when all nodes have, not when the master has",
        "end the workers, too, when the master is done",
        name="the master's success",
    )
    policies = [replica.get("restartPolicy") or framework.restart for replica in (first, second)]
    if policies[0] != policies[1]:
        yield carried.lost(
            document,
            (*at, "restartPolicy"),
            f"all nodes have the master's, {policies[0]}",
            "give both the same",
        )
    for path in _differences(first["template"], second["template"]):
        where = (*at, "template", *path)
        facts = {
            "where": carried.dotted(where),
            "reason": "all nodes are made of the master's template",
        }
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


# Choosing ---------------------------------------------------------------------------------------


class _Way(Struct, frozen=True):
    """How jobs of a kind are converted; each is given a job that compiles.

    Args:
        refused: Why it is not.
        not_carried: What does not carry over.
        converted: The TrainJob and its TrainingRuntime, JSON.
    """

    refused: Callable[[Document], Iterator[Diagnostic]]
    not_carried: Callable[[Document], Iterator[Diagnostic]]
    converted: Callable[[Document], tuple[dict[str, Any], dict[str, Any]]]


def _taken(document: Document, framework: _Framework) -> Iterator[Diagnostic]:
    """Why containers cannot be called as Trainer wants it."""
    name = next(iter(_replicas(document, framework)))
    path = ("spec", framework.types, name, "template")
    yield from carried.name_taken(document, path, framework.container)


def _all_alike(framework: _Framework) -> _Way:
    return _Way(
        partial(_taken, framework=framework),
        partial(_not_carried, framework=framework),
        partial(_converted, framework=framework),
    )


_WAYS: Mapping[tuple[str, str], _Way] = {
    **{(_V1, kind): _all_alike(framework) for kind, framework in _FRAMEWORKS.items()},
    (mpijob_to_trainjob.API_VERSION, mpijob_to_trainjob.KIND): _Way(
        mpijob_to_trainjob.refused, mpijob_to_trainjob.not_carried, mpijob_to_trainjob.converted
    ),
}
