"""A job as rules of advice see it: its roles with their Pods, and what runs in these.

The Pods are those that are applied, so that a rule knows what operators, overlays and defaults add
to a template. The first Pod of a role stands for all of them. A place is looked up only for what is
reported, in the template that the author wrote. What cannot be known without running a Pod (a
variable of the shell, a value from a Secret) has no answer, so that a rule is silent instead of
guessing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec import Struct

from etcompile.diagnostics import Location, Source, ValuePath
from etcompile.k8s.path import value_at
from etcompile.k8s.quantity import number
from etcompile.k8s.requests import claimed, devices
from etcompile.launch.launchers import LAUNCHERS
from etcompile.launch.shell import commands, whole_number
from etcompile.model import Job, Role, Settings
from etcompile.model.protocol import ROLE_LABEL

Value = Mapping[str, Any]
"""A JSON mapping."""

_LAUNCHERS = frozenset(LAUNCHERS) - {"torchrun"}
"""Programs that start a training on other hosts; torchrun runs on each of them."""
HOST = "kubernetes.io/hostname"
"""The label that each node has for itself."""

_NPROC = "nproc_per_node"
_TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_CHECKPOINT = re.compile(r"checkpoint|ckpt", re.IGNORECASE)
_READ_ONLY = re.compile(
    r"init|pretrain|load|base|from|resume|restore|convert|eval|import|gradient|activation",
    re.IGNORECASE,
)
"""Words in the names of options that name a checkpoint to begin from, or none."""


class Option(NamedTuple):
    """An option of a command, and its value.

    Args:
        name: Without its dashes, words joined by `_`.
        written: The option as it stands in the command line, with its dashes.
    """

    name: str
    value: str | None
    written: str
    role: Role

    @property
    def place(self) -> Location:
        """Where it is written."""
        return place_of(self.role, self.written)


class Started(Struct, frozen=True):
    """A command that runs in the main container of a role.

    Args:
        words: Its words, those with a value that only the shell knows left out.
    """

    words: frozenset[str]
    program: str
    options: tuple[Option, ...]
    role: Role


class RolePods(Struct, frozen=True):
    """The Pods of a role.

    Args:
        spec: The PodSpec of its first Pod, JSON; that of the template where it has no Pod.
        commands: What runs in that container, as the author wrote it.
    """

    role: Role
    metadata: Value
    spec: Value
    main: Value
    commands: tuple[Started, ...]

    @property
    def count(self) -> int:
        """How many Pods there are."""
        return len(self.role.members)

    @property
    def options(self) -> Iterator[Option]:
        """The options of the commands, whose values are no variables of a shell."""
        return (option for started in self.commands for option in started.options)

    @property
    def containers(self) -> Sequence[Value]:
        """The containers that the author wrote, without those that the compiler adds."""
        written = {container["name"] for container in self.role.template.spec["containers"]}
        return [container for container in self.spec["containers"] if container["name"] in written]

    def place(self, *below: str | int, key: bool = False) -> Location:
        """Where a value below the PodSpec stands in the template; the nearest parent if absent."""
        return self.role.template.origin.locate("spec", *below, key=key)

    def place_in(self, container: Value, *below: str | int, key: bool = False) -> Location:
        """The same below a container; its name if the value is absent."""
        written = self.role.template.spec["containers"]
        names = [other["name"] for other in written]
        if container["name"] not in names:
            return self.place("containers")
        index = names.index(container["name"])
        if value_at(written[index], below) is None:
            return self.place("containers", index, "name")
        return self.place("containers", index, *below, key=key)


class LintedJob(Struct, frozen=True):
    """A job, and what is compiled of it.

    Args:
        others: The other objects of the input, which may be claims or budgets of the job.
    """

    job: Job
    settings: Settings
    pods: tuple[RolePods, ...]
    others: tuple[Source, ...] = ()

    @property
    def count(self) -> int:
        """How many Pods the job has."""
        return sum(pods.count for pods in self.pods)


def linted_job(
    job: Job, settings: Settings, objects: Sequence[Value], others: Sequence[Source]
) -> LintedJob:
    """A job as rules see it.

    Args:
        objects: What it is compiled to, after overlays.
    """
    first: dict[str, Value] = {}
    for value in objects:
        # The Pods of a Job of Kubernetes are as its template is.
        pod = (value["spec"].get("template") or {}) if value["kind"] == "Job" else value
        is_pod = value["kind"] in ("Pod", "Job") and "metadata" in pod
        if is_pod and (name := pod["metadata"].get("labels", {}).get(ROLE_LABEL)):
            first.setdefault(name, pod)
    started = _started(job)
    roles: list[RolePods] = []
    for role in job.roles:
        if not role.members:
            continue
        template = role.template
        metadata: Value = {"labels": template.labels, "annotations": template.annotations}
        spec: Value = template.spec
        if pod := first.get(role.name):
            metadata, spec = pod["metadata"], pod["spec"]
        named = (
            container for container in spec["containers"] if container["name"] == template.main
        )
        main = next(named, template.main_container)
        roles.append(RolePods(role, metadata, spec, main, tuple(started[role.name])))
    return LintedJob(job, settings, tuple(roles), tuple(others))


def place_of(role: Role, text: str) -> Location:
    """The word that has a text, in the command line of a role's main container."""
    main = role.template.main_container
    names = [container["name"] for container in role.template.spec["containers"]]
    path = ("spec", "containers", names.index(main["name"]))
    field = "command"
    for field in ("command", "args"):
        for index, word in enumerate(main.get(field, ())):
            if text in word:
                return role.template.origin.locate(*path, field, index)
    return role.template.origin.locate(*path, field)


