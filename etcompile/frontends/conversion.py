"""Documents of API versions that no operator serves any more, in the version that is compiled.

The shapes are those of tf-operator, pytorch-operator, mxnet-operator, xgboost-operator and
mpi-operator before their kinds became `kubeflow.org/v1`: a list of replica types (v1alpha1), one
template for launcher and workers (MPIJob v1alpha1), or the mapping of today (v1alpha2 and later).
Apart from the frontends, because a render refuses such a document and only says how it would read;
`etcompile migrate` writes it.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import ValuePath
from etcompile.model.quantity import whole_number

_V1 = "kubeflow.org/v1"
_V2 = "kubeflow.org/v2beta1"
_XGBOOST = "xgboostjob.kubeflow.org"
_GPU, _CPU = "nvidia.com/gpu", "cpu"
_PER_NODE = 8
_LIST = "replicaSpecs"


class Conversion(Struct, frozen=True):
    """A document in the version that is compiled.

    Args:
        data: The document, JSON.
        changes: What was done besides the version, for people: `spec.template moves to ...`.
        moved: The path of each field that has moved, to its path before.
    """

    data: Mapping[str, Any]
    changes: tuple[str, ...] = ()
    moved: Mapping[ValuePath, ValuePath] = {}


class NotConvertibleError(Exception):
    """The shape of a document has no counterpart; the text says which part, and why."""


class _Family(Struct, frozen=True):
    """What differs between kinds.

    Args:
        types: The field of its replica types.
        names: The names of the types in v1alpha1 to today's.
        type_field: The field that names the type of a list's entry.
        first: The type of an entry that names none.
        container: The container that trains.
        port: The entry's field with the number of its port.
        port_name: That port's name today.
        number: Its number by default.
        dropped: Fields of `spec` that mean nothing any more, each with the reason.
    """

    types: str
    names: Mapping[str, str] = {}
    type_field: str = ""
    first: str = ""
    container: str = ""
    port: str = ""
    port_name: str = ""
    number: int = 0
    dropped: Mapping[str, str] = {}


_FAMILIES: Mapping[str, _Family] = {
    "TFJob": _Family(
        types="tfReplicaSpecs",
        names={"MASTER": "Master", "CHIEF": "Chief", "WORKER": "Worker", "PS": "PS"},
        type_field="tfReplicaType",
        first="MASTER",
        container="tensorflow",
        port="tfPort",
        port_name="tfjob-port",
        number=2222,
        dropped={
            "RuntimeId": "the operator wrote it",
            "runtimeId": "the operator wrote it",
            "tfImage": "it was for parameter servers without a template",
            "tensorboard": "TensorBoard is a Deployment of its own now",
        },
    ),
    "PyTorchJob": _Family(
        types="pytorchReplicaSpecs",
        names={"MASTER": "Master", "WORKER": "Worker"},
        type_field="replicaType",
        first="MASTER",
        container="pytorch",
        port="masterPort",
        port_name="pytorchjob-port",
        number=23456,
        dropped={
            "RuntimeId": "the operator wrote it",
            "backend": "the operator did not pass it on: the program chooses it",
            "pytorchImage": "every type has a template",
        },
    ),
    "MXJob": _Family(
        types="mxReplicaSpecs",
        names={"SCHEDULER": "Scheduler", "SERVER": "Server", "WORKER": "Worker"},
        type_field="mxReplicaType",
        first="SCHEDULER",
        container="mxnet",
        port="PsRootPort",
        port_name="mxjob-port",
        number=9091,
        dropped={
            "RuntimeId": "the operator wrote it",
            "mxImage": "every type has a template",
        },
    ),
    "XGBoostJob": _Family(types="xgbReplicaSpecs", container="xgboost"),
    "MPIJob": _Family(types="mpiReplicaSpecs"),
}


def is_former(api_version: str | None, kind: str | None) -> bool:
    """Whether an API version is one that a Kubeflow kind had once, or may have had."""
    group, _, version = (api_version or "").partition("/")
    if kind is None or kind not in _FAMILIES or not version:
        return False
    if group == _XGBOOST:
        return kind == "XGBoostJob"
    return group == "kubeflow.org" and api_version not in served_today(kind)


def served_today(kind: str) -> tuple[str, ...]:
    """The versions of a Kubeflow kind that are compiled."""
    return (_V1, _V2) if kind == "MPIJob" else (_V1,)


def converted(data: Mapping[str, Any]) -> Conversion:
    """A document of a former version in the version that is compiled.

    The shape decides how it is read, not the version's name. Run-policy fields stay where they
    are: their place is the same question in every version.

    Args:
        data: A document of which `is_former` holds, JSON.

    Returns:
        The document, and what has changed in it.

    Raises:
        NotConvertibleError: a part of it has no counterpart.
    """
    kind = str(data["kind"])
    family, spec = _FAMILIES[kind], data.get("spec")
    if not isinstance(spec, Mapping):
        raise NotConvertibleError("the document has no spec")
    version = str(data["apiVersion"]).partition("/")[2]
    target = _V2 if kind == "MPIJob" and version.startswith("v2") else _V1
    work = _Work(spec)
    if isinstance(spec.get(family.types), Mapping):
        _today(work, kind, family)
    elif isinstance(spec.get(_LIST), list) and family.names:
        _listed(work, kind, family)
    elif kind == "MPIJob" and isinstance(spec.get("template"), Mapping):
        _shared_template(work)
    else:
        raise NotConvertibleError(f"it has no {family.types}, nor what older versions had instead")
    if kind == "MPIJob" and target == _V1:
        _distribution(work)
    made = {**data, "apiVersion": target, "spec": work.spec}
    return Conversion(made, tuple(work.changes), work.moved)


class _Work:
    """A spec on its way."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec: dict[str, Any] = dict(spec)
        self.changes: list[str] = []
        self.moved: dict[ValuePath, ValuePath] = {}

    def drop(self, name: str, reason: str) -> None:
        """Takes a field out of the spec, if it is there, and says why."""
        if self.spec.pop(name, None) is not None:
            self.changes.append(f"spec.{name} is left out: {reason}")

    def note(self, change: str) -> None:
        """Says what has changed; once, where several replica types have the same."""
        if change not in self.changes:
            self.changes.append(change)

    def move(self, before: str, after: str) -> None:
        """Notes that a field has moved."""
        self.changes.append(f"{before} moves to {after}")
        self.moved[tuple(after.split("."))] = _path(before)


