"""Which queue a gang waits in: what the job says of it, in the order in which it counts.

Apart from the gang, because four places may name a queue: our annotation, the operators'
`schedulingPolicy`, and a scheduler's own label or annotation on the job or on its Pod templates.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from etcompile.k8s.path import dotted
from etcompile.model import Job, Origin
from etcompile.model.schedulers import QUEUE_ANNOTATIONS, QUEUE_LABELS

_POLICY_FIRST = "volcano"
"""`schedulingPolicy.queue` is Volcano's queue, and counts before its annotation
(reference/mpi-operator-v2.md 3.8). KAI and Kueue do not read it: they read the label of the
owner first."""


class QueueKey(Struct, frozen=True):
    """A label or annotation that names a queue.

    Args:
        scheduler: Who reads it, one of `GANGS`.
        field: Where it stands in `metadata`.
        name: The key.
    """

    scheduler: str
    field: Literal["labels", "annotations"]
    name: str

    @property
    def title(self) -> str:
        """What messages call it: `label kai.scheduler/queue`."""
        return f"{self.field.removesuffix('s')} {self.name}"


QUEUE_KEYS = (
    *(QueueKey(scheduler, "labels", name) for name, scheduler in QUEUE_LABELS.items()),
    *(QueueKey(scheduler, "annotations", name) for name, scheduler in QUEUE_ANNOTATIONS.items()),
)


class QueueClaim(Struct, frozen=True):
    """A place that names a queue.

    Args:
        queue: The name of the queue.
        where: What messages call the place.
        origin: Where it stands.
    """

    queue: str
    where: str
    origin: Origin


def queue_claims(job: Job, scheduler: str) -> tuple[QueueClaim, ...]:
    """The places of a job that name its queue, the one that counts first."""
    asked = [*_asked(job)]
    ours = [claim for claim in asked if claim.origin.path[0] == "metadata"]
    policy = [claim for claim in asked if claim.origin.path[0] != "metadata"]
    own = [*_own(job, scheduler)]
    ordered = [*policy, *own] if scheduler == _POLICY_FIRST else [*own, *policy]
    return (*ours, *ordered, *_templates(job, scheduler))


def _asked(job: Job) -> Iterator[QueueClaim]:
    if job.gang.queue is not None:
        origin = job.gang.origins["queue"]
        yield QueueClaim(job.gang.queue, _words(origin), origin)


def _own(job: Job, scheduler: str) -> Iterator[QueueClaim]:
    given = {"labels": job.gang.labels, "annotations": job.gang.annotations}
    for key in QUEUE_KEYS:
        if key.scheduler == scheduler and (queue := given[key.field].get(key.name)):
            yield QueueClaim(queue, key.title, job.origin.at("metadata", key.field, key.name))


def _templates(job: Job, scheduler: str) -> Iterator[QueueClaim]:
    """What Pod templates say: those of roles that come first in a gang before the workers'."""
    scaled = job.scaled_role or job.role("worker")
    for role in sorted(job.roles, key=lambda role: role is scaled):
        template = role.template
        given = {"labels": template.labels, "annotations": template.annotations}
        for key in QUEUE_KEYS:
            if key.scheduler == scheduler and (queue := given[key.field].get(key.name)):
                origin = template.origin.at("metadata", key.field, key.name)
                yield QueueClaim(queue, f"{key.title} of {role.name}", origin)


def _words(origin: Origin) -> str:
    if origin.path[0] == "metadata":
        return f"annotation {origin.path[-1]}"
    return dotted(origin.path)
