"""What a frontend says of a kind, for the pipeline, and of its operator, for a hand-over."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field, structs

from etcompile.diagnostics import Diagnostic, Source, ValuePath
from etcompile.frontends.annotations import OF_EVERY_JOB, Annotations, check_annotations, recovered
from etcompile.frontends.notes import no_such_container
from etcompile.k8s.path import mappings_of, value_at
from etcompile.model import Intent, Job

MANAGED_BY: ValuePath = ("spec", "runPolicy", "managedBy")
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The one manager besides operators that their APIs admit."""


Lowered = tuple[Job | Intent | None, Sequence[Diagnostic]]
"""What a document became, None if it cannot be a job or an intent; and what is to be said of it."""


class Operator(Struct, frozen=True):
    """The operator that runs jobs of a kind.

    Args:
        namespace: Where its own manifests install it.
        deployment: The Deployment of that installation.
        skips_deleted: It leaves a job alone once that is being deleted, so that it need not be
            stopped while its objects lose their owner.
        workers: Where the status lists the workers that run, by name; none if the spec says it.
        scalers: Kinds of its API group that scale a job and are left over when the job goes.
        makes: What it makes of a job besides Pods, Services, ConfigMaps, Jobs, rights and
            autoscalers: API versions and kinds.
        generates_names: Its Pods have names that end at random: none can become what is rendered,
            so that a run ends where it is, and another begins.
        lost: What nobody does any more for a run that goes on without it, besides its policies.
    """

    name: str
    namespace: str
    deployment: str
    skips_deleted: bool = False
    workers: ValuePath = ()
    scalers: tuple[str, ...] = ()
    makes: tuple[tuple[str, str], ...] = ()
    generates_names: bool = False
    lost: tuple[str, ...] = ()


class Kind(Struct, frozen=True):
    """A kind of document that etcompile compiles.

    Its methods take documents, JSON, that need not be valid.

    Args:
        api_version: `group/version`.
        schema: Its JSON Schema: a file name in `schemas/`, or a path.
        lower: Turns a document that its schema accepts into a job or an intent, but for what is
            the same of all kinds.
        annotations: Those of its documents that only this kind reads.
        pod_counts: The fields that are a number of Pods, and so are bounded before anything is
            built; a step `*` is each key of a mapping. Nothing is built from `maxReplicas`.
        pod_templates: Where its Pod templates stand; a step `*` is each key of a mapping
            or each entry of a list.
        volumes: Volumes that the compiled Pods have besides the template's own, so that a
            template may mount them.
        operator: Who runs it elsewhere, for a hand-over; None if nothing is known of that.
        elastic: The field that lets its jobs scale; empty if all of them do, or none.
        managers: Values of the field `managed_by` that mean the operator whose work this is;
            none for a kind without that field.
        container: The name that a container of each Pod template must have; empty if any will do.
        completed: Types whose template may leave out what a Pod needs: the job fills it in.
        managed_by: The field that names the controller of a job.
    """

    api_version: str
    name: str
    schema: str | Path
    lower: Callable[[Source], Lowered]
    summary: str
    pod_counts: tuple[ValuePath, ...]
    annotations: Annotations = field(default_factory=dict)
    pod_templates: tuple[ValuePath, ...] = ()
    volumes: tuple[str, ...] = ()
    operator: Operator | None = None
    elastic: str = ""
    container: str = ""
    completed: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()
    managed_by: ValuePath = MANAGED_BY

    def problems(self, source: Source) -> list[Diagnostic]:
        """Report annotations and names of containers, whether or not the schema is satisfied."""
        known = {**self.annotations, **OF_EVERY_JOB} if self.pod_templates else self.annotations
        problems = [*check_annotations(source, known)]
        for path in self.templates_of(source.data) if self.container else ():
            listed = mappings_of(value_at(source.data, (*path, "spec")), "containers")
            containers = [container for _, container in listed]
            names = [container.get("name") for container in containers]
            if names and self.container not in names and all(isinstance(n, str) for n in names):
                place = source.locate((*path, "spec", "containers"))
                problems.append(no_such_container(place, self.name, self.container, containers))
        return problems

    def lowered(self, source: Source) -> Lowered:
        """The job or the intent of a document that its schema accepts."""
        value, notes = self.lower(source)
        if isinstance(value, Job):
            value, more = recovered(value, source)
            ranges = (
                role.bounds and role.bounds.quorum != len(role.members) for role in value.roles
            )
            least, size = value.gang.minimum, sum(len(role.members) for role in value.roles)
            rigid = not any(ranges) and (least is None or least >= size)
            value = structs.replace(value, gang=structs.replace(value.gang, rigid=rigid))
            notes = [*notes, *more]
        return value, notes

    def other_manager(self, data: Any) -> str | None:
        """The controller that a document gives its job to, if it is another than the operator."""
        value = value_at(data, self.managed_by)
        is_other = isinstance(value, str) and bool(self.managers) and value not in self.managers
        return value if is_other else None

    def templates_of(self, data: Any) -> Iterator[ValuePath]:
        """The paths of the Pod templates that a document of this kind has."""
        return (place for path in self.pod_templates for place in _paths(path, data))

    def templates_by_role(self, data: Any) -> dict[str, ValuePath]:
        """The paths of the Pod templates of a document of this kind, by the role in lower case.

        A template stands below the name of its role, or below an entry of a list that has it.
        """
        templates = {}
        for path in self.templates_of(data):
            place = next((place for place, step in enumerate(path) if isinstance(step, int)), None)
            role: Any = path[-2]
            if place is not None:
                entry = value_at(data, path[: place + 1])
                role = entry.get("name") if isinstance(entry, Mapping) else path[place]
            templates[str(role).lower()] = path
        return templates

    def counts_of(self, data: Any) -> Iterator[ValuePath]:
        """The paths of the fields of a document of this kind that are a number of Pods."""
        return (place for path in self.pod_counts for place in _paths(path, data))


