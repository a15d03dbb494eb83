"""List the labels and annotations that gang schedulers read, each with its reader.

Frontends preserve these keys in the stored job, and a job that has keys of a scheduler that is
not configured gets a warning, without importing that scheduler's module
(reference/gang-scheduling.md 2 to 8).
"""

from collections.abc import Iterator, Mapping

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label of what Kueue queues: jobs of operators, or Pods."""
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
"""The label of Pods that coscheduling starts together."""
NATIVE_GROUPS = frozenset({"schedulingGroup", "workloadRef"})
"""The fields of Pods that Kubernetes itself starts together, of 1.36 and later, and of 1.35."""


GANGS = (
    "none",
    "volcano",
    "coscheduling",
    "kueue",
    "native",
    "yunikorn",
    "kai",
    "koordinator",
)
"""The values of the setting `gang`. `etcompile.backend.gang` has a module for each but `none`."""
SCHEDULER_NAMES = {
    "volcano": "volcano",
    "coscheduling": "scheduler-plugins-scheduler",
    "yunikorn": "yunikorn",
    "kai": "kai-scheduler",
    "koordinator": "koord-scheduler",
}
"""The default `schedulerName` of each. Pods of the others keep theirs."""
QUEUE_LABELS = {
    KUEUE_QUEUE: "kueue",
    "yunikorn.apache.org/queue": "yunikorn",
    "kai.scheduler/queue": "kai",
    "quota.scheduling.koordinator.sh/name": "koordinator",
}
"""The labels that name a queue, each with the scheduler that reads it."""
QUEUE_ANNOTATIONS = {
    "scheduling.volcano.sh/queue-name": "volcano",
    "yunikorn.apache.org/queue": "yunikorn",
}
"""The annotations that name a queue, each with the scheduler that reads it; a label comes first."""
QUEUE_FIELDS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(QUEUE_LABELS, ("labels",)),
    **dict.fromkeys(QUEUE_ANNOTATIONS, ("annotations",)),
    **dict.fromkeys(QUEUE_LABELS.keys() & QUEUE_ANNOTATIONS, ("labels", "annotations")),
}
"""The maps of an object's metadata in which each key that names a queue is read."""
_OWNERS = {
    "volcano.sh": "volcano",
    "sla-waiting-time": "volcano",
    "scheduling.x-k8s.io": "coscheduling",
    "kueue.x-k8s.io": "kueue",
    "yunikorn.apache.org": "yunikorn",
    "kai.scheduler": "kai",
    "koordinator.sh": "koordinator",
}
"""Domains of keys (or keys without a domain), each with the only scheduler that reads them."""


def names_queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    return not QUEUE_FIELDS.keys().isdisjoint((*labels, *annotations))


def reader_of(key: str) -> str | None:
    """Return the only scheduler that reads a label or annotation; None for other keys."""
    domain = key.partition("/")[0]
    while domain:
        if domain in _OWNERS:
            return _OWNERS[domain]
        domain = domain.partition(".")[2]
    return None


def scheduler_keys(values: Mapping[str, str]) -> Iterator[str]:
    return (key for key in values if reader_of(key))
