"""A job as rules of advice see it: its roles with their Pods, and what runs in these.

The Pods are those that are applied, so that a rule knows what operators, overlays and defaults add
to a template. The first Pod of a role stands for all of them. A place is looked up only for what is
reported, in the template that the author wrote.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from etcompile.diagnostics import Location, Source
from etcompile.k8s.path import value_at
from etcompile.launch.commands import LAUNCHERS
from etcompile.launch.shell import commands
from etcompile.model import Job, Role, Settings
from etcompile.model.protocol import ROLE_LABEL

Value = Mapping[str, Any]
"""A JSON mapping."""

_LAUNCHERS = frozenset(LAUNCHERS) - {"torchrun"}
"""Programs that start a training on other hosts; torchrun runs on each of them."""


class Option(NamedTuple):
    """An option of a command, and its value.

    Args:
        name: Without its dashes, words joined by `_`.
        written: The option as it stands in the command line, with its dashes.
        role: The role in whose template it is written.
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
        role: The role in whose template it is written.
    """

    words: frozenset[str]
    program: str
    options: tuple[Option, ...]
    role: Role


class RolePods(Struct, frozen=True):
    """The Pods of a role.

    Args:
        role: The role, as the model has it.
        metadata: Labels and annotations of its first Pod.
        spec: The PodSpec of its first Pod, JSON; that of the template where it has no Pod.
        main: The container that trains.
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
        pods: The roles that have replicas.
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
    """The word that has a text, in the command line of a role's main container.

    Args:
        text: An option, or a part of a script.
    """
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
