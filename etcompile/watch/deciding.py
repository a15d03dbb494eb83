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
    cleaning,
    expiring,
    finishing,
    gang,
    hanging,
    hostnames,
    hosts,
    noticing,
    replacing,
    rivals,
    scaling,
    starting,
    superseding,
    suspending,
    unreachable,
    verdict,
)
from etcompile.watch.rules.places import Standing, standing
from etcompile.watch.rules.ruling import Ruling
from etcompile.watch.rules.stock import Stock, stock
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
    around = standing(view)
    ruling = _ruling(around, noticing.begun(around), now)
    if view.is_orphaned:
        ruling = Ruling(ruling.record, (*ruling.actions, noticing.orphaned(view)))
    if view.superseded:
        ruling = superseding.held(view, ruling, now)
    elif ruling.record.reason in superseding.REASONS:
        ruling = Ruling(superseding.undone(ruling.record), ruling.actions)
    ruling = Ruling(ruling.record, (*ruling.actions, *finishing.half_deleted(view, now)))
    stale = view.record is not None and not view.copied and not ruling.record.ended
    quiet = noticing.quiet_from(around)
    worth = noticing.worth_writing(view.record, ruling.record, quiet=now >= quiet)
    if not worth and not stale:
        # A time that has been would have the job looked at again and again, for nothing.
        unwritten = ruling.record != view.record and now < quiet
        later = (Requeue(quiet),) if unwritten else ()
        return tuple(_in_order((*ruling.actions, *later)))
    actions = tuple(_in_order(ruling.actions))
    # What is written down is not decided again. So it is told of at once: the requests after it
    # may fail, and would take an Event that comes after them along.
    told_first = sorted(actions, key=lambda one: not isinstance(one, EmitEvent))
    return (WriteStatus(ruling.record), *told_first)


def _ruling(around: Standing, record: RunRecord, now: float) -> Ruling:
    if record.ended:
        return _after_the_end(around, record, now)
    if around.job.run.suspended:
        return suspending.suspended(around, record)
    back = suspending.resumed(record)
    record = noticing.noticed(around, back.record)
    taken = stock(around, record)
    judged = verdict.judged(taken, record, now)
    actions = [*back.actions, *judged.actions]
    if judged.record.ended:
        after = _after_the_end(around, judged.record, now)
        return Ruling(after.record, (*actions, *after.actions))
    more = _losses(taken, judged.record, now)
    actions += more.actions
    if more.record != record:
        taken = stock(around, more.record)
    if more.record.phase == "Restarting":
        actions += gang.carried_out(taken, more.record, now)
    actions += hanging.listened(taken, now)
    leaving = Ruling(more.record)
    if not around.view.superseded:
        actions += rivals.leave(around, more.record, now)
        leaving = scaling.scaled_in(around, more.record, now)
    actions += leaving.actions
    actions += hosts.listed(taken, leaving.record, now)
    waits = starting.held_up(taken, leaving.record, now)
    lost = unreachable.told(around, waits.record, now)
    return Ruling(lost.record, (*actions, *waits.actions, *lost.actions))


def _losses(taken: Stock, record: RunRecord, now: float) -> Ruling:
    """What becomes of replicas that were lost: all together come back, or each by itself."""
    if record.phase == "Restarting":
        return Ruling(record)
    together = gang.joint_loss(taken, record, now)
    if together is not None:
        return together
    around = taken.standing
    losses = taken.new_losses(now, around.view.patience.settle)
    ruling = replacing.replaced(taken, record, now)
    returning = [one for one in losses if one.returns]
    return Ruling(hostnames.renamed(around, ruling.record, returning), ruling.actions)


def _after_the_end(around: Standing, record: RunRecord, now: float) -> Ruling:
    expired = expiring.expired(around, record, now)
    return Ruling(expired.record, (*cleaning.cleaned(around), *expired.actions))


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
