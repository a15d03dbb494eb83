"""What a job's gang comes to: who is in it, how many of each role must fit, what they ask for.

The same for every scheduler; each of them writes it in its own words. The Pods themselves are
looked at, not the templates: init containers of ours count too (reference/gang-scheduling.md 1).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.backend.gang.queues import QueueClaim, queue_claims
from etcompile.k8s import requests
from etcompile.k8s.objects import Object
from etcompile.model import Gang, Job, Member, Role, Settings
from etcompile.model.protocol import INDEX_LABEL, ROLE_LABEL


class Share(Struct, frozen=True):
    """A role's part of a gang.

    Args:
        minimum: How many of its Pods must fit before any Pod of the gang starts.
        first: It is filled up before the others, should the minimum not be enough for all.
        spec: The PodSpec of its Pods, that of the first where they differ.
        requests: What each of them asks for at most.
        members: Its replicas by their index.
    """

    role: Role
    minimum: int
    first: bool
    spec: Mapping[str, Any]
    requests: requests.Amounts
    members: Mapping[int | None, Member]


class Place(Struct, frozen=True):
    """A Pod's place in a gang.

    Args:
        share: Its role's part.
        leads: The run is what it does: it goes first.
        core: It is one of those that must fit; else it comes when there is room.
    """

    share: Share
    leads: bool
    core: bool


class Group(Struct, frozen=True):
    """A job's gang.

    Args:
        name: The name of its object, or of the gang where it has none.
        asked: What the job asks.
        shares: Its roles, the leading ones first.
        queue: The queue; None if the scheduler has none.
        claims: The places that name a queue, the one that counts first.
        version: The version of Kubernetes, `1.37`.
    """

    name: str
    job: Job
    asked: Gang
    shares: tuple[Share, ...]
    queue: str | None
    claims: tuple[QueueClaim, ...]
    version: str

    @property
    def minimum(self) -> int:
        """How many Pods must fit before any starts, of all roles."""
        return sum(share.minimum for share in self.shares)

    @property
    def replicas(self) -> int:
        """How many Pods there are."""
        return sum(len(share.role.members) for share in self.shares)

    @property
    def minor(self) -> int:
        """The minor version of Kubernetes."""
        return int(self.version.partition(".")[2])

    @property
    def resources(self) -> dict[str, str]:
        """What must be free before any Pod starts."""
        if self.asked.min_resources is not None:
            return {name: str(amount) for name, amount in self.asked.min_resources.items()}
        parts = ((share.minimum, share.requests) for share in self.shares)
        return requests.written(requests.total(parts))

    @property
    def priority_class(self) -> str | None:
        """The PriorityClass of the gang; None for none.

        Where its roles have different ones, it is what the operator of the kind makes of them.
        """
        if self.asked.priority_class is not None:
            return self.asked.priority_class
        found = {share.spec.get("priorityClassName") for share in self.shares}
        if len(found) > 1 and not self.asked.operator.leading_class:
            return None
        return self.leading_class

    @property
    def mixed(self) -> bool:
        """Whether its Pods have different PriorityClasses."""
        usual = self.asked.priority_class
        return len({share.spec.get("priorityClassName") or usual for share in self.shares}) > 1

    @property
    def leading_class(self) -> str | None:
        """The PriorityClass of the role that trains, else of the first role that has one."""
        trains = self.share(self.asked.operator.class_of or "")
        shares = (trains,) if trains else self.shares
        classes = (share.spec.get("priorityClassName") for share in shares)
        return next((name for name in classes if name), None)

    def place(self, share: Share, member: Member) -> Place:
        """The place of a replica's Pod."""
        rank = member.place or 0
        return Place(share, _leads(self.job, share, rank), rank < share.minimum)

    def share(self, role: str) -> Share | None:
        """The part of a role."""
        return next((share for share in self.shares if share.role.name == role), None)


def group_of(
    job: Job, settings: Settings, objects: Sequence[Object], default_queue: str | None
) -> Group:
    """The gang of a job."""
    specs: dict[str, list[Mapping[str, Any]]] = {}
    for value, spec in pod_specs(objects):
        specs.setdefault(_labels(value)[ROLE_LABEL], []).append(spec)
    filled = _filled(job)
    roles = sorted(job.roles, key=lambda role: role is filled)
    needed = {role.name: role.quorum for role in roles}
    if job.gang.minimum is not None:
        leading = sum(len(role.members) for role in roles if role is not filled)
        needed = {role.name: len(role.members) for role in roles}
        needed[filled.name] = max(job.gang.minimum - leading, 0)
    claims = queue_claims(job, settings.gang) if default_queue else ()
    return Group(
        name=f"{job.name}-{job.run_id}" if job.run_id else job.name,
        job=job,
        asked=job.gang,
        shares=tuple(
            _share(role, needed[role.name], specs[role.name], first=role is not filled)
            for role in roles
            if role.name in specs
        ),
        queue=claims[0].queue if claims else default_queue,
        claims=claims,
        version=settings.kubernetes_version,
    )


def pod_specs(objects: Sequence[Object]) -> Iterator[tuple[Object, Mapping[str, Any]]]:
    """Of each Pod, and of each Job that makes one: what has its labels, and its PodSpec."""
    for value in objects:
        if value["kind"] == "Pod" and ROLE_LABEL in _labels(value):
            yield value, value["spec"]
        elif value["kind"] == "Job" and ROLE_LABEL in _labels(value["spec"]["template"]):
            yield value["spec"]["template"], value["spec"]["template"]["spec"]


def place_of(group: Group, pod: Object) -> Place | None:
    """The place of a Pod, or of a Job's Pod template, by its labels."""
    labels = _labels(pod)
    share = group.share(labels.get(ROLE_LABEL, ""))
    if share is None:
        return None
    index = labels.get(INDEX_LABEL)
    member = share.members.get(None if index is None else int(index))
    return group.place(share, member) if member else None


def _share(role: Role, minimum: int, specs: Sequence[Mapping[str, Any]], *, first: bool) -> Share:
    members = {member.index: member for member in role.members}
    # Of Pods that ask for more than others of their role, it is not known which come first.
    asked = requests.highest(map(requests.requested, {id(spec): spec for spec in specs}.values()))
    return Share(role, minimum, first, specs[0], asked, members)


def _filled(job: Job) -> Role:
    """The role that gets what the others leave: the one that scales, else the workers."""
    if scaled := job.scaled_role:
        return scaled
    return job.role("worker") or max(job.roles, key=lambda role: len(role.members))


def _leads(job: Job, share: Share, rank: int) -> bool:
    """Whether the run cannot begin without this Pod, whatever else is there.

    A role that decides on its own does, and the first of workers that decide.
    """
    return share.role.name in job.run.success.roles and (share.first or rank == 0)


def _labels(value: Object) -> Mapping[str, str]:
    labels: Mapping[str, str] = value["metadata"].get("labels") or {}
    return labels