def names_of(api_version: str, name: str) -> tuple[str, ...]:
    """What a kind may be called, as kubectl has it and in full, the shortest first."""
    group, _, version = api_version.rpartition("/")
    with_version = f"{name}.{version}"
    full = f"{api_version}/{name}"
    return name, with_version, f"{name}.{group}", f"{with_version}.{group}", full


def _paths(path: ValuePath, data: Any) -> Iterator[ValuePath]:
    """A path for each key of the mapping, or entry of the list, where it has the step `*`."""
    if "*" not in path:
        yield path
        return
    star = path.index("*")
    value = value_at(data, path[:star])
    keys = range(len(value)) if isinstance(value, list) else value
    for key in keys if isinstance(value, list | Mapping) else ():
        yield (*path[:star], key, *path[star + 1 :])


ET_OPERATOR = Operator(
    *("et-operator", "kube-ai", "et-operator"),
    skips_deleted=True,
    workers=("status", "targetWorkers"),
    scalers=("ScaleOut", "ScaleIn"),
    lost=("nobody rewrites the launcher's host file: a lost worker stays on it",),
)

TRAINING_OPERATOR = Operator(
    "Training Operator", "kubeflow", "training-operator", skips_deleted=True
)

MPI_OPERATOR = Operator(
    *("MPI Operator", "mpi-operator", "mpi-operator"),
    skips_deleted=True,  # reference/mpi-operator-v2.md 5, step 1
    lost=("nobody repairs the host file in the job's ConfigMap",),
)

DLROVER = Operator(
    *("DLRover operator", "dlrover", "dlrover-controller-manager"),
    scalers=("ScalePlan",),
    lost=(
        "nothing follows a worker that fails: its master makes no Pods without the custom resource",
    ),
)

TRAINER = Operator(
    *("Kubeflow Trainer", "kubeflow-system", "kubeflow-trainer-controller-manager"),
    makes=(("jobset.x-k8s.io/v1alpha2", "JobSet"), ("v1", "PersistentVolumeClaim")),
    generates_names=True,  # reference/trainer-v2.md 7.4
)
