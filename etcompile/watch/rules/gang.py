"""All replicas made anew together: a job that is restarted, a gang that lost a member.

Nobody comes back before all have gone: who still runs would meet who has just started
(reference/training-operator.md 7, defect 12). The Pods that must go are written down by UID, so
that a restart is carried out once however often its watcher is (reference/et-operator.md 4.5: there
it may run twice).
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.watch.actions import Action, CreatePod, DeletePod, EmitEvent, Requeue
from etcompile.watch.rules import limits
from etcompile.watch.rules.decision import Decision, tried, wait
from etcompile.watch.rules.replica_states import Replica, ReplicaStates
from etcompile.watch.rules.restart_policy import why
from etcompile.watch.rules.run_state import RunState, renames
from etcompile.watch.state import RunRecord

_ALL = "*"
"""What the run record calls all replicas together."""


def restarted(
    states: ReplicaStates,
    record: RunRecord,
    now: float,
    message: str,
    loss: Replica | None,
    *,
    anew: bool,
) -> Decision:
    """The record of a run whose Pods are all to go and to come back.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time.
        message: Why, in a sentence.
        loss: The replica that is to blame, if it is one.
        anew: The run starts anew, and its clock too; else only its Pods do.
    """
    run_state = states.run_state
    timeouts = run_state.view.timeouts
    uids = tuple(one.place.pod.uid for one in states.replicas if one.place.pod is not None)
    before = record.trials.get(_ALL)
    lived = now - before.at if before else timeouts.forget
    trial = tried(before, "", now, timeouts, lived)
    role = loss.place.role.name if loss is not None and limits.is_failure(loss) else None
    replaced = {**record.replaced, role: record.replaced.get(role, 0) + 1} if role else None
    attempts = {
        one.place.key: record.attempts.get(one.place.key, 0) + 1
        for one in states.replicas
        if one.place.declared
    }
    made = structs.replace(
        record,
        phase="Restarting",
        reason="Restarting",
        message=message,
        started=None if anew else record.started,
        restarts=record.restarts + 1,
        restarted_at=now,
        replaced=replaced or record.replaced,
        lost_restarts=record.lost_restarts + sum(map(limits.restarts, states.replicas)),
        completed={},
        trials={**record.trials, _ALL: trial},
        gang=uids,
        attempts={**record.attempts, **attempts},
        names={},
        launcher="",
        leaving={},
    )
    told = EmitEvent("JobRestarted", f"{message}: all of its Pods are recreated", warning=True)
    return Decision(made, (told,))


def joint_loss(states: ReplicaStates, record: RunRecord, now: float) -> Decision | None:
    """The restart of a gang that has just lost a member; None if it has not.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time.
    """
    run_state = states.run_state
    if not run_state.job.run.together:
        return None
    losses = [one for one in states.new_losses(now, run_state.view.timeouts.settle) if one.returns]
    if losses:
        lost = losses[0]
        what = why(lost.place.role, lost.cause or "failed", lost.last)
        return restarted(states, record, now, f"{lost.place.name}: {what}", lost, anew=False)
    for one in states.those("there"):
        # Its kubelet has started it again, and its peers have not noticed.
        if one.place.pod is not None and one.place.pod.restarts and not one.place.pod.deleting:
            message = f"{one.place.name}: its container was restarted"
            return restarted(states, record, now, message, None, anew=False)
    return None


def carried_out(states: ReplicaStates, record: RunRecord, now: float) -> Iterator[Action]:
    """What is left to do of a restart.

    Args:
        states: What has become of the replicas.
        record: The run record, of a run that is restarting.
        now: The time.
    """
    run_state = states.run_state
    trial = record.trials.get(_ALL)
    due = record.restarted_at + (wait(trial.count, run_state.view.timeouts) if trial else 0.0)
    if now < due:
        yield Requeue(due)
        return
    going = states.those("restarting")
    for one in going:
        pod = one.place.pod
        if pod is not None and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    for pod in run_state.kept:
        # Those whose replacements have other names; they stay until these are there.
        if pod.uid in record.gang and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    if going or _is_anyone_left(run_state, record):
        return
    for one in states.those("returning"):
        if one.place.pod is None:
            place = one.place
            renamed = place.declared not in ("", place.name)
            yield CreatePod(place.name, place.role.name, place.index, "Restart", renamed=renamed)


def _is_anyone_left(run_state: RunState, record: RunRecord) -> bool:
    gang = frozenset(record.gang)
    # Kueue keeps who has ended until somebody else is there (reference/gang-scheduling.md 4.5).
    kept = renames(run_state.view)
    return any(pod.uid in gang and not (kept and pod.ended) for pod in run_state.of_this_run)