def _started(job: Job) -> dict[str, list[Started]]:
    """What runs in the main containers of each role, by the role's name.

    What a launcher starts by mpirun or horovodrun runs in the Pods of the hosts: its paths are
    those of their containers, and its devices theirs.
    """
    hosts = {name for lines in job.host_lists if lines.live for name in lines.roles}
    by_role: dict[str, list[Started]] = {role.name: [] for role in job.roles}
    for role in job.roles:
        for command in commands(role.template.main_container):
            options: list[Option] = []
            # Without a command, the arguments are those of the image's own.
            words = command.words[not command.words[0].text.startswith("-") :]
            for place, word in enumerate(words):
                if not word.literal or not word.text.startswith("-"):
                    continue
                written, equals, value = word.text.partition("=")
                after = words[place + 1] if place + 1 < len(words) else None
                if not equals and after and after.literal and not after.text.startswith("-"):
                    value, equals = after.text, "="
                name = written.lstrip("-").replace("-", "_")
                options.append(Option(name, value if equals else None, written, role))
            literal = frozenset(word.text for word in command.words if word.literal)
            run = Started(literal, command.program, tuple(options), role)
            elsewhere = command.program in _LAUNCHERS and hosts and role.name not in hosts
            for name in hosts if elsewhere else {role.name}:
                by_role.get(name, []).append(run)
    return by_role


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


def devices_of(job: LintedJob, pods: RolePods) -> tuple[int | None, str]:
    """How many devices a Pod's main container has, None if a claim hides that, and their name."""
    if pods.main.get("resources", {}).get("claims"):
        claims: dict[tuple[str, str], Any] = {}
        for source in job.others:
            kind, spec = str(source.data.get("kind")), source.data.get("spec")
            if kind.startswith("ResourceClaim") and isinstance(spec, dict):
                name = str((source.data.get("metadata") or {}).get("name"))
                claims[kind, name] = spec.get("spec") if kind.endswith("Template") else spec
        return claimed(pods.main, pods.spec, claims), "claimed devices"
    found = devices(pods.main)
    what = "GPUs" if all(map(is_gpu, found)) else f"devices ({', '.join(found)})"
    return sum(found.values()), what


def is_gpu(resource: str) -> bool:
    """Whether a device is a GPU or a part of one."""
    return "gpu" in resource or "/mig-" in resource


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
        said: What says so, for a message: `--nproc-per-node 8`.
        torch: Each takes a GPU by its local rank, as those of torchrun do.
    """

    count: int
    said: str
    torch: bool = False
    option: Option | None = None


def processes(job: LintedJob, pods: RolePods) -> Processes | None:
    """How many processes train in each Pod, where something says so in numbers."""
    known = sum(devices(pods.main, counted=True).values())
    for started in pods.commands:
        if not _runs_torch(started):
            continue
        option = next((option for option in started.options if option.name == _NPROC), None)
        said = option.value if option else variables(pods.main).get("PET_NPROC_PER_NODE")
        if said in ("auto", "gpu"):
            return Processes(known, f"{known} GPUs", torch=True) if known else None
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
