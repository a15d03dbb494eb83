"""What the modules of gang schedulers say of themselves, and what is the same for all of them.

They know this shape and nothing of each other (reference/gang-scheduling.md 11). `Marks` makes the
objects of a job those of a gang. Some of what a scheduler reads stands in the annotations of the
gang's object only: Volcano looks nowhere else for `volcano.sh/preemptable`. The Training Operator
copies all annotations of the job to it, and KAI's own grouper labels and annotations
(reference/training-operator.md 2.5).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from etcompile.backend.gang.group import Group, Place, group_of, place_of
from etcompile.backend.identity import job_labels, metadata
from etcompile.diagnostics import Diagnostic
from etcompile.k8s.bookkeeping import is_bookkeeping
from etcompile.k8s.names import is_subdomain
from etcompile.k8s.objects import Object
from etcompile.model import Job, Labels, Settings
from etcompile.model.schedulers import reader_of

NOT_QUEUED = {
    "queue_priority": "only Kueue's queues have priorities of their own",
    "extra_queue_priority": "only Kueue's queues have priorities of their own",
}
"""Why these fields of `Gang` say nothing to others than Kueue."""


NO_TIERS = {"topology": "only Volcano keeps Pods within a tier of its network"}
"""Why this field of `Gang` says nothing to others than Volcano."""
NO_TOPOLOGY_LABEL = {"topology_label": "only Kueue and Kubernetes itself place Pods by it"}
"""Why this field of `Gang` says nothing to others than these two."""
NO_TOPOLOGY = {**NO_TIERS, **NO_TOPOLOGY_LABEL}
"""Why neither field says anything to most."""


class Membership(Struct, frozen=True):
    """What makes a Pod one of a gang.

    Args:
        spec: Fields of its PodSpec that replace those that are there.
    """

    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


class Scheduler(Struct, frozen=True):
    """A gang scheduler.

    Args:
        membership: What makes a Pod one of the gang; the same for all in the same place.
        objects: The objects that describe the gang; none if it reads all it needs from Pods.
        problems: What its own rules have against the objects of a job, as they are written.
        needs: What must be in the cluster, besides the scheduler itself.
        scheduler_name: The `schedulerName` of its Pods; None if they keep theirs.
        usual_name: The `schedulerName` that Pods which keep theirs have if none is written; None
            if it schedules Pods of any.
        default_queue: The queue of a job that names none; None if it has no queues.
        queue_form: Whether a text can be the name of a queue, and what it must be, in words.
        unused: Fields of `Gang` that it does nothing with, and why.
        roles: It knows roles, with a minimum each; else it takes Pods in the order of their names.
        uniform_roles: The Pods of a role must be alike.
        starts_early: It does not wait until all Pods of the minimum are there.
        plain_pods: Its Pods must not be made by Jobs, which it would treat as gangs of their own.
        declares_version: What it gets depends on the version of Kubernetes.
        reads_job: Those of its own labels and annotations on a job that reach it, where it has no
            object that has all of them; None if it has one.
        one_priority: It rejects a gang of Pods with different priorities.
        resizes_since: The minor version of Kubernetes since which the minimum of a gang that is
            there may change; None for never.
    """

    title: str
    membership: Callable[[Group, Place], Membership]
    objects: Callable[[Group], list[dict[str, Any]]] = lambda _group: []
    problems: Callable[[Group], Iterator[Diagnostic]] = lambda _group: iter(())
    needs: Callable[[Group], Iterable[str]] = lambda _group: ()
    scheduler_name: str | None = None
    usual_name: str | None = None
    default_queue: str | None = None
    queue_form: tuple[Callable[[str], bool], str] = (is_subdomain, "a DNS subdomain")
    unused: Mapping[str, str] = field(default_factory=dict)
    roles: bool = False
    uniform_roles: bool = False
    starts_early: bool = False
    plain_pods: bool = False
    declares_version: bool = False
    reads_job: frozenset[str] | None = None
    one_priority: bool = False
    resizes_since: int | None = 0


# Marks on Pods -----------------------------------------------------------------------------------


class Marks:
    """What makes the objects of a job those of a gang, by its scheduler.

    Pods of a role share their spec and their annotations, and still do afterwards: of thousands of
    Pods, only what differs is made again.
    """

    def __init__(
        self, job: Job, settings: Settings, scheduler: Scheduler, objects: Sequence[Object]
    ) -> None:
        self.group = group_of(job, settings, objects, scheduler.default_queue)
        self._scheduler = scheduler
        self._scheduler_name = settings.gang_scheduler or scheduler.scheduler_name
        self._memberships: dict[tuple[str, bool, bool], Membership] = {}
        self._shared: dict[tuple[object, ...], tuple[object, dict[str, Any]]] = {}

    def on(self, value: Object) -> dict[str, Any]:
        """The object with the marks, on itself or on the Pods that it makes."""
        if value["kind"] == "Job":
            spec = {**value["spec"], "template": self._on_pod(value["spec"]["template"])}
            return {**value, "spec": spec}
        return self._on_pod(value) if value["kind"] == "Pod" else dict(value)

    def _on_pod(self, pod: Object) -> dict[str, Any]:
        place = place_of(self.group, pod)
        if place is None:
            return dict(pod)
        key = (place.share.role.name, place.leads, place.core)
        if key not in self._memberships:
            self._memberships[key] = self._scheduler.membership(self.group, place)
        member = self._memberships[key]
        metadata = dict(pod["metadata"])
        metadata["labels"] = {**metadata.get("labels", {}), **member.labels}
        if member.annotations:
            annotations = metadata.get("annotations", {})
            metadata["annotations"] = self._with(annotations, member.annotations)
        spec, fields = pod["spec"], dict(member.spec)
        # What its author named stays, unless the operator of the kind replaces it; a rule compares
        # it (`gang_checks`).
        replaces = self.group.intent.operator.replaces_scheduler
        if self._scheduler_name and (replaces or not spec.get("schedulerName")):
            fields["schedulerName"] = self._scheduler_name
        priority = self.group.intent.priority_class
        if priority and not spec.get("priorityClassName"):
            fields["priorityClassName"] = priority
        return {**pod, "metadata": metadata, "spec": self._with(spec, fields)}

    def _with(self, before: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """`before` with the fields; the same value for the same two."""
        key = (id(before), *((name, str(value)) for name, value in fields.items()))
        if key not in self._shared:
            # With what it was made from, whose id must not become another's meanwhile.
            self._shared[key] = (before, {**before, **fields})
        return self._shared[key][1]


# The object of a gang ----------------------------------------------------------------------------


def pod_group(api_version: str, metadata: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A PodGroup, with those fields of its spec that say something."""
    fields = {name: value for name, value in spec.items() if value}
    return {"apiVersion": api_version, "kind": "PodGroup", "metadata": metadata, "spec": fields}


def group_metadata(
    group: Group,
    scheduler: str,
    annotations: Mapping[str, str] | None = None,
    *,
    all_annotations: bool = False,
    all_labels: bool = False,
) -> dict[str, Any]:
    """The metadata of the object that describes a gang.

    The labels and annotations of the job that only this scheduler reads are on it, whatever the
    kind of the job is. The bookkeeping of a tool never is.

    Args:
        annotations: Annotations of the scheduler's module; those of the job count before them.
    """

    def of_job(texts: Mapping[str, str], *, everything: bool) -> dict[str, str]:
        return {
            key: value
            for key, value in sorted(texts.items())
            if (everything or reader_of(key) == scheduler) and not is_bookkeeping(key)
        }

    intent = group.intent
    notes = {**(annotations or {}), **of_job(intent.annotations, everything=all_annotations)}
    labels = {**of_job(intent.labels, everything=all_labels), **job_labels(group.job)}
    more = {"annotations": dict(sorted(notes.items()))} if notes else {}
    return metadata(group.job, group.name, labels, **more)
