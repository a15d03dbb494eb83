"""The labels and annotations by which gang schedulers are spoken to, and who reads each of them.

A table, apart from the schedulers' modules: frontends keep these keys with the stored job, and a
job that carries keys of a scheduler that nobody chose is told so, without importing that
scheduler (reference/gang-scheduling.md 2 to 8).
"""

from collections.abc import Iterator, Mapping

from msgspec import Struct

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which Kueue knows what to queue: the operators' jobs, or Pods."""
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
"""The label of Pods that Kueue admits together."""
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
"""The label of Pods that coscheduling starts together."""


class GangScheduler(Struct, frozen=True):
    """A gang scheduler as `--gang` names it.

    Args:
        scheduler_name: The `schedulerName` that it has unless its administrator chose another; ""
            if its Pods keep theirs.
        domains: The domains of the keys that it alone reads; a key without a domain is one, too.
        queue_labels: The labels that name a queue.
        queue_annotations: The annotations that name a queue; a label comes first.
    """

    name: str
    scheduler_name: str = ""
    domains: tuple[str, ...] = ()
    queue_labels: tuple[str, ...] = ()
    queue_annotations: tuple[str, ...] = ()


SCHEDULERS = (
    GangScheduler(
        "volcano",
        "volcano",
        domains=("volcano.sh", "sla-waiting-time"),
        queue_annotations=("scheduling.volcano.sh/queue-name",),
    ),
    GangScheduler("coscheduling", "scheduler-plugins-scheduler", domains=("scheduling.x-k8s.io",)),
    GangScheduler("kueue", domains=("kueue.x-k8s.io",), queue_labels=(KUEUE_QUEUE,)),
    GangScheduler("native"),
    GangScheduler(
        "yunikorn",
        "yunikorn",
        domains=("yunikorn.apache.org",),
        queue_labels=("yunikorn.apache.org/queue",),
        queue_annotations=("yunikorn.apache.org/queue",),
    ),
    GangScheduler(
        "kai",
        "kai-scheduler",
        domains=("kai.scheduler",),
        queue_labels=("kai.scheduler/queue",),
    ),
    GangScheduler(
        "koordinator",
        "koord-scheduler",
        domains=("koordinator.sh",),
        queue_labels=("quota.scheduling.koordinator.sh/name",),
    ),
)
"""Each is described by the module of `etcompile.backend.gang` that has its name as a key."""

GANGS = ("none", *(scheduler.name for scheduler in SCHEDULERS))
"""What `--gang` may be; `none` is none."""
SCHEDULER_NAMES = {
    scheduler.name: scheduler.scheduler_name for scheduler in SCHEDULERS if scheduler.scheduler_name
}
"""The `schedulerName` of each that has one."""
QUEUE_LABELS = {
    label: scheduler.name for scheduler in SCHEDULERS for label in scheduler.queue_labels
}
"""The labels that name a queue, each with the scheduler that reads it."""
QUEUE_ANNOTATIONS = {
    key: scheduler.name for scheduler in SCHEDULERS for key in scheduler.queue_annotations
}
"""The annotations that name a queue, each with the scheduler that reads it."""
_OWNERS = {domain: scheduler.name for scheduler in SCHEDULERS for domain in scheduler.domains}


def names_queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether an object names a queue of any scheduler."""
    return not (
        labels.keys().isdisjoint(QUEUE_LABELS) and annotations.keys().isdisjoint(QUEUE_ANNOTATIONS)
    )


def reader_of(key: str) -> str | None:
    """The scheduler that alone reads a label or annotation; None if no scheduler owns the key."""
    domain = key.partition("/")[0]
    while domain:
        if domain in _OWNERS:
            return _OWNERS[domain]
        domain = domain.partition(".")[2]
    return None


def scheduler_keys(given: Mapping[str, str]) -> Iterator[str]:
    """The keys of labels or annotations that only one gang scheduler reads, in their order."""
    return (key for key in given if reader_of(key))
