"""A run that does not start, or not again: what holds it up is told, and stands in its record.

That all Pods are there does not mean that one of them runs. An image that cannot be pulled is told
of at once: it will not come by waiting. A Pod that finds no node, and one that is missing, are told
of when that has lasted: a node may be on its way, and so may whoever applies the job.
"""

from collections.abc import Sequence

from msgspec import structs

from etcompile.watch.actions import EmitEvent, Requeue
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.lifecycle import is_at_work
from etcompile.watch.rules.replica_states import ReplicaStates
from etcompile.watch.rules.run_state import Place
from etcompile.watch.state import RunRecord

MISSING = "PodsMissing"
_BY_THE_SCHEDULER = ("Unschedulable", "SchedulingGated", "SchedulerError")
"""What the scheduler says, which may find a place later, and by design does in a gang."""


def held_up(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """The record, with what keeps a run from starting, and word of it if that is new.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time.
    """
    run_state = states.run_state
    again = record.phase == "Running" and not is_at_work(run_state)
    if record.started is None or not (again or record.phase == "Pending"):
        return Decision(record)
    newest = max((pod.created for pod in run_state.of_this_run), default=record.started)
    due = newest + run_state.view.timeouts.start
    waiting = [] if is_at_work(run_state) else _waiting(states)
    sure = [one for one in waiting if not one[1].startswith(_BY_THE_SCHEDULER)]
    missing = [] if again else [one.place for one in states.those("awaited")]
    patient = run_state.view.settings.gang != "none"
    if sure:
        reason, message = _words(sure)
    elif not (missing or waiting):
        return Decision(record)
    elif now < due:
        return Decision(record, (Requeue(due),))
    elif missing:
        reason, message = MISSING, _who_is_missing(missing)
    elif patient and not again:
        return Decision(record)
    else:
        reason, message = _words(waiting)
    if reason == record.reason:
        return Decision(record)
    held = structs.replace(record, phase="Pending", reason=reason, message=message)
    if patient and not sure and not missing:
        return Decision(held)  # whose turn it is not in a queue waits by design
    return Decision(held, (EmitEvent("JobNotStarting", message, warning=True),))


def _waiting(states: ReplicaStates) -> list[tuple[str, str]]:
    """Name and trouble of each Pod that cannot start."""
    found = [
        (one.place.pod.name, one.place.pod.waiting)
        for one in states.those("there", "returning")
        if one.place.pod is not None and one.place.pod.waiting
    ]
    return [*found, *((pod.name, pod.waiting) for pod in states.run_state.batch if pod.waiting)]


def _words(waiting: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """The reason in one word, and a sentence."""
    name, trouble = waiting[0]
    return trouble.partition(":")[0], f"no Pod is running: {name}: {trouble}"


def _who_is_missing(places: Sequence[Place]) -> str:
    names = places[0].name if len(places) == 1 else f"{places[0].name} and {len(places) - 1} more"
    went = "nobody has created them, or they went while no watcher was running"
    return f"missing: {names}; {went}. Apply the job again"
