"""What is known of a job to what is to be done about it, now: the table of contents of the rules.

Rules are functions from values to values, in modules named for what they decide. Each may ask the
ones above it in this list, which `lint-imports` checks:

- `placement`: which Pod has the place, and the rank, of which declared replica.
- `epochs`: what the supervisors report of commands that restart in place.
- `restart_policy`: which losses bring a replica back, and who may follow it.
- `silence`: a run that says nothing any more; whose log is to be read.
- `replica_state`: each replica in one word; whose log is to be read.
- `completion`: whether the run is over, and how; what becomes of its Pods then.
- `hostfile`: the live host lists.
- `restart`: replacing lost replicas, one by one or all together.
- `nodes`: those that do not answer let go of their Pods, and those that fail Pods are avoided.
- `failures`: what has failed, for the log that outlives the Pods.
- `termination`: Pods that must go, and those that should have gone.
- `timeline`: when the run was in training, as its Pods tell.
- `lifecycle`: the phase of the run and what was seen of it; starting, suspending, another run.

Each returns the run record as it is to be, actions, or both (`Decision`). The order in which they
are asked is here and nowhere else.
"""

from collections.abc import Iterable, Iterator

from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import (
    Action,
    Decision,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
    WriteStatus,
)
from etcompile.watch.rules import (
    completion,
    epochs,
    failures,
    gates,
    hostfile,
    lifecycle,
    nodes,
    restart,
    silence,
    termination,
    timeline,
)
from etcompile.watch.rules.placement import Placement, placement
from etcompile.watch.rules.replica_state import ReplicaStates, logs_to_read, states
from etcompile.watch.state import JobView


def decide(view: JobView, now: float) -> tuple[Action, ...]:
    """What is to be done about a job.

    Args:
        view: What is known of it. It may be older than the cluster: an action that was carried
            out already comes again until the view shows what it did, and does no harm.
        now: The time, in seconds since 1970.

    Returns:
        Actions, to be carried out in this order; at most one `Requeue`, the last.
    """
    around = placement(view)
    begun = lifecycle.begun(around)
    causes = failures.of_pods(around, begun)
    # A run ends once, and a job that is suspended has nothing to lose.
    if begun.ended:
        decision = completion.after_the_end(around, begun, now)
    elif around.job.run.suspended:
        decision = lifecycle.suspended(around, begun)
    else:
        learned = _learned(around, begun, now)
        before = states(around, learned.record)
        decision = _decision(before, learned, now)
        causes += learned.failures
        causes += failures.of_losses(before, learned.record, now)
        causes += failures.of_silence(before, learned.record, now)
    # What follows listens to the decision: it adds what is written down and told of it.
    log = failures.noted(view, causes, now)
    decision = Decision(decision.record, (*decision.actions, *lifecycle.orphaned(view)))
    decision = lifecycle.superseded(view, decision, now)
    record = decision.record
    actions = [
        *nodes.avoiding(view, log, decision.actions),
        *termination.half_deleted(view, now),
        *nodes.released(around, now),
    ]
    stale = view.record is not None and not view.copied and not record.ended
    quiet = lifecycle.quiet_from(around)
    worth_writing = stale or lifecycle.worth_writing(view.record, record, quiet=now >= quiet)
    if log is not None:
        actions += failures.unread(log, around)
    if log != view.failures and not worth_writing:
        due = failures.due_at(view.failures)
        worth_writing = now >= due
        if not worth_writing:
            actions.append(Requeue(due))
    if not worth_writing:
        if record != view.record and now < quiet:
            # A time that has been would have the job looked at again and again, for nothing.
            actions.append(Requeue(quiet))
        return tuple(_in_order(actions))
    # What is written down is not decided again. So it is told of at once: the requests after it
    # may fail, and would take an Event that comes after them along.
    told_first = sorted(_in_order(actions), key=lambda action: not isinstance(action, EmitEvent))
    spent = timeline.timeline(view, record, now, silence.hung(around, begun, now))
    return (WriteStatus(record, log, spent), *told_first)


def _learned(around: Placement, record: RunRecord, now: float) -> Decision:
    """The record, with what there is to see of the run now."""
    back = lifecycle.resumed(record)
    learned = epochs.learned(around, lifecycle.noticed(around, back.record), now)
    return Decision(learned.record, (*back.actions, *learned.actions), learned.failures)


def _decision(taken: ReplicaStates, learned: Decision, now: float) -> Decision:
    """What all rules say, each asked with the record that the ones before it have made."""
    around, record = taken.placement, learned.record
    # Whether it is over is asked first: nobody is to be replaced for a run that is.
    judged = _judged(taken, record, now)
    actions = [*learned.actions, *judged.actions]
    if judged.record.ended:
        after = completion.after_the_end(around, judged.record, now)
        return Decision(after.record, (*actions, *after.actions))
    losses = _losses(taken, judged.record, now)
    actions += losses.actions
    # From here on replicas are asked about as they are with what has just been decided.
    if losses.record != record:
        taken = states(around, losses.record)
    if losses.record.phase == "Restarting":
        actions += restart.carried_out(taken, losses.record, now)
    actions += logs_to_read(taken, now)
    actions += epochs.logs_to_read(around, losses.record, now)
    actions += silence.broken(around, losses.record, now)
    leaving = Decision(losses.record)
    if not around.view.superseded:
        actions += termination.duplicates(around, losses.record, now)
        leaving = termination.scaled_in(around, losses.record, now)
    actions += leaving.actions
    actions += gates.opened(around, leaving.record)
    # The lists come after all that takes hosts away: no host is listed that is about to go.
    actions += hostfile.listed(taken, leaving.record, now)
    # Last what is only told: it needs to know what became of everybody.
    waits = lifecycle.held_up(taken, leaving.record, now)
    lost = termination.unreachable(around, waits.record, now)
    told = epochs.numbered(around, lost.record, (*actions, *waits.actions, *lost.actions))
    return Decision(lost.record, told)


def _judged(taken: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """Whether the run is over; where its job restarts as a whole, it does instead."""
    end = completion.end(taken, record, now)
    if end is None:
        return Decision(record, tuple(completion.next_look(taken, record, now)))
    if end.again:
        return restart.restarted(taken, record, now, end.message, end.loss, anew=True)
    return completion.ended(record, end, now)


def _losses(taken: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """What becomes of replicas that were lost: all together come back, or each by itself."""
    if record.phase == "Restarting":
        return Decision(record)
    for _, line in epochs.verdicts(taken.placement, record):
        if line.verb == "needs new Pods" and taken.placement.job.run.together:
            counted = not line.is_deletion
            return restart.restarted(
                taken, record, now, line.why, None, anew=False, counted=counted
            )
    together = restart.joint_loss(taken, record, now)
    if together is not None:
        return together
    decision = restart.replaced(taken, record, now)
    anew = epochs.new_pods(taken.placement, decision.record)
    decision = Decision(decision.record, (*decision.actions, *anew))
    return Decision(hostfile.renamed(taken, decision.record, now), decision.actions)


def _in_order(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions, each Pod going once, and only the first of the times to look again."""
    times = []
    going: set[str] = set()
    for action in actions:
        if isinstance(action, Requeue):
            times.append(action.at)
        elif not isinstance(action, DeletePod | ReplacePod):
            yield action
        elif action.uid not in going:
            going.add(action.uid)
            yield action
    if times:
        yield Requeue(min(times))
