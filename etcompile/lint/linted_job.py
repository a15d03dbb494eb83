"""Describe a job as rules of advice read it: its roles with their Pods, and their commands.

The Pods are those that are applied, so rules see what operators, overlays and defaults add to a
template. The first Pod of a role stands for all of them. Places are looked up only for reports, in
the author's template. What cannot be known without running a Pod (a shell variable, a value from a
Secret) has no answer, so a rule is silent instead of guessing.
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

_LAUNCHERS = frozenset(LAUNCHERS) - {"torchrun"}
"""Programs that start a training on other hosts; torchrun runs on each of them."""
HOST = "kubernetes.io/hostname"
"""The label that is unique to each node."""

_NPROC = "nproc_per_node"
_TORCH = frozenset({"torchrun", "torch.distributed.run", "torch.distributed.launch"})
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_CHECKPOINT = re.compile(r"checkpoint|ckpt", re.IGNORECASE)
_READ_ONLY = re.compile(
    r"init|pretrain|load|base|from|resume|restore|convert|eval|import|gradient|activation",
    re.IGNORECASE,
)
"""Words in the names of options that do not name a checkpoint to write."""


class Option(NamedTuple):
    """An option of a command, and its value."""

    name: str  # without dashes, words joined by `_`
    value: str | None
    written: str  # with dashes, as in the command line
    role: Role

    @property
    def place(self) -> Location:
        return place_of(self.role, self.written)


class Started(Struct, frozen=True):
    """A command that runs in the main container of a role."""

    words: frozenset[str]  # without those whose value only the shell knows
    program: str
    options: tuple[Option, ...]
    role: Role


class RolePods(Struct, frozen=True):
    role: Role
    metadata: Value
    spec: Value  # of its first Pod; of the template if it has no Pod
    main: Value
    commands: tuple[Started, ...]  # of the main container, as the author wrote them

    @property
    def count(self) -> int:
        return len(self.role.members)

    @property
    def options(self) -> Iterator[Option]:
        return (option for started in self.commands for option in started.options)

    @property
    def containers(self) -> Sequence[Value]:
        """Return the author's containers, without those that the compiler adds."""
        written = {container["name"] for container in self.role.template.spec["containers"]}
        return [container for container in self.spec["containers"] if container["name"] in written]

    def place(self, *below: str | int, key: bool = False) -> Location:
        """Locate a value below the PodSpec in the template; the nearest parent if absent."""
        return self.role.template.origin.locate("spec", *below, key=key)

    def place_in(self, container: Value, *below: str | int, key: bool = False) -> Location:
        """Locate a value below a container; the container's name if the value is absent."""
        written = self.role.template.spec["containers"]
        names = [other["name"] for other in written]
        if container["name"] not in names:
            return self.place("containers")
        index = names.index(container["name"])
        if value_at(written[index], below) is None:
            return self.place("containers", index, "name")
        return self.place("containers", index, *below, key=key)


class LintedJob(Struct, frozen=True):
    job: Job
    settings: Settings
    pods: tuple[RolePods, ...]
    others: tuple[Source, ...] = ()  # other objects of the input, such as claims of the job

    @property
    def count(self) -> int:
        return sum(pods.count for pods in self.pods)


def linted_job(
    job: Job, settings: Settings, objects: Sequence[Value], others: Sequence[Source]
) -> LintedJob:
    """Return a job as rules read it.

    Args:
        objects: Its compiled objects, after overlays.
    """
    first: dict[str, Value] = {}
    for value in objects:
        # A Job's template stands for its Pods.
        pod = (value["spec"].get("template") or {}) if value["kind"] == "Job" else value
        is_pod = value["kind"] in ("Pod", "Job") and "metadata" in pod
        if is_pod and (name := pod["metadata"].get("labels", {}).get(ROLE_LABEL)):
            first.setdefault(name, pod)
    # What runs in the main containers of each role, by name. What a launcher starts by mpirun or
    # horovodrun runs in the hosts' Pods, with the paths and devices of their containers.
    hosts = {name for lines in job.host_lists if lines.live for name in lines.roles}
    started: dict[str, list[Started]] = {role.name: [] for role in job.roles}
    for role in job.roles:
        for command in commands(role.template.main_container):
            options: list[Option] = []
            # Without a command, the words are arguments of the image's command.
            words = command.words[not command.words[0].text.startswith("-") :]
            for place, word in enumerate(words):
                if not word.literal or not word.text.startswith("-"):
                    continue
                written, equals, text = word.text.partition("=")
                after = words[place + 1] if place + 1 < len(words) else None
                if not equals and after and after.literal and not after.text.startswith("-"):
                    text, equals = after.text, "="
                name = written.lstrip("-").replace("-", "_")
                options.append(Option(name, text if equals else None, written, role))
            literal = frozenset(word.text for word in command.words if word.literal)
            run = Started(literal, command.program, tuple(options), role)
            elsewhere = command.program in _LAUNCHERS and hosts and role.name not in hosts
            for name in hosts if elsewhere else {role.name}:
                started.get(name, []).append(run)
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
    main = role.template.main_container
    names = [container["name"] for container in role.template.spec["containers"]]
    path = ("spec", "containers", names.index(main["name"]))
    field = "command"
    for field in ("command", "args"):
        for index, word in enumerate(main.get(field, ())):
            if text in word:
                return role.template.origin.locate(*path, field, index)
    return role.template.origin.locate(*path, field)


