"""What is known of a job to what is to be done about it, now: the table of contents of the rules.

Rules are functions from values to values. Each may ask the ones above it in this list, which
`lint-imports` checks:

- `pod_placement`: which Pod has the place, and the rank, of which declared replica.
- `epochs`: what the supervisors report of commands that restart in place.
- `silence`: a run that says nothing any more; whose log is to be read.
- `replica_state`: each replica in one word; which losses bring one back, and who may follow it.
- `verdict`: whether the run is over, and how; what becomes of its Pods then.
- `hostfile`: the live host lists, and the gates of Pods that wait for others to succeed.
- `replacement`: replacing lost replicas, one by one or all together.
- `termination`: Pods that must go, those that should have gone, and nodes that do not answer.
- `lifecycle`: the phase of the run and what was seen of it; starting, suspending, another run.
- `listeners`: what is written down of the decision: failures, nodes to avoid, the timeline.
"""

from collections.abc import Iterable, Iterator

from msgspec import structs

from etcompile.watch.actions import (
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    Requeue,
    WriteStatus,
)
from etcompile.watch.job_view import JobView
from etcompile.watch.rules import (
    epochs,
    hostfile,
    lifecycle,
    listeners,
    replacement,
    silence,
    termination,
    verdict,
)
from etcompile.watch.rules.pod_placement import placement
from etcompile.watch.rules.replica_state import RunState, logs_to_read, run_state


def decide(view: JobView, now: float) -> tuple[Action, ...]:
    """What is to be done about a job.

    Args:
        view: What is known of it. It may be older than the cluster: an action that was carried
            out already comes again until the view shows what it did, and does no harm.
        now: In seconds since 1970.

    Returns:
        Actions, to be carried out in this order; at most one `Requeue`, the last.
    """
    pods = placement(view)
    begun = lifecycle.begun(view)
    state, learned = None, Decision(begun)
    # A run ends once, and a job that is suspended has nothing to lose.
    if begun.ended:
        decision = verdict.after_the_end(pods, begun, now)
    elif view.job.run.suspended:
        decision = lifecycle.suspended(pods, begun)
    else:
        back = lifecycle.resumed(begun)
        learned = epochs.learned(pods, lifecycle.observed(pods, back.record), now)
        state = run_state(pods, learned.record, now)
        decision = _decision(state, (*back.actions, *learned.actions))
    log = listeners.failure_log(pods, begun, learned.failures, state, now)
    decision = Decision(decision.record, (*decision.actions, *lifecycle.orphaned(view)))
    decision = lifecycle.superseded(view, decision, now)
    record = decision.record
    actions = [
        *listeners.avoiding(view, log, decision.actions),
        *termination.half_deleted(view, now),
        *termination.let_go_by_kueue(view),
        *termination.released(pods, now),
    ]
    stale = view.record is not None and not view.copied and not record.ended
    # From then on no Pod has appeared for a while.
    newest = max((pod.created for pod in pods.of_this_run), default=0.0)
    quiet = newest + view.timeouts.settle
    worth_writing = stale or lifecycle.worth_writing(view.record, record, quiet=now >= quiet)
    if log is not None:
        actions += listeners.unread(log, view)
    if log != view.failures and not worth_writing:
        due = view.failures.written + listeners.EVERY if view.failures is not None else 0.0
        worth_writing = now >= due
        actions += [] if worth_writing else [Requeue(due)]
    if not worth_writing:
        if record != view.record and now < quiet:
            # A time that has been would have the job looked at again and again, for nothing.
            actions.append(Requeue(quiet))
        return tuple(_in_order(actions))
    # What is written down is not decided again, so its Events come at once: the requests after it
    # may fail, and then what comes after them is left.
    events_first = sorted(_in_order(actions), key=lambda action: not isinstance(action, EmitEvent))
    hung = None
    if state is not None and state.silence is not None and state.silence.is_settled(now):
        hung = state.silence.since, now
    return (WriteStatus(record, log, listeners.timeline(view, record, now, hung)), *events_first)


def _decision(state: RunState, learned: Iterable[Action]) -> Decision:
    """What all rules say, each asked with the record that the ones before it have made."""
    pods, now = state.placement, state.now
    # Whether it is over is asked first: nobody is to be replaced for a run that is.
    end = verdict.end(state)
    if end is not None and not end.again:
        ended = verdict.ended(state, end)
        after = verdict.after_the_end(pods, ended.record, now)
        return Decision(after.record, (*learned, *ended.actions, *after.actions))
    actions = [*learned]
    if end is not None:
        losses = replacement.restarted(state, end.message, end.loss, from_start=True)
    else:
        actions += verdict.next_look(state)
        losses = _losses(state)
    actions += losses.actions
    # From here on replicas are asked about as they are with what has just been decided.
    if losses.record != state.record:
        state = run_state(pods, losses.record, now)
    if state.record.phase == "Restarting":
        actions += replacement.next_steps(state)
    actions += logs_to_read(state)
    actions += epochs.logs_to_read(pods, state.record, now)
    if state.silence is not None:
        actions += silence.broken(state.silence, now)
    if state.view.superseded:
        leaving = Decision(state.record)
    else:
        actions += termination.duplicates(pods, state.record, now)
        leaving = termination.scaled_in(pods, state.record, now)
    actions += leaving.actions
    actions += hostfile.gates_opened(pods, leaving.record)
    # The lists come after all that takes hosts away: no host is listed that is about to go.
    actions += hostfile.listed(state)
    # Last what is only told: it needs to know what became of everybody.
    waits = lifecycle.held_up(structs.replace(state, record=leaving.record))
    lost = termination.unreachable(pods, waits.record, now)
    actions = epochs.numbered(pods, lost.record, (*actions, *waits.actions, *lost.actions))
    return Decision(lost.record, actions)


def _losses(state: RunState) -> Decision:
    """What becomes of replicas that were lost: all together come back, or each by itself."""
    record = state.record
    if record.phase == "Restarting":
        return Decision(record)
    for _, line in epochs.verdicts(state.placement, record):
        if line.verb == "needs new Pods" and state.job.run.together:
            return replacement.restarted(state, line.why, counted=not line.is_deletion)
    if (together := replacement.joint_loss(state)) is not None:
        return together
    decision = replacement.replaced(state)
    actions = (*decision.actions, *epochs.new_pods(state.placement, decision.record))
    return Decision(hostfile.renamed(state, decision.record), actions)


def _in_order(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions, each Pod going once, and only the first of the times to look again."""
    times = []
    going: set[str] = set()
    for action in actions:
        if isinstance(action, Requeue):
            times.append(action.at)
            continue
        uid = action.uid if isinstance(action, DeletePod | CreatePod) else ""
        if not uid or uid not in going:
            yield action
        going.add(uid)
    if times:
        yield Requeue(min(times))