def _path(text: str) -> ValuePath:
    steps = text.replace("[", ".").replace("]", "").split(".")
    return tuple(int(step) if step.isdecimal() else step for step in steps)


# The mapping of today -----------------------------------------------------------------------------


def _today(work: _Work, kind: str, family: _Family) -> None:
    """A spec that has today's replica types; only fields around them have other names."""
    if "ttlSecondsAfterFinishing" in work.spec and "ttlSecondsAfterFinished" not in work.spec:
        work.spec["ttlSecondsAfterFinished"] = work.spec.pop("ttlSecondsAfterFinishing")
        work.move("spec.ttlSecondsAfterFinishing", "spec.ttlSecondsAfterFinished")
    for name, reason in family.dropped.items():
        work.drop(name, reason)
    types = dict(work.spec[family.types])
    if kind == "XGBoostJob":
        for name, given in types.items():
            types[name] = _renamed(work, given, f"spec.{family.types}.{name}")
    if kind == "MXJob":
        _job_mode(work)
    work.spec[family.types] = types


def _renamed(work: _Work, given: Any, where: str) -> Any:
    """A type whose container is called `xgboost`, as xgboost-operator did not ask for."""
    containers = _containers(given)
    names = [container.get("name") for container in containers]
    if "xgboost" in names or "xgboostjob" not in names:
        return given
    renamed = [
        {**container, "name": "xgboost"} if container.get("name") == "xgboostjob" else container
        for container in containers
    ]
    work.changes.append(f"the container xgboostjob of {where} is renamed to xgboost")
    return _with_pod(given, containers=renamed)


# The list of v1alpha1 -----------------------------------------------------------------------------


def _listed(work: _Work, kind: str, family: _Family) -> None:
    """A list of replica types, each of which names itself."""
    types: dict[str, Any] = {}
    scheduler = work.spec.pop("schedulerName", None)
    common_port = work.spec.pop("masterPort", None)
    for place, entry in enumerate(work.spec.pop(_LIST)):
        before = f"spec.{_LIST}[{place}]"
        if not isinstance(entry, Mapping) or not _containers(entry):
            raise NotConvertibleError(
                f"{before} has no template: the operator brought the program of its own"
            )
        name = _type_of(entry, family)
        if name is None or name in types:
            raise NotConvertibleError(f"{before} is of no type that can be told from the others")
        types[name] = _entry(work, entry, family, common_port, scheduler)
        work.move(before, f"spec.{family.types}.{name}")
    if scheduler is not None:
        work.changes.append("spec.schedulerName moves to the templates")
    if common_port is not None and whole_number(str(common_port)) == family.number:
        work.changes.append(f"spec.masterPort is left out: {family.number} is the default")
    _termination(work, types)
    for name, reason in family.dropped.items():
        work.drop(name, reason)
    if kind == "MXJob":
        _job_mode(work)
    work.spec[family.types] = types


