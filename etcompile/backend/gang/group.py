"""Describe a job's gang: its members, how many of each role must fit, what they request.

The description is the same for every scheduler, and each scheduler's module writes it down
differently. It is read from Pods, not templates, because our init containers count as well
(reference/gang-scheduling.md 1). Four places may name the queue: our annotation, the operators'
`schedulingPolicy`, and a scheduler's label or annotation on the job or on its Pod templates.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from etcompile.diagnostics import Source
from etcompile.k8s import requests
from etcompile.k8s.objects import Object, labels_of
from etcompile.k8s.path import dotted
from etcompile.model import Gang, Job, Member, Origin, Role, Settings
from etcompile.model.protocol import INDEX_LABEL, ROLE_LABEL
from etcompile.model.schedulers import QUEUE_ANNOTATIONS, QUEUE_LABELS

_POLICY_FIRST = "volcano"
"""`schedulingPolicy.queue` is Volcano's queue, and overrides its annotation
(reference/mpi-operator-v2.md 3.8). KAI and Kueue do not read it: they read the label of the
owner first."""


class QueueKey(Struct, frozen=True):
    """A label or annotation that names a queue."""

    scheduler: str
    field: Literal["labels", "annotations"]
    name: str

    @property
    def title(self) -> str:
        return f"{self.field.removesuffix('s')} {self.name}"


QUEUE_KEYS = (
    *(QueueKey(scheduler, "labels", name) for name, scheduler in QUEUE_LABELS.items()),
    *(QueueKey(scheduler, "annotations", name) for name, scheduler in QUEUE_ANNOTATIONS.items()),
)


class QueueClaim(Struct, frozen=True):
    """A place that names a queue."""

    queue: str
    where: str
    origin: Origin


def queue_claims(job: Job, scheduler: str) -> tuple[QueueClaim, ...]:
    """Return the places of a job that name its queue, the effective one first."""
    keys = [key for key in QUEUE_KEYS if key.scheduler == scheduler]
    ours, policy, templates = [], [], []
    if job.gang.queue is not None:
        origin = job.gang.origins["queue"]
        if origin.path[0] == "metadata":
            ours.append(QueueClaim(job.gang.queue, f"annotation {origin.path[-1]}", origin))
        else:
            policy.append(QueueClaim(job.gang.queue, dotted(origin.path), origin))
    of_job = [
        QueueClaim(queue, key.title, job.origin.at("metadata", key.field, key.name))
        for key in keys
        if (queue := getattr(job.gang, key.field).get(key.name))
    ]
    # Leading roles of a gang come before the workers.
    scaled = job.scaled_role or job.role("worker")
    for role in sorted(job.roles, key=lambda role: role is scaled):
        for key in keys:
            if queue := getattr(role.template, key.field).get(key.name):
                origin = role.template.origin.at("metadata", key.field, key.name)
                templates.append(QueueClaim(queue, f"{key.title} of {role.name}", origin))
    ordered = [*policy, *of_job] if scheduler == _POLICY_FIRST else [*of_job, *policy]
    return (*ours, *ordered, *templates)


# The gang ----------------------------------------------------------------------------------------


class Share(Struct, frozen=True):
    """A role's part of a gang."""

    role: Role
    minimum: int  # how many of its Pods must fit before any Pod of the gang starts
    first: bool  # it is filled up before the others if the minimum does not cover all
    spec: Mapping[str, Any]  # the PodSpec of its first Pod
    requests: requests.Amounts  # the largest request of its Pods
    members: Mapping[int | None, Member]  # by index


class Place(Struct, frozen=True):
    """A Pod's place in a gang."""

    share: Share
    leads: bool  # the run depends on it, so it goes first
    core: bool  # it must fit; others start when there is capacity


