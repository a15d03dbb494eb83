"""Define what a gang scheduler's module declares, and what all of them share.

The modules know this shape and nothing of each other (reference/gang-scheduling.md 11). `Marks`
makes a job's Pods members of its gang. Some settings of a scheduler exist only as annotations of
the gang's object: Volcano reads `volcano.sh/preemptable` nowhere else. The Training Operator copies
all annotations of the job to it, KAI's own grouper labels and annotations
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
"""Why only Kueue uses these fields of `Gang`."""


NO_TIERS = {"topology": "only Volcano keeps Pods within a tier of its network"}
"""Why only Volcano uses this field of `Gang`."""
NO_TOPOLOGY_LABEL = {"topology_label": "only Kueue and Kubernetes itself place Pods by it"}
"""Why only these two use this field of `Gang`."""
NO_TOPOLOGY = {**NO_TIERS, **NO_TOPOLOGY_LABEL}


class Membership(Struct, frozen=True):
    """Marks of a Pod as a member of a gang."""

    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)  # replaces fields of its PodSpec


class Scheduler(Struct, frozen=True):
    title: str
    # Marks of a Pod; the same for all Pods in the same place.
    membership: Callable[[Group, Place], Membership]
    # Objects that describe the gang; none if the scheduler reads all it needs from Pods.
    objects: Callable[[Group], list[dict[str, Any]]] = lambda _group: []
    # Problems by this scheduler's rules, in the objects as they are written.
    problems: Callable[[Group], Iterator[Diagnostic]] = lambda _group: iter(())
    # What the cluster must have besides the scheduler itself.
    needs: Callable[[Group], Iterable[str]] = lambda _group: ()
    scheduler_name: str | None = None  # `schedulerName` of its Pods; None: theirs stays
    usual_name: str | None = None  # their name if they set none; None: it may be any
    default_queue: str | None = None  # queue of a job that names none; None: it has no queues
    # A check of the name of a queue, and the rule in words.
    queue_form: tuple[Callable[[str], bool], str] = (is_subdomain, "a DNS subdomain")
    unused: Mapping[str, str] = field(default_factory=dict)  # ignored fields of `Gang`, and why
    roles: bool = False  # a minimum per role; else it takes Pods in the order of their names
    uniform_roles: bool = False  # the Pods of a role must be equal
    starts_early: bool = False  # it does not wait until all Pods of the minimum exist
    plain_pods: bool = False  # it would treat each Job as a gang, so it needs Pods instead
    declares_version: bool = False  # the output depends on the version of Kubernetes
    # Its keys on a job that reach it although no object of the gang has them; None: one has all.
    reads_job: frozenset[str] | None = None
    one_priority: bool = False  # it rejects a gang of Pods with different priorities
    # Minor version of Kubernetes since which the minimum of an existing gang may change.
    resizes_since: int | None = 0


# Marks on Pods -----------------------------------------------------------------------------------


class Marks:
    """Makes a job's Pods members of its gang.

    Pods of a role share their spec and annotations, and still do afterwards: with thousands of
    Pods, only what differs is copied.
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
        # The author's scheduler stays unless the operator of the kind replaces it; a rule compares
        # it (`gang_checks`).
        replaces = self.group.intent.operator.replaces_scheduler
        if self._scheduler_name and (replaces or not spec.get("schedulerName")):
            fields["schedulerName"] = self._scheduler_name
        priority = self.group.intent.priority_class
        if priority and not spec.get("priorityClassName"):
            fields["priorityClassName"] = priority
        return {**pod, "metadata": metadata, "spec": self._with(spec, fields)}

    def _with(self, before: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return `before` with the fields; equal arguments return the same value."""
        key = (id(before), *((name, str(value)) for name, value in fields.items()))
        if key not in self._shared:
            # Storing `before` keeps its id from being reused.
            self._shared[key] = (before, {**before, **fields})
        return self._shared[key][1]


# The object of a gang ----------------------------------------------------------------------------


def pod_group(api_version: str, metadata: dict[str, Any], **spec: Any) -> dict[str, Any]:
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
    """Return the metadata of the object that describes a gang.

    It has the job's labels and annotations that only this scheduler reads, whatever the job's kind,
    and never the bookkeeping of a tool.

    Args:
        annotations: Annotations of the scheduler's module; the job's annotations override them.
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
