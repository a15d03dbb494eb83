"""The labels and annotations by which gang schedulers are spoken to, and who reads each of them.

Tables, apart from the schedulers' modules: frontends keep these keys with the stored job, and a
job that carries keys of a scheduler that nobody chose is told so, without importing that
scheduler (reference/gang-scheduling.md 2 to 8).
"""

from collections.abc import Iterator, Mapping

KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which Kueue knows what to queue: the operators' jobs, or Pods."""
KUEUE_GROUP = "kueue.x-k8s.io/pod-group-name"
"""The label of Pods that Kueue admits together."""
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"
"""The label of Pods that coscheduling starts together."""


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
"""What `--gang` may be; `none` is none. Each other is described by the module of
`etcompile.backend.gang` that has its name as a key."""
SCHEDULER_NAMES = {
    "volcano": "volcano",
    "coscheduling": "scheduler-plugins-scheduler",
    "yunikorn": "yunikorn",
    "kai": "kai-scheduler",
    "koordinator": "koord-scheduler",
}
"""The `schedulerName` that each has unless its administrator chose another; Pods of the others keep
theirs."""
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
"""In which maps of an object's metadata each key that names a queue is read."""
_OWNERS = {
    "volcano.sh": "volcano",
    "sla-waiting-time": "volcano",
    "scheduling.x-k8s.io": "coscheduling",
    "kueue.x-k8s.io": "kueue",
    "yunikorn.apache.org": "yunikorn",
    "kai.scheduler": "kai",
    "koordinator.sh": "koordinator",
}
"""The domains of keys, each with the one scheduler that reads them; a key without a domain is one,
too."""


def names_queue(labels: Mapping[str, str], annotations: Mapping[str, str]) -> bool:
    """Whether an object names a queue of any scheduler, in the right map or in the other."""
    return not QUEUE_FIELDS.keys().isdisjoint((*labels, *annotations))


def reader_of(key: str) -> str | None:
    """The scheduler that alone reads a label or annotation; None if no scheduler owns the key."""
    domain = key.partition("/")[0]
    while domain:
        if domain in _OWNERS:
            return _OWNERS[domain]
        domain = domain.partition(".")[2]
    return None


def scheduler_keys(values: Mapping[str, str]) -> Iterator[str]:
    """The keys of labels or annotations that only one gang scheduler reads, in their order."""
    return (key for key in values if reader_of(key))
