"""What the fields of a Pod say of its training: devices, processes, nodes, volumes, checkpoints.

Several rules need the same facts of a Pod. What cannot be known without running it (a variable of
the shell, a value from a Secret) has no answer, so that a rule is silent instead of guessing.
"""

import re
from collections.abc import Iterator
from decimal import Decimal

from msgspec import Struct

from etcompile.diagnostics import Location, ValuePath
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import gpus
from etcompile.launch.shell import whole_number
from etcompile.lint.linted_job import LintedJob, Option, RolePods, Started, Value

HOST = "kubernetes.io/hostname"
"""The label that each node has for itself."""

_ACCELERATORS = re.compile(
    # Extended resources of the device plugins of NVIDIA, AMD, Intel, Google, AWS, Habana, Huawei.
    r"nvidia\.com/(gpu|mig-.+)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|google\.com/tpu"
    r"|aws\.amazon\.com/(neuron|neuroncore|neurondevice)|habana\.ai/gaudi|huawei\.com/Ascend.+"
)
_NPROC = "nproc_per_node"
_TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_CHECKPOINT = re.compile(r"checkpoint|ckpt", re.IGNORECASE)
_READ_ONLY = re.compile(
    r"init|pretrain|load|base|from|resume|restore|convert|eval|import|gradient|activation",
    re.IGNORECASE,
)
"""Words in the names of options that name a checkpoint to begin from, or none."""


# Variables and resources ------------------------------------------------------------------------


def variables(container: Value) -> dict[str, str]:
    """The environment variables of a container whose values are written out."""
    return {env["name"]: env["value"] for env in container.get("env", ()) if "value" in env}


def passed(pods: RolePods) -> dict[str, tuple[str, Option]]:
    """The variables that mpirun gives the processes (`-x NAME=VALUE`), and by which option."""
    values = {}
    for option in pods.options:
        if option.written == "-x" and option.value and "=" in option.value:
            name, _, value = option.value.partition("=")
            values[name] = (value, option)
    return values


def accelerators(container: Value) -> dict[str, int]:
    """The devices that a container requests: resource to number."""
    resources = container.get("resources", {})
    amounts = {**resources.get("requests", {}), **resources.get("limits", {})}
    counts = {
        name: number(value) for name, value in amounts.items() if _ACCELERATORS.fullmatch(name)
    }
    return {name: int(count) for name, count in counts.items() if count}


def limit(container: Value, resource: str) -> Decimal | None:
    """How much of a resource a container may use: processors, bytes; None without a limit."""
    amount = container.get("resources", {}).get("limits", {}).get(resource)
    return None if amount is None else number(amount)


def requests(pods: RolePods, container: Value, resource: str) -> bool:
    """Whether a container, or its Pod for all containers, requests or limits a resource."""
    return any(
        resource in value.get("resources", {}).get(field, {})
        for value in (container, pods.spec)
        for field in ("requests", "limits")
    )


# Processes --------------------------------------------------------------------------------------


class Processes(Struct, frozen=True):
    """How many processes train in each Pod of a role.

    Args:
        count: Processes of a Pod.
        said: What says so, for a message: `--nproc-per-node 8`.
        torch: Each takes a GPU by its local rank, as those of torchrun do.
        option: The option that says so, if one does.
    """

    count: int
    said: str
    torch: bool = False
    option: Option | None = None


def processes(job: LintedJob, pods: RolePods) -> Processes | None:
    """How many processes train in each Pod, where something says so in numbers."""
    devices = gpus(pods.main, slices=True)
    for started in pods.commands:
        if not _runs_torch(started):
            continue
        option = next((option for option in started.options if option.name == _NPROC), None)
        said = option.value if option else variables(pods.main).get("PET_NPROC_PER_NODE")
        if said in ("auto", "gpu"):
            return Processes(devices, f"{devices} GPUs", torch=True) if devices else None
        count = whole_number(said or "")
        if count is None:
            return None
        name = option.written if option else "PET_NPROC_PER_NODE"
        return Processes(count, f"{name} {count}", torch=True, option=option)
    hosts = {name for hosts in job.job.host_lists if "slots" in hosts.line for name in hosts.roles}
    if pods.role.name in hosts:
        return Processes(job.job.slots, f"{job.job.slots} slots for each host")
    return None


def is_pytorch(pods: RolePods) -> bool:
    """Whether a role trains with PyTorch, by its command, its variables or its image."""
    if any(map(_runs_torch, pods.commands)):
        return True
    image = str(pods.main.get("image", "")).partition("@")[0]
    names = {*variables(pods.main), *(env.name for env in pods.role.additions.env)}
    return "torch" in image or "PET_NNODES" in names


def _runs_torch(started: Started) -> bool:
    """Whether a command is torchrun, by its name or as a module of Python."""
    return started.program in _TORCH or not started.words.isdisjoint(_TORCH)


