"""Define the row of a kind, for the pipeline, and of its operator, for a hand-over."""

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
"""The only manager that the operators' APIs accept besides the operators."""


Lowered = tuple[Job | Intent | None, Sequence[Diagnostic]]
"""The job or intent of a document (None if invalid), and its diagnostics."""


class Prepared(Struct, frozen=True):
    """The data of a document with its fields where its kind reads them.

    Args:
        moved: The new path of each moved field, to its path in the file.
        changes: The changes, for people: `spec.backoffLimit moves to spec.runPolicy...`.
    """

    data: Mapping[str, Any]
    moved: Mapping[ValuePath, ValuePath]
    warning: Diagnostic
    changes: tuple[str, ...] = ()


class Operator(Struct, frozen=True):
    """The operator that runs jobs of a kind.

    Args:
        deployment: The Deployment of its default installation.
        skips_deleted: It ignores a job that is being deleted, so it need not be stopped while the
            job's objects lose their owner.
        workers: The path of the running workers' names in the status; empty if the spec has them.
        scalers: Kinds of its API group that scale a job and are left over when the job goes.
        makes: API versions and kinds of what it creates for a job besides Pods, Services,
            ConfigMaps, Jobs, rights and autoscalers.
        generates_names: The names of its Pods end at random, so no rendered Pod can replace them:
            the old run ends, and a new one begins.
        lost: What nothing does for a run without it, besides its policies.
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

    The documents that its methods take need not be valid.

    Args:
        schema: Its JSON Schema: a file name in `schemas/`, or a path.
        lower: Turn a valid document into a job or an intent, except for what all kinds share.
        annotations: Those of its documents that only this kind reads.
        pod_counts: The fields that are a number of Pods, and so are bounded before anything is
            built; a step `*` is each key of a mapping. Nothing is built from `maxReplicas`.
        pod_templates: The paths of its Pod templates; a step `*` is each key of a mapping or each
            entry of a list.
        volumes: Volumes that the compiled Pods have besides the template's, so that a template may
            mount them.
        operator: The operator that runs it, for a hand-over, if known.
        elastic: The field that makes its jobs scalable; empty if all of them are, or none.
        managers: Values of the field `managed_by` that mean its operator; none for a kind without
            that field.
        container: The name that a container of each Pod template must have; empty if any will do.
        completed: Types whose template may be incomplete, because the job completes it.
        managed_by: The field that names the controller of a job.
        prepare: Move fields of older or other tools to where the kind reads them; None if there
            are none. The document need not be valid.
        exit_codes: Its restartPolicy may be ExitCode (reference/training-operator.md 2.4).
        refers_by: The fields that may name another document, such as the job of a scale intent; the
            first that is set counts.
        refers_to: The kinds of that document; any known one if empty.
        definition: The row of the Training Operator's kinds, if it is one of these.
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
    prepare: Callable[[Source], Prepared | None] = lambda _: None
    exit_codes: bool = False
    refers_by: tuple[ValuePath, ...] = ()
    refers_to: tuple[str, ...] = ()
    definition: Struct | None = None

    @property
    def group(self) -> str:
        return self.api_version.partition("/")[0]

    def reference(self, data: Any) -> ValuePath:
        """Return the field by which a document names another one; empty if it names none."""
        return next((path for path in self.refers_by if value_at(data, path)), ())

    def refers(self, data: Any, kind: str, name: str) -> bool:
        """Return whether a document names the document `name` of a kind."""
        is_kind = not self.refers_to or kind in self.refers_to
        return is_kind and value_at(data, self.reference(data)) == name

    def problems(self, source: Source) -> list[Diagnostic]:
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
        """Return the controller of a job if it is not the operator."""
        value = value_at(data, self.managed_by)
        is_other = isinstance(value, str) and bool(self.managers) and value not in self.managers
        return value if is_other else None

    def templates_of(self, data: Any) -> Iterator[ValuePath]:
        return (place for path in self.pod_templates for place in _paths(path, data))

    def templates_by_role(self, data: Any) -> dict[str, ValuePath]:
        """Return the paths of a document's Pod templates by role in lower case.

        The role is the key above the template, or the name of the list entry above it.
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
        return (place for path in self.pod_counts for place in _paths(path, data))


def names_of(api_version: str, name: str) -> tuple[str, ...]:
    """Return the names of a kind as kubectl accepts them, and in full, the shortest first."""
    group, _, version = api_version.rpartition("/")
    with_version = f"{name}.{version}"
    full = f"{api_version}/{name}"
    return name, with_version, f"{name}.{group}", f"{with_version}.{group}", full


def _paths(path: ValuePath, data: Any) -> Iterator[ValuePath]:
    """Replace the step `*` of a path by each key of the mapping or list there."""
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