class Group(Struct, frozen=True):
    """A job's gang."""

    name: str  # of its object, or of the gang if there is no object
    job: Job
    intent: Gang
    shares: tuple[Share, ...]  # leading roles first
    queue: str | None
    claims: tuple[QueueClaim, ...]  # places that name a queue, the effective one first
    settings: Settings
    objects: Sequence[Object]
    changed: Sequence[Source]  # objects that overlays changed, one per set that differs in metadata

    @property
    def minimum(self) -> int:
        return sum(share.minimum for share in self.shares)

    @property
    def minor(self) -> int:
        return int(self.settings.kubernetes_version.partition(".")[2])

    @property
    def resources(self) -> dict[str, str]:
        if self.intent.min_resources is not None:
            return {name: str(amount) for name, amount in self.intent.min_resources.items()}
        parts = ((share.minimum, share.requests) for share in self.shares)
        return requests.written(requests.total(parts))

    @property
    def priority_class(self) -> str | None:
        """Return the PriorityClass of the gang; None for none.

        If its roles have different ones, the operator of the kind decides.
        """
        if self.intent.priority_class is not None:
            return self.intent.priority_class
        classes = {share.spec.get("priorityClassName") for share in self.shares}
        if len(classes) > 1 and not self.intent.operator.leading_class:
            return None
        return self.leading_class

    @property
    def mixed(self) -> bool:
        usual = self.intent.priority_class
        return len({share.spec.get("priorityClassName") or usual for share in self.shares}) > 1

    @property
    def leading_class(self) -> str | None:
        """Return the PriorityClass of the role that trains, else of the first role with one."""
        trains = self.share(self.intent.operator.class_of or "")
        shares = (trains,) if trains else self.shares
        classes = (share.spec.get("priorityClassName") for share in shares)
        return next((name for name in classes if name), None)

    def share(self, role: str) -> Share | None:
        return next((share for share in self.shares if share.role.name == role), None)


def group_of(
    job: Job,
    settings: Settings,
    objects: Sequence[Object],
    default_queue: str | None,
    changed: Sequence[Source] = (),
) -> Group:
    specs: dict[str, list[Mapping[str, Any]]] = {}
    for value, spec in pod_specs(objects):
        specs.setdefault(labels_of(value)[ROLE_LABEL], []).append(spec)
    # This role gets what the others leave: the one that scales, else the workers.
    filled = job.scaled_role or job.role("worker")
    filled = filled or max(job.roles, key=lambda role: len(role.members))
    roles = sorted(job.roles, key=lambda role: role is filled)
    needed = {role.name: role.quorum for role in roles}
    if job.gang.minimum is not None:
        leading = sum(len(role.members) for role in roles if role is not filled)
        needed = {role.name: len(role.members) for role in roles}
        needed[filled.name] = max(job.gang.minimum - leading, 0)
    claims = queue_claims(job, settings.gang) if default_queue else ()
    shares = []
    for role in roles:
        if of_role := specs.get(role.name):
            # If Pods of a role have different requests, which come first is unknown.
            different = {id(spec): spec for spec in of_role}.values()
            highest = requests.highest(map(requests.requested, different))
            members = {member.index: member for member in role.members}
            first = role is not filled
            shares.append(Share(role, needed[role.name], first, of_role[0], highest, members))
    return Group(
        name=f"{job.name}-{job.run_id}" if job.run_id else job.name,
        job=job,
        intent=job.gang,
        shares=tuple(shares),
        queue=claims[0].queue if claims else default_queue,
        claims=claims,
        settings=settings,
        objects=objects,
        changed=changed,
    )


def pod_specs(objects: Sequence[Object]) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    for value in objects:
        pod = value["spec"]["template"] if value["kind"] == "Job" else value
        if value["kind"] in ("Pod", "Job") and ROLE_LABEL in labels_of(pod):
            yield pod, pod["spec"]


def place_of(group: Group, pod: Object) -> Place | None:
    labels = labels_of(pod)
    share = group.share(labels.get(ROLE_LABEL, ""))
    if share is None:
        return None
    index = labels.get(INDEX_LABEL)
    member = share.members.get(None if index is None else int(index))
    if member is None:
        return None
    rank = member.place or 0
    # The run cannot begin without a role that decides alone, nor without the first of several
    # workers that decide.
    leads = share.role.name in group.job.run.success.roles and (share.first or rank == 0)
    return Place(share, leads, rank < share.minimum)
