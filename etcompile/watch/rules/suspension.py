"""A suspended job: nothing runs, nothing is replaced, and it can be resumed.

et-operator knows no way back, and suspends even what has ended (reference/et-operator.md 6,
defect 34).
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.watch.actions import Action, DeletePod, EmitEvent
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.run_state import RunState
from etcompile.watch.state import RunRecord


def suspended(run_state: RunState, record: RunRecord) -> Decision:
    """What becomes of a job that is to run nothing.

    Args:
        run_state: Who is there.
        record: The run record.
    """
    removed = tuple(_removed(run_state))
    return Decision(_suspended(run_state, record, removed), (*_told(record), *removed))


def resumed(record: RunRecord) -> Decision:
    """What becomes of a job that may run again: it begins anew, and so does its deadline.

    Its Pods are up to whoever applies it: none of those that went because of the suspension is
    made again.

    Args:
        record: The run record.
    """
    if record.phase != "Suspended":
        return Decision(record)
    told = EmitEvent("JobResumed", "the job is resumed")
    return Decision(structs.replace(record, phase="Pending", reason="", message=""), (told,))


def _suspended(run_state: RunState, record: RunRecord, removed: Sequence[DeletePod]) -> RunRecord:
    going = {one.uid for one in removed}
    going.update(pod.uid for pod in run_state.of_this_run if pod.deleting)
    going.update(place.gone.pod.uid for place in run_state.places if place.gone is not None)
    dismissed = {*record.gang} if record.phase == "Suspended" else going
    if not going <= dismissed:
        dismissed = going
    return RunRecord(
        record.run,
        "Suspended",
        "Suspended",
        "suspended by its spec",
        restarts=record.restarts,
        restarted_at=record.restarted_at,
        replaced=record.replaced,
        lost_restarts=record.lost_restarts,
        numbers=record.numbers,
        gang=tuple(sorted(dismissed)),
        config=record.config,
    )


def _told(record: RunRecord) -> Iterator[Action]:
    if record.phase != "Suspended":
        yield EmitEvent("JobSuspended", "the job is suspended")


def _removed(run_state: RunState) -> Iterator[DeletePod]:
    """The removal of its Pods.

    Where Git declares them it has stopped to, and its tool removes them, but for those who followed
    others, which it never knew; those of a Job of Kubernetes are the Job's, which is suspended too.
    """
    batch = {pod.name for pod in run_state.batch}
    declared = {role.pod_name(member) for role in run_state.job.roles for member in role.members}
    for pod in run_state.of_this_run:
        if run_state.view.git_managed and (pod.rank is None or pod.name in declared):
            continue
        if pod.name not in batch and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Suspended")