# Nodes ------------------------------------------------------------------------------------------


def is_on_one_node(pods: RolePods) -> bool:
    """Whether the scheduler is bound to put all Pods of a role on one node."""
    spec = pods.spec
    if "nodeName" in spec or HOST in spec.get("nodeSelector", {}):
        return True
    return any(term.get("topologyKey") == HOST for term in _terms(spec, "podAffinity"))


def is_one_per_node(pods: RolePods) -> bool:
    """Whether the scheduler is bound to put each Pod of a role on a node of its own.

    It is by an anti-affinity or a spread over nodes, and by ports of the host: of a Pod in the
    host's network, those that its containers declare.
    """
    spec = pods.spec
    if any(term.get("topologyKey") == HOST for term in _terms(spec, "podAntiAffinity")):
        return True
    for spread in spec.get("topologySpreadConstraints", ()):
        if spread.get("topologyKey") == HOST and spread.get("whenUnsatisfiable") == "DoNotSchedule":
            return True
    return any(
        spec.get("hostNetwork") or "hostPort" in port
        for container in spec["containers"]
        for port in container.get("ports", ())
    )


def required_labels(pods: RolePods) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The labels of nodes that the Pods of a role require, each with the values it may have."""
    for name, value in pods.spec.get("nodeSelector", {}).items():
        yield name, (value,)
    node = (pods.spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (node.get(_TERMS) or {}).get("nodeSelectorTerms", ()):
        for expression in term.get("matchExpressions", ()):
            if expression.get("operator") == "In":
                yield expression["key"], tuple(expression.get("values", ()))


def _terms(spec: Value, field: str) -> Iterator[Value]:
    yield from ((spec.get("affinity") or {}).get(field) or {}).get(_TERMS, ())


# Volumes and checkpoints ------------------------------------------------------------------------


class Mounted(Struct, frozen=True):
    """The volume that holds a path of a container."""

    index: int
    mount: Value
    volume: Value


def mounted_at(pods: RolePods, path: str) -> Mounted | None:
    """The volume that holds an absolute path of the main container.

    Returns:
        The volume; None if the container's own file system holds the path.
    """
    below = f"{path.rstrip('/')}/"
    volumes = {volume["name"]: volume for volume in pods.spec.get("volumes", ())}
    holders = [
        Mounted(index, mount, volumes[mount["name"]])
        for index, mount in enumerate(pods.main.get("volumeMounts", ()))
        if mount["name"] in volumes and below.startswith(f"{mount['mountPath'].rstrip('/')}/")
    ]
    return max(holders, key=lambda mounted: len(mounted.mount["mountPath"]), default=None)


class Checkpoints(Struct, frozen=True):
    """A place to which the main container of a role writes checkpoints.

    Args:
        said: What says that checkpoints go there, for a message.
        mounted: The volume that holds them; None for the container's own file system.
        where: What says so: an option, or a path in the container.
    """

    said: str
    mounted: Mounted | None
    where: Option | ValuePath

    def place(self, pods: RolePods) -> Location:
        """Where it is written that checkpoints go there."""
        if isinstance(self.where, Option):
            return self.where.place
        return pods.place_in(pods.main, *self.where)


def checkpoints(pods: RolePods) -> Iterator[Checkpoints]:
    """The places to which the main container writes checkpoints, as options and names say."""
    written = pods.role.template.main_container
    for option in pods.options:
        path = option.value or ""
        if _is_for_checkpoints(option.name) and path.startswith("/"):
            mounted = mounted_at(pods, path)
            if _is_writable(mounted):
                yield Checkpoints(f"{option.written} {path}", mounted, option)
    values = variables(pods.main)
    for index, name in enumerate(env["name"] for env in written.get("env", ())):
        path = values.get(name, "")
        if _is_for_checkpoints(name) and path.startswith("/"):
            mounted = mounted_at(pods, path)
            if _is_writable(mounted):
                yield Checkpoints(f"{name}={path}", mounted, ("env", index, "value"))
    for index, mount in enumerate(written.get("volumeMounts", ())):
        path = str(mount["mountPath"])
        if not (_CHECKPOINT.search(path) or _CHECKPOINT.search(mount["name"])):
            continue
        mounted = mounted_at(pods, path)
        if mounted and _is_writable(mounted):
            said = f"volume {mount['name']} at {path}"
            yield Checkpoints(said, mounted, ("volumeMounts", index, "mountPath"))


def _is_for_checkpoints(name: str) -> bool:
    return _CHECKPOINT.search(name) is not None and _READ_ONLY.search(name) is None


def _is_writable(mounted: Mounted | None) -> bool:
    """Whether checkpoints can be written there; a training starts from what it cannot write."""
    return mounted is None or not mounted.mount.get("readOnly")