# Variables and resources ------------------------------------------------------------------------


def variables(container: Value) -> dict[str, str]:
    return {env["name"]: env["value"] for env in container.get("env", ()) if "value" in env}


def passed(pods: RolePods) -> dict[str, tuple[str, Option]]:
    """Return the variables that mpirun passes to processes (`-x NAME=VALUE`), with the option."""
    values = {}
    for option in pods.options:
        if option.written == "-x" and option.value and "=" in option.value:
            name, _, value = option.value.partition("=")
            values[name] = (value, option)
    return values


def devices_of(job: LintedJob, pods: RolePods) -> tuple[int | None, str]:
    """Return how many devices a Pod's main container has, and their name; None if unknown."""
    if pods.main.get("resources", {}).get("claims"):
        claims: dict[tuple[str, str], Any] = {}
        for source in job.others:
            kind, spec = str(source.data.get("kind")), source.data.get("spec")
            if kind.startswith("ResourceClaim") and isinstance(spec, dict):
                name = str((source.data.get("metadata") or {}).get("name"))
                claims[kind, name] = spec.get("spec") if kind.endswith("Template") else spec
        return claimed(pods.main, pods.spec, claims), "claimed devices"
    counts = devices(pods.main)
    what = "GPUs" if all(map(is_gpu, counts)) else f"devices ({', '.join(counts)})"
    return sum(counts.values()), what


def is_gpu(resource: str) -> bool:
    return "gpu" in resource or "/mig-" in resource


def limit(container: Value, resource: str) -> Decimal | None:
    amount = container.get("resources", {}).get("limits", {}).get(resource)
    return None if amount is None else number(amount)


def requests(pods: RolePods, container: Value, resource: str) -> bool:
    """Return whether a container, or its Pod for all containers, requests or limits a resource."""
    return any(
        resource in value.get("resources", {}).get(field, {})
        for value in (container, pods.spec)
        for field in ("requests", "limits")
    )


# Processes --------------------------------------------------------------------------------------


class Processes(Struct, frozen=True):
    """How many processes train in each Pod of a role."""

    count: int
    said: str  # the origin of the number, for a message: `--nproc-per-node 8`
    torch: bool = False  # each takes a GPU by its local rank, as those of torchrun do
    option: Option | None = None


def processes(job: LintedJob, pods: RolePods) -> Processes | None:
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
    if any(map(_runs_torch, pods.commands)):
        return True
    image = str(pods.main.get("image", "")).partition("@")[0]
    names = {*variables(pods.main), *(env.name for env in pods.role.additions.env)}
    return "torch" in image or "PET_NNODES" in names


def _runs_torch(started: Started) -> bool:
    return started.program in _TORCH or not started.words.isdisjoint(_TORCH)


# Nodes ------------------------------------------------------------------------------------------


def is_on_one_node(pods: RolePods) -> bool:
    spec = pods.spec
    if "nodeName" in spec or HOST in spec.get("nodeSelector", {}):
        return True
    return any(term.get("topologyKey") == HOST for term in _terms(spec, "podAffinity"))


def is_one_per_node(pods: RolePods) -> bool:
    """Return whether the scheduler must put each Pod of a role on a different node.

    An anti-affinity or a spread over nodes does that, and ports of the host; in the host's network
    those are all ports that containers declare.
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
    below = f"{path.rstrip('/')}/"
    volumes = {volume["name"]: volume for volume in pods.spec.get("volumes", ())}
    holders = [
        Mounted(index, mount, volumes[mount["name"]])
        for index, mount in enumerate(pods.main.get("volumeMounts", ()))
        if mount["name"] in volumes and below.startswith(f"{mount['mountPath'].rstrip('/')}/")
    ]
    return max(holders, key=lambda mounted: len(mounted.mount["mountPath"]), default=None)


class Checkpoints(Struct, frozen=True):
    """A place to which the main container of a role writes checkpoints."""

    said: str  # what says that checkpoints go there, for a message
    mounted: Mounted | None  # the volume that holds them; None for the container's file system
    where: Option | ValuePath  # of what says so: an option, or a path in the container

    def place(self, pods: RolePods) -> Location:
        if isinstance(self.where, Option):
            return self.where.place
        return pods.place_in(pods.main, *self.where)


def checkpoints(pods: RolePods) -> Iterator[Checkpoints]:
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
    """Return whether checkpoints can be written there; a read-only one is a starting point."""
    return mounted is None or not mounted.mount.get("readOnly")
