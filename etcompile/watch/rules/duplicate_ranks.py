"""Two Pods of one rank, or in one another's name: who leaves.

The one that is declared stays, and whoever followed it goes: the other way round a tool that syncs
Git would bring the declared one back for ever. One that goes had better go at once, because both
would join the rendezvous under the same rank (reference/dlrover.md 4.5). A moment is left for what
is known of the job to arrive: its ConfigMap and its Pods are watched apart. One that hangs and is
to be followed is ended, so that its log stays.
"""

from collections.abc import Iterator

from etcompile.watch.actions import Action, DeletePod, EmitEvent, EndPod, Requeue
from etcompile.watch.rules.run_state import RunState
from etcompile.watch.state import PodView, RunRecord


def leave(run_state: RunState, record: RunRecord, now: float) -> Iterator[Action]:
    """The removal of Pods whose rank or name another one has.

    Args:
        run_state: Who is there.
        record: The run record.
        now: The time.
    """
    for place in run_state.places:
        trial = record.trials.get(place.key)
        for pod in place.others:
            if trial is not None and trial.uid == pod.uid:
                if not pod.ending and not pod.deleting:
                    yield EndPod(pod.name, pod.uid, "Stuck")
                continue
            newer = max(pod.created, place.pod.created if place.pod else 0.0)
            yield from _gone(run_state, pod, newer, now, f"its rank belongs to {place.name}")
    for pod in run_state.astray:
        # Whoever applies the job could not make the declared one.
        yield from _gone(
            run_state, pod, pod.created, now, "its name now belongs to another replica"
        )


def _gone(
    run_state: RunState, pod: PodView, since: float, now: float, why: str
) -> Iterator[Action]:
    due = since + run_state.view.timeouts.settle
    if pod.deleting:
        return
    if now < due:
        yield Requeue(due)
        return
    yield DeletePod(pod.name, pod.uid, "RankTaken")
    yield EmitEvent("PodMakesRoom", why, pod.name, pod.uid)