def _type_of(entry: Mapping[str, Any], family: _Family) -> str | None:
    fields = (family.type_field, family.type_field[:1].upper() + family.type_field[1:])
    given = next((entry[field] for field in fields if field in entry), family.first)
    return family.names.get(str(given).upper())


def _entry(
    work: _Work, entry: Mapping[str, Any], family: _Family, common_port: Any, scheduler: Any
) -> dict[str, Any]:
    """A replica type from an entry of the list."""
    own = (family.type_field.lower(), family.port.lower(), "isdefaultps", "template")
    made = {key: value for key, value in entry.items() if key.lower() not in own}
    made["template"] = entry["template"]
    policy = _pod(made).get("restartPolicy")
    if policy is not None:
        made["restartPolicy"] = policy
        made = _without_pod_field(made, "restartPolicy")
        work.note(f"restartPolicy {policy} moves from the template to the replicas around it")
    if scheduler is not None and "schedulerName" not in _pod(made):
        made = _with_pod(made, schedulerName=scheduler)
    given = next((v for key, v in entry.items() if key.lower() == family.port.lower()), common_port)
    port = whole_number(str(given)) if given is not None else None
    if port is not None and port != family.number:
        made = _with_port(made, family, port)
        work.note(f"{family.port} {port} becomes the port {family.port_name} of the container")
    return made


def _with_port(made: dict[str, Any], family: _Family, port: int) -> dict[str, Any]:
    containers = []
    for container in _containers(made):
        ports = list(container.get("ports") or ())
        own = {"name": family.port_name, "containerPort": port}
        is_main = container.get("name") == family.container
        named = any(p.get("name") == family.port_name for p in ports if isinstance(p, Mapping))
        containers.append(
            {**container, "ports": [*ports, own]} if is_main and not named else container
        )
    return _with_pod(made, containers=containers)


def _termination(work: _Work, types: Mapping[str, Any]) -> None:
    """`terminationPolicy.chief`: whose end decides; today the Master, or else worker 0."""
    given = work.spec.pop("terminationPolicy", None)
    if given is None:
        return
    chief = given.get("chief") if isinstance(given, Mapping) else None
    chief = chief if isinstance(chief, Mapping) else {}
    name = str(chief.get("replicaName", "MASTER")).upper()
    usual = "MASTER" if "Master" in types else "WORKER"
    if name != usual or chief.get("replicaIndex", 0) != 0:
        raise NotConvertibleError(
            "spec.terminationPolicy names a replica whose end no longer can decide:"
            " today it is the Master's, or without one that of worker 0"
        )
    work.changes.append("spec.terminationPolicy is left out: what it says is the rule")


def _job_mode(work: _Work) -> None:
    given = work.spec.get("jobMode")
    if given not in ("MXTrain", "MXTune"):
        work.spec["jobMode"] = "MXTrain"
        if given is not None:
            work.changes.append(f"spec.jobMode {given} becomes MXTrain")


# MPIJob -------------------------------------------------------------------------------------------


def _distribution(work: _Work) -> None:
    """`mpiDistribution`: kubeflow.org/v1 has variables for Open MPI and Intel MPI, both at once."""
    if str(work.spec.get("mpiDistribution", "OpenMPI")).upper() == "MPICH":
        raise NotConvertibleError(
            f"{_V1} starts ranks by kubectl exec and knows no MPICH; {_V2} has"
            " mpiImplementation: MPICH, and needs sshd in the workers' image"
        )
    work.drop("mpiDistribution", f"{_V1} sets the variables of Open MPI and of Intel MPI alike")
    if work.spec.get("launcherOnMaster"):
        raise NotConvertibleError(
            "spec.launcherOnMaster has no counterpart: write a nodeSelector and a toleration into"
            " the launcher's template instead"
        )
    work.drop("launcherOnMaster", "false is what happens anyway")


