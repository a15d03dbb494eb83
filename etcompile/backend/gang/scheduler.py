"""What a gang scheduler's module says of itself, so that all of them can be used alike.

Apart from the schedulers, which know this shape and nothing of each other
(reference/gang-scheduling.md 11).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from etcompile.backend.gang.group import Group, Place
from etcompile.diagnostics import Diagnostic
from etcompile.k8s.names import is_subdomain
from etcompile.k8s.objects import Object
from etcompile.model import Labels

NOT_QUEUED = {
    "queue_priority": "only Kueue's queues have priorities of their own",
    "extra_queue_priority": "only Kueue's queues have priorities of their own",
}
"""Why these fields of `Gang` say nothing to others than Kueue."""


NO_TOPOLOGY = {"topology": "only Volcano keeps Pods within a tier of its network"}
"""Why this field of `Gang` says nothing to others than Volcano."""


class Membership(Struct, frozen=True):
    """What makes a Pod one of a gang.

    Args:
        labels: Labels of the Pod.
        annotations: Annotations of the Pod.
        spec: Fields of its PodSpec that replace those that are there.
    """

    labels: Labels = field(default_factory=dict)
    annotations: Labels = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)


def no_objects(_group: Group) -> list[dict[str, Any]]:
    """For a scheduler that reads all it needs from Pods."""
    return []


def no_problems(_group: Group, _objects: Sequence[Object]) -> Iterator[Diagnostic]:
    """For a scheduler with no rules but those that all have."""
    yield from ()


def no_needs(_group: Group) -> Iterator[str]:
    """For a scheduler that needs nothing but itself."""
    yield from ()


class Scheduler(Struct, frozen=True):
    """A gang scheduler.

    Args:
        title: What people call it.
        membership: What makes a Pod one of the gang; the same for all in the same place.
        objects: The objects that describe the gang.
        problems: What its own rules have against the objects of a job, as they are written.
        needs: What must be in the cluster, beside the scheduler itself.
        scheduler_name: The `schedulerName` of its Pods; None if they keep theirs.
        usual_name: The `schedulerName` that Pods which keep theirs have if none is written; None
            if it schedules Pods of any.
        default_queue: The queue of a job that names none; None if it has no queues.
        queue_form: Whether a text can be the name of a queue, and what it must be, in words.
        unused: Fields of `Gang` that it does nothing with, and why.
        minimum_at: Where its object has the minimum, if it has it in one number.
        roles: It knows roles, with a minimum each; else it takes Pods in the order of their names.
        alike: The Pods of a role must be alike.
        starts_early: It does not wait until all Pods of the minimum are there.
        plain_pods: Its Pods must not be made by Jobs, which it would treat as gangs of their own.
        declares_version: What it gets depends on the version of Kubernetes.
        reads_job: Those of its own labels and annotations on a job that it is told of, where it
            has no object that has all of them; None if it has one.
        one_priority: It rejects a gang of Pods with different priorities.
        resizes_since: The minor version of Kubernetes since which the minimum of a gang that is
            there may change; None for never.
    """

    title: str
    membership: Callable[[Group, Place], Membership]
    objects: Callable[[Group], list[dict[str, Any]]] = no_objects
    problems: Callable[[Group, Sequence[Object]], Iterator[Diagnostic]] = no_problems
    needs: Callable[[Group], Iterator[str]] = no_needs
    scheduler_name: str | None = None
    usual_name: str | None = None
    default_queue: str | None = None
    queue_form: tuple[Callable[[str], bool], str] = (is_subdomain, "a DNS subdomain")
    unused: Mapping[str, str] = field(default_factory=dict)
    minimum_at: tuple[str, ...] = ()
    roles: bool = False
    alike: bool = False
    starts_early: bool = False
    plain_pods: bool = False
    declares_version: bool = False
    reads_job: frozenset[str] | None = None
    one_priority: bool = False
    resizes_since: int | None = 0
