"""Decide what is to be done about a job: from what is known of it to actions.

Everything here is a function from values to values. In this order:

- `placement`: which Pod has the place, and the rank, of which declared replica;
- `phase`: what there is to see of the run, written down;
- the listeners' `before`: what optional features know;
- `replicas`: each replica in one word;
- `verdict`: whether the run is over, and how;
- `replacement`: lost replicas come back, one by one or all together;
- `deletions`: Pods that must go, and nodes that do not answer;
- `hostfile`: the live host lists;
- the listeners' `after`.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from etcompile.watch.core import deletions, hostfile, phase, replacement, verdict
from etcompile.watch.core.actions import (
    Action,
    Count,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    PatchPod,
    Requeue,
    WriteStatus,
)
from etcompile.watch.core.listener import Before, Listener, Outcome
from etcompile.watch.core.placement import Replica, placement
from etcompile.watch.core.replicas import RunState, run_state
from etcompile.watch.core.view import JobView


def decide(view: JobView, now: float, listeners: Sequence[Listener] = ()) -> tuple[Action, ...]:
    """Decide what is to be done about a job.

    Args:
        view: What is known of it. It may be older than the cluster: an action that was carried
            out already comes again until the view shows what it did, and does no harm.
        now: In seconds since 1970.
        listeners: The optional features, in the order in which they are asked.

    Returns:
        Actions, to be carried out in this order; at most one `Requeue`, the last.
    """
    pods, begun = placement(view), phase.begun(view)
    before, losses = None, tuple[Replica, ...]()
    # A run ends once, and a job that is suspended has nothing to lose.
    if begun.ended:
        decision = verdict.after_the_end(pods, begun, now)
    elif view.job.run.suspended:
        decision = phase.suspended(pods, begun)
    else:
        back = phase.resumed(begun)
        before = Before(phase.observed(pods, back.record), tuple(back.actions))
        for listener in listeners:
            before = listener.before(pods, before, now)
        state = run_state(pods, before, now)
        losses = tuple(state.new_losses())
        decision = _decision(state)
    decision = phase.superseded(view, decision, now)
    actions = (
        *decision.actions,
        *phase.orphaned(view),
        *deletions.released(pods, now),
    )
    facts = before.facts if before is not None else {}
    outcome = Outcome(pods, now, begun, decision.record, actions, losses, before, facts=facts)
    for listener in listeners:
        outcome = listener.after(outcome)
    return _recorded(outcome)


def _recorded(outcome: Outcome) -> tuple[Action, ...]:
    """Return the actions of an outcome, with the record first if it is worth writing."""
    view, record, now = outcome.view, outcome.record, outcome.now
    # From `quiet` on no Pod has appeared for a while.
    newest = max((pod.created for pod in outcome.placement.of_this_run), default=0.0)
    quiet = newest + view.timeouts.settle
    due = min((note.due for note in outcome.notes.values()), default=float("inf"))
    stale = view.record is not None and not view.copied and not record.ended
    if stale or now >= due or phase.worth_writing(view.record, record, quiet=now >= quiet):
        # What is written down is not decided again, so its Events come at once: the requests
        # after it may fail, and then what comes after them is left.
        events_first = sorted(
            _in_order(outcome.actions), key=lambda action: not isinstance(action, EmitEvent)
        )
        notes = {key: text for key, note in outcome.notes.items() if (text := note.text())}
        return (WriteStatus(record, notes), *events_first)
    again = [Requeue(due)] if due != float("inf") else []
    if record != view.record and now < quiet:
        # A time that has been would have the job reconciled again and again, for nothing.
        again.append(Requeue(quiet))
    actions = (own for own in outcome.actions if not isinstance(own, Count))
    return tuple(_in_order((*actions, *again)))


def _decision(state: RunState) -> Decision:
    """Ask all rules, each with the record that the ones before it have written."""
    pods, now, before = state.placement, state.now, state.before
    # Whether it is over is asked first: nobody is to be replaced for a run that is.
    end = verdict.end(state)
    if end is not None and not end.again:
        ended = verdict.ended(state, end)
        after = verdict.after_the_end(pods, ended.record, now)
        learned = [own for own in before.actions if isinstance(own, Count | EmitEvent)]
        return Decision(after.record, (*learned, *ended.actions, *after.actions))
    actions = [*before.actions]
    if end is not None:
        losses = replacement.restarted(state, end.message, end.loss, from_start=True)
    else:
        actions += verdict.next_look(state)
        losses = _losses(state)
    actions += losses.actions
    # From here on replicas are asked about as they are with what has just been decided.
    if losses.record != state.record:
        state = run_state(pods, structs.replace(before, record=losses.record), now)
    if state.record.phase == "Restarting":
        actions += replacement.next_steps(state)
    for replica in state.those("left"):
        pod = replica.pod if replica.role.recovery.relaunch else None
        if pod is not None and not pod.ended and not pod.ending:
            actions.append(PatchPod("end", pod.name, pod.uid, "Lost"))
    scaled_in = Decision(state.record)
    if not state.view.superseded:
        actions += deletions.duplicates(pods, state.record, now)
        scaled_in = deletions.scaled_in(pods, state.record, now)
    actions += scaled_in.actions
    actions += hostfile.gates_opened(pods, scaled_in.record)
    # The lists come after all that takes hosts away: no host is listed that is about to go.
    actions += hostfile.listed(state)
    # Last what is only reported: it needs to know what became of everybody.
    waits = phase.held_up(structs.replace(state, record=scaled_in.record))
    lost = deletions.unreachable(pods, waits.record, now)
    return Decision(lost.record, (*actions, *waits.actions, *lost.actions))


def _losses(state: RunState) -> Decision:
    """Say what becomes of lost replicas: all together come back, or each by itself."""
    if state.record.phase == "Restarting":
        return Decision(state.record)
    if (asked := state.before.restart) is not None:
        return replacement.restarted(state, asked.message, counted=asked.counted)
    if (together := replacement.joint_loss(state)) is not None:
        return together
    decision = replacement.replaced(state)
    return Decision(hostfile.renamed(state, decision.record), decision.actions)


def _in_order(actions: Iterable[Action]) -> Iterator[Action]:
    """Yield the actions, each Pod going once, and only the first of the times to look again."""
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
