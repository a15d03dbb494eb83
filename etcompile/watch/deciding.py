"""What is known of a job to what is to be done about it, now.

The one place that knows all rules and their order; each of them can be read alone.
"""

from collections.abc import Iterable, Iterator

from etcompile.watch.actions import (
    Action,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
    WriteStatus,
)
from etcompile.watch.rules import (
    cleanup,
    duplicate_ranks,
    gang,
    half_deleted,
    hostnames,
    hosts,
    lifecycle,
    replacement,
    scaling,
    startup,
    stuck_pods,
    superseded_run,
    suspension,
    ttl,
    unreachable,
    verdict,
)
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.replica_states import ReplicaStates, states
from etcompile.watch.rules.run_state import RunState, run_state
from etcompile.watch.state import JobView, RunRecord


def decide(view: JobView, now: float) -> tuple[Action, ...]:
    """What is to be done about a job.

    Args:
        view: What is known of it. It may be older than the cluster: an action that was carried
            out already comes again until the view shows what it did, and does no harm.
        now: The time, in seconds since 1970.

    Returns:
        Actions, to be carried out in this order; at most one `Requeue`, the last.
    """
    around = run_state(view)
    decision = _ruling(around, lifecycle.begun(around), now)
    if view.is_orphaned:
        decision = Decision(decision.record, (*decision.actions, lifecycle.orphaned(view)))
    if view.superseded:
        decision = superseded_run.held(view, decision, now)
    elif decision.record.reason in superseded_run.REASONS:
        decision = Decision(superseded_run.undone(decision.record), decision.actions)
    decision = Decision(decision.record, (*decision.actions, *half_deleted.half_deleted(view, now)))
    stale = view.record is not None and not view.copied and not decision.record.ended
    quiet = lifecycle.quiet_from(around)
    worth = lifecycle.worth_writing(view.record, decision.record, quiet=now >= quiet)
    if not worth and not stale:
        # A time that has been would have the job looked at again and again, for nothing.
        unwritten = decision.record != view.record and now < quiet
        later = (Requeue(quiet),) if unwritten else ()
        return tuple(_in_order((*decision.actions, *later)))
    actions = tuple(_in_order(decision.actions))
    # What is written down is not decided again. So it is told of at once: the requests after it
    # may fail, and would take an Event that comes after them along.
    told_first = sorted(actions, key=lambda one: not isinstance(one, EmitEvent))
    return (WriteStatus(decision.record), *told_first)


def _ruling(around: RunState, record: RunRecord, now: float) -> Decision:
    if record.ended:
        return _after_the_end(around, record, now)
    if around.job.run.suspended:
        return suspension.suspended(around, record)
    back = suspension.resumed(record)
    record = lifecycle.noticed(around, back.record)
    taken = states(around, record)
    judged = verdict.judged(taken, record, now)
    actions = [*back.actions, *judged.actions]
    if judged.record.ended:
        after = _after_the_end(around, judged.record, now)
        return Decision(after.record, (*actions, *after.actions))
    more = _losses(taken, judged.record, now)
    actions += more.actions
    if more.record != record:
        taken = states(around, more.record)
    if more.record.phase == "Restarting":
        actions += gang.carried_out(taken, more.record, now)
    actions += stuck_pods.listened(taken, now)
    leaving = Decision(more.record)
    if not around.view.superseded:
        actions += duplicate_ranks.leave(around, more.record, now)
        leaving = scaling.scaled_in(around, more.record, now)
    actions += leaving.actions
    actions += hosts.listed(taken, leaving.record, now)
    waits = startup.held_up(taken, leaving.record, now)
    lost = unreachable.told(around, waits.record, now)
    return Decision(lost.record, (*actions, *waits.actions, *lost.actions))


def _losses(taken: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """What becomes of replicas that were lost: all together come back, or each by itself."""
    if record.phase == "Restarting":
        return Decision(record)
    together = gang.joint_loss(taken, record, now)
    if together is not None:
        return together
    around = taken.run_state
    losses = taken.new_losses(now, around.view.timeouts.settle)
    decision = replacement.replaced(taken, record, now)
    returning = [one for one in losses if one.returns]
    return Decision(hostnames.renamed(around, decision.record, returning), decision.actions)


def _after_the_end(around: RunState, record: RunRecord, now: float) -> Decision:
    expired = ttl.expired(around, record, now)
    return Decision(expired.record, (*cleanup.cleaned(around), *expired.actions))


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
