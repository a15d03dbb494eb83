"""Pods that wait until others have succeeded, and are told at once when these have.

The gate of such a Pod reads `J-status` (`templates/wait-for-workers.sh.j2`). Its kubelet fetches
that once a minute or so, and at once when the Pod is changed.
"""

from collections.abc import Iterator

from etcompile.model import Job
from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import Action, TouchPod
from etcompile.watch.rules.placement import Placement


def succeeded(job: Job, record: RunRecord) -> list[str] | None:
    """The roles that have succeeded, of those that others wait for; None if nobody waits for any.

    Args:
        job: The job, with its roles and their gates.
        record: The run record, with who has completed.
    """
    awaited = {
        name for role in job.roles if (gate := role.additions.gate) for name in gate.completed
    }
    if not awaited:
        return None
    return [
        role.name
        for role in job.roles
        if role.name in awaited
        and all(record.replica((role.name, member.place or 0)).completed for member in role.members)
    ]


def opened(placement: Placement, record: RunRecord) -> Iterator[Action]:
    """What tells Pods to look that wait for nothing any more.

    Args:
        placement: Who is there.
        record: The run record, as it is to be written before.
    """
    done = succeeded(placement.job, record)
    if not done:
        return
    value = f"{record.run} {' '.join(done)}"
    for place in placement.places:
        gate, pod = place.role.additions.gate, place.pod
        if gate is None or not gate.completed or not {*gate.completed} <= {*done}:
            continue
        if pod is not None and pod.phase == "Pending" and not pod.deleting and pod.touched != value:
            yield TouchPod(pod.name, pod.uid, value)
