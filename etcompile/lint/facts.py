"""What a Pod's fields say of a training: its variables, accelerators, volumes, processes.

Several rules ask the same of a Pod. What cannot be known without running it (a variable of the
shell, a value from a Secret) is not answered, so that a rule says nothing instead of guessing.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from etcompile.lint.commands import Given, Started
from etcompile.lint.subject import LintedJob, RolePods
from etcompile.model.gpus import gpus
from etcompile.model.quantity import number, whole_number

_Value = Mapping[str, Any]

_ACCELERATORS = re.compile(
    # Extended resources of the device plugins of NVIDIA, AMD, Intel, Google, AWS, Habana, Huawei.
    r"nvidia\.com/(gpu|mig-.+)|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|google\.com/tpu"
    r"|aws\.amazon\.com/(neuron|neuroncore|neurondevice)|habana\.ai/gaudi|huawei\.com/Ascend.+"
)
_NPROC = "nproc_per_node"
_TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})


class Mounted(Struct, frozen=True):
    """Where a path of a container is kept.

    Args:
        index: The mount's number in the container.
        mount: The volumeMount, JSON.
        volume: The volume, JSON.
    """

    index: int
    mount: _Value
    volume: _Value


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
    option: Given | None = None


def variables(container: _Value) -> dict[str, str]:
    """The environment variables of a container whose values are written out."""
    return {env["name"]: env["value"] for env in container.get("env", ()) if "value" in env}


def passed(pods: RolePods) -> dict[str, tuple[str, Given]]:
    """The variables that mpirun gives the processes (`-x NAME=VALUE`), and by which option."""
    found = {}
    for given in pods.options:
        if given.written == "-x" and given.value and "=" in given.value:
            name, _, value = given.value.partition("=")
            found[name] = (value, given)
    return found


def accelerators(container: _Value) -> dict[str, int]:
    """The devices that a container asks for: resource to number."""
    given = container.get("resources", {})
    asked = {**given.get("requests", {}), **given.get("limits", {})}
    counts = {name: number(value) for name, value in asked.items() if _ACCELERATORS.fullmatch(name)}
    return {name: int(count) for name, count in counts.items() if count}


def limit(container: _Value, resource: str) -> Decimal | None:
    """How much of a resource a container may use; None without a limit.

    Args:
        container: A container, JSON.
        resource: Such as cpu (in processors) or memory (in bytes).
    """
    given = container.get("resources", {}).get("limits", {}).get(resource)
    return None if given is None else number(given)


def requests(pods: RolePods, container: _Value, resource: str) -> bool:
    """Whether a container says how much of a resource it needs, by a request or a limit.

    Args:
        pods: The Pods that it is part of, which may say so for all of their containers.
        container: One of their containers, JSON.
        resource: Such as memory.
    """
    return any(
        resource in given.get("resources", {}).get(field, {})
        for given in (container, pods.spec)
        for field in ("requests", "limits")
    )


def mounted_at(pods: RolePods, path: str) -> Mounted | None:
    """The volume that holds a path of the main container; None if the container itself does.

    Args:
        pods: The Pods whose main container is meant.
        path: An absolute path.
    """
    below = f"{path.rstrip('/')}/"
    volumes = {volume["name"]: volume for volume in pods.spec.get("volumes", ())}
    found = [
        Mounted(index, mount, volumes[mount["name"]])
        for index, mount in enumerate(pods.main.get("volumeMounts", ()))
        if mount["name"] in volumes and below.startswith(f"{mount['mountPath'].rstrip('/')}/")
    ]
    return max(found, key=lambda mounted: len(mounted.mount["mountPath"]), default=None)


def runs_torch(started: Started) -> bool:
    """Whether a command is torchrun, by its name or as a module of Python."""
    return started.program in _TORCH or not started.words.isdisjoint(_TORCH)


def is_pytorch(pods: RolePods) -> bool:
    """Whether a role trains with PyTorch, by its command, its variables or its image."""
    if any(map(runs_torch, pods.commands)):
        return True
    image = str(pods.main.get("image", "")).partition("@")[0]
    names = {*variables(pods.main), *(env.name for env in pods.role.additions.env)}
    return "torch" in image or "PET_NNODES" in names


def processes(job: LintedJob, pods: RolePods) -> Processes | None:
    """How many processes train in each Pod, where something says so in numbers."""
    devices = gpus(pods.main, slices=True)
    for started in pods.commands:
        if not runs_torch(started):
            continue
        given = next((found for found in started.options if found.name == _NPROC), None)
        said = given.value if given else variables(pods.main).get("PET_NPROC_PER_NODE")
        if said in ("auto", "gpu"):
            return Processes(devices, f"{devices} GPUs", torch=True) if devices else None
        count = whole_number(said or "")
        if count is None:
            return None
        if given:
            return Processes(count, f"{given.written} {count}", torch=True, option=given)
        return Processes(count, f"PET_NPROC_PER_NODE {count}", torch=True)
    listed = {name for hosts in job.job.host_lists if "slots" in hosts.line for name in hosts.roles}
    if pods.role.name in listed:
        return Processes(job.job.slots, f"{job.job.slots} slots for each host")
    return None
