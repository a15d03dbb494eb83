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
    gang,
    hanging,
    hostnames,
    hosts,
    noticing,
    replacing,
    rivals,
    scaling,
    suspending,
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
    actions = tuple(_in_order(ruling.actions))
    if not noticing.worth_writing(view.record, ruling.record):
        return actions
    # What is written down is not decided again. So it is told of at once: the requests after it
    # may fail, and would take an Event that comes after them along.
    told_first = sorted(actions, key=lambda one: not isinstance(one, EmitEvent))
    return (WriteStatus(ruling.record), *told_first)


def _ruling(around: Standing, record: RunRecord, now: float) -> Ruling:
    if record.ended:
        return Ruling(record, (*_after_the_end(around, record, now),))
    if around.job.run.suspended:
        return suspending.suspended(around, record)
    back = suspending.resumed(record)
    record = noticing.noticed(around, back.record)
    taken = stock(around, record)
    judged = verdict.judged(taken, record, now)
    actions = [*back.actions, *judged.actions]
    if judged.record.ended:
        return Ruling(judged.record, (*actions, *_after_the_end(around, judged.record, now)))
    more = _losses(taken, judged.record, now)
    actions += more.actions
    if more.record != record:
        taken = stock(around, more.record)
    if more.record.phase == "Restarting":
        actions += gang.carried_out(taken, more.record, now)
    actions += hanging.listened(taken, now)
    actions += rivals.leave(around, more.record, now)
    leaving = scaling.scaled_in(around, more.record, now)
    actions += leaving.actions
    actions += hosts.listed(taken, leaving.record, now)
    return Ruling(leaving.record, tuple(actions))


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


def _after_the_end(around: Standing, record: RunRecord, now: float) -> Iterator[Action]:
    yield from cleaning.cleaned(around)
    yield from expiring.expired(around, record, now)


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
