"""A job as rules of advice see it: its roles with the Pods that they come to.

The Pods are those that are applied, so that a rule knows what operators, overlays and defaults add
to a template. The first Pod of a role stands for all of them. A place is looked up only for what is
told, in the template that the author wrote.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Location, Source
from etcompile.lint.commands import Given, Started, started
from etcompile.model import Job, Role, Settings
from etcompile.model.protocol import ROLE_LABEL

_Value = Mapping[str, Any]


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
    metadata: _Value
    spec: _Value
    main: _Value
    commands: tuple[Started, ...]

    @property
    def count(self) -> int:
        """How many Pods there are."""
        return len(self.role.members)

    @property
    def options(self) -> Iterator[Given]:
        """The options of the commands, whose values are no variables of a shell."""
        return (given for started in self.commands for given in started.options)

    @property
    def containers(self) -> Sequence[_Value]:
        """The containers that the author wrote, without those that the compiler adds."""
        written = {container["name"] for container in self.role.template.spec["containers"]}
        return [found for found in self.spec["containers"] if found["name"] in written]

    def place(self, *below: str | int, key: bool = False) -> Location:
        """Where a value below the PodSpec stands in the template; the nearest parent if absent."""
        return self.role.template.origin.locate("spec", *below, key=key)

    def place_in(self, container: _Value, *below: str | int, key: bool = False) -> Location:
        """The same below a container; its name if the value is absent.

        Args:
            container: One of the Pod's containers.
            below: The path in the container.
            key: The place of the key instead.
        """
        written = self.role.template.spec["containers"]
        names = [found["name"] for found in written]
        if container["name"] not in names:
            return self.place("containers")
        index = names.index(container["name"])
        inner: Any = written[index]
        for step in below:
            try:
                inner = inner[step]
            except (KeyError, IndexError, TypeError):
                return self.place("containers", index, "name")
        return self.place("containers", index, *below, key=key)


class LintedJob(Struct, frozen=True):
    """A job, and what is compiled of it.

    Args:
        job: The job after its scale intents.
        settings: How it is compiled.
        pods: The roles that have replicas.
        neighbours: The other objects of the input, which may be claims or budgets of the job.
    """

    job: Job
    settings: Settings
    pods: tuple[RolePods, ...]
    neighbours: tuple[Source, ...] = ()

    @property
    def count(self) -> int:
        """How many Pods the job has."""
        return sum(pods.count for pods in self.pods)

    def of_kind(self, kind: str) -> list[Source]:
        """The other objects of a kind that stand in the job's namespace.

        Args:
            kind: Such as PersistentVolumeClaim.
        """
        return [
            source
            for source in self.neighbours
            if source.data.get("kind") == kind
            and source.data.get("metadata", {}).get("namespace") in (None, self.job.namespace)
        ]


def linted_job(
    job: Job, settings: Settings, objects: Sequence[_Value], neighbours: Sequence[Source]
) -> LintedJob:
    """A job as rules see it.

    Args:
        job: The job after its scale intents.
        settings: How it is compiled.
        objects: What it is compiled to, after overlays.
        neighbours: The other objects of the input.
    """
    first: dict[str, _Value] = {}
    for value in objects:
        pod = value if value["kind"] == "Pod" else _of_job(value)
        if pod and (name := pod["metadata"].get("labels", {}).get(ROLE_LABEL)):
            first.setdefault(name, pod)
    run = started(job)
    pods = tuple(
        _role_pods(role, first.get(role.name), run[role.name]) for role in job.roles if role.members
    )
    return LintedJob(job, settings, pods, tuple(neighbours))


def _of_job(value: _Value) -> _Value | None:
    """The Pod template of a Job of Kubernetes."""
    template = value["spec"].get("template") if value["kind"] == "Job" else None
    return template if template and "metadata" in template else None


def _role_pods(role: Role, pod: _Value | None, commands: tuple[Started, ...]) -> RolePods:
    template = role.template
    metadata = {"labels": template.labels, "annotations": template.annotations}
    spec = pod["spec"] if pod else template.spec
    named = (container for container in spec["containers"] if container["name"] == template.main)
    main = next(named, template.main_container)
    return RolePods(role, pod["metadata"] if pod else metadata, spec, main, commands)