def _shared_template(work: _Work) -> None:
    """One template for launcher and workers, and how many processing units there are of them."""
    spec = work.spec
    template = {"template": spec.pop("template")}
    containers = _containers(template)
    if not containers:
        raise NotConvertibleError("spec.template has no containers")
    resource = str(spec.get("processingResourceType") or _GPU)
    if resource not in (_GPU, _CPU):
        raise NotConvertibleError(f"processingResourceType '{resource}' was read as GPUs")
    workers, units, fields = _workers(spec, containers[0], resource)
    for name in (*fields, "processingResourceType"):
        spec.pop(name, None)
    given_fields = frozenset(spec)
    if "slotsPerWorker" not in spec and units > 1:
        spec["slotsPerWorker"] = units
    policy = _pod(template).get("restartPolicy")
    template = _without_pod_field(template, "restartPolicy")
    # The operator gave the launcher no resources, and let the workers sleep.
    lead = _with_pod(template, containers=[_without(containers[0], "resources"), *containers[1:]])
    idle = _without(containers[0], "command", "args")
    if fields != ("replicas",):
        idle = _with_limit(idle, resource, units)
    follow = _with_pod(template, containers=[idle, *containers[1:]])
    restart = {} if policy is None else {"restartPolicy": policy}
    spec["mpiReplicaSpecs"] = {
        "Launcher": {"replicas": 1, **restart, **lead},
        "Worker": {"replicas": workers, "restartPolicy": "Always", **follow},
    }
    types = "spec.mpiReplicaSpecs"
    work.move("spec.template", f"{types}.Launcher.template")
    work.moved["spec", "mpiReplicaSpecs", "Worker", "template"] = ("spec", "template")
    work.changes.append(
        f"{types}.Worker.template is the same without the command, and the launcher's is without"
        " resources"
    )
    names = _and(tuple(f"spec.{name}" for name in fields))
    each = f", each with {units} of {resource}" if fields != ("replicas",) else ""
    verb = "becomes" if len(fields) == 1 else "become"
    work.changes.append(f"{names} {verb} {types}.Worker.replicas, which is {workers}{each}")
    if "slotsPerWorker" not in given_fields and units > 1:
        work.changes.append(f"spec.slotsPerWorker is {units}, as it was by default")
    work.moved["spec", "mpiReplicaSpecs", "Worker", "replicas"] = ("spec", fields[0])


def _workers(
    spec: Mapping[str, Any], main: Mapping[str, Any], resource: str
) -> tuple[int, int, tuple[str, ...]]:
    """The workers, the processing units of each, and the fields that say so."""
    for total, each in (("gpus", "gpusPerNode"), ("processingUnits", "processingUnitsPerNode")):
        if total not in spec:
            continue
        # The operator's own manifest said 8 a node, and its CRD took multiples of that.
        units, most = _count(spec[total], total), _count(spec.get(each, _PER_NODE), each)
        if units >= most and units % most:
            raise NotConvertibleError(f"spec.{total} {units} is no multiple of {each} {most}")
        fields = (total, each) if each in spec else (total,)
        return (1, units, fields) if units < most else (units // most, most, fields)
    if "replicas" not in spec:
        raise NotConvertibleError("it has none of spec.gpus, spec.processingUnits, spec.replicas")
    limits = _mapping(_mapping(main, "resources"), "limits")
    return (
        _count(spec["replicas"], "replicas"),
        whole_number(str(limits.get(resource, 1))) or 1,
        ("replicas",),
    )


def _count(value: Any, name: str) -> int:
    found = whole_number(str(value))
    if not found:
        raise NotConvertibleError(f"spec.{name} is no number from 1")
    return found


def _with_limit(container: Mapping[str, Any], resource: str, units: int) -> dict[str, Any]:
    resources = _mapping(container, "resources")
    limits = {**_mapping(resources, "limits"), resource: units}
    return {**container, "resources": {**resources, "limits": limits}}


# Templates ----------------------------------------------------------------------------------------


def _pod(given: Any) -> Mapping[str, Any]:
    """The Pod's spec of something with a template; empty if there is none."""
    template = given.get("template") if isinstance(given, Mapping) else None
    spec = template.get("spec") if isinstance(template, Mapping) else None
    return spec if isinstance(spec, Mapping) else {}


def _containers(given: Any) -> list[Mapping[str, Any]]:
    found = _pod(given).get("containers")
    is_list = isinstance(found, list) and all(isinstance(container, Mapping) for container in found)
    return list(found) if is_list and found else []


def _with_pod(given: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    template = given["template"]
    return {**given, "template": {**template, "spec": {**template["spec"], **fields}}}


def _without_pod_field(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    template = given["template"]
    return {**given, "template": {**template, "spec": _without(template["spec"], name)}}


def _mapping(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field that is a mapping; empty if it is none."""
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: field for key, field in value.items() if key not in names}


def _and(words: tuple[str, ...]) -> str:
    return " and ".join(words)
