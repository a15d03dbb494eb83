"""Lost replicas, one by one: who comes back, when, and who is left alone.

A replacement has the name of what it replaces and is the same Pod, so that it is the one that Git
declares (reference/gitops.md 1.6); where the job wants it, it is another Pod of the same rank and
the one that failed stays. A loss is written down before anything is done about it, by
the UID of the Pod: it is decided once, however often it is seen and whoever watches then.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from etcompile.model.completion import attempt_name
from etcompile.watch.actions import (
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules import following, limits
from etcompile.watch.rules.places import Place
from etcompile.watch.rules.returning import why
from etcompile.watch.rules.ruling import Ruling, tried, wait
from etcompile.watch.rules.stock import Replica, Stock
from etcompile.watch.rules.verdict import is_spared
from etcompile.watch.state import Line, Patience, PodView, RunRecord, Trial


def replaced(stock: Stock, record: RunRecord, now: float) -> Ruling:
    """The record, with what has just been lost, and what is left to do about losses.

    Args:
        stock: What has become of the replicas.
        record: The run record.
        now: The time.
    """
    patience = stock.standing.view.patience
    trials = dict(record.trials)
    counted = dict(record.replaced)
    lost_restarts = record.lost_restarts
    attempts = dict(record.attempts)
    done: list[Action] = []
    told: list[Action] = []
    for one in stock.those("lost"):
        if one.since and now < one.since + patience.settle:
            done.append(Requeue(one.since + patience.settle))
            continue
        key, role = one.place.key, one.place.role
        if not one.returns and role.vital and not is_spared(stock, one):
            continue  # the run fails for it, or Git brings it back in time
        trial = _decided(trials.get(key), one, now, patience)
        trials[key] = trial
        if role.relaunch is not None:
            record = _followed(stock, one, record)
        told.append(_told(one, trial, patience, record))
        if not one.returns:
            continue
        lost_restarts += _restarts(one)
        if one.place.declared:
            attempts[key] = attempts.get(key, 0) + 1
        if limits.is_failure(one):
            counted[role.name] = counted.get(role.name, 0) + 1
        done += _brought_back(one, trial, now, patience, record.lines.get(key), attempts)
    for one in stock.those("returning"):
        key = one.place.key
        trial = trials.get(key, Trial())
        done += _brought_back(one, trial, now, patience, record.lines.get(key), attempts)
    done += _let_go(stock)
    made = structs.replace(
        record,
        trials=trials,
        replaced=counted,
        lost_restarts=lost_restarts,
        attempts=attempts,
    )
    return Ruling(made, (*done, *told))


def _decided(before: Trial | None, loss: Replica, now: float, patience: Patience) -> Trial:
    """What the record is to say of a loss: that it was seen, and how many in a row that makes."""
    uid = loss.last.uid if loss.last else ""
    if loss.cause != "failed" or not loss.returns:
        # Nobody's fault: it comes back as soon as it may.
        count = before.count if before else 0
        return Trial(uid, left=not loss.returns, count=count, at=before.at if before else 0.0)
    lived = now - loss.last.created if loss.last else 0.0
    return tried(before, uid, now, patience, lived)


def _followed(stock: Stock, loss: Replica, record: RunRecord) -> RunRecord:
    """The record, with what a loss means to those of its rank."""
    place, cause = loss.place, loss.cause or "failed"
    role = place.role.name
    failures = record.failures
    if following.is_failure(cause, loss.last):
        failures = {**failures, role: failures.get(role, 0) + 1}
    if not loss.returns:
        return structs.replace(record, failures=failures)
    line = following.followed(stock.standing, place, cause, loss.last, record)
    highest = max(line.index or 0, record.numbers.get(role, 0))
    return structs.replace(
        record,
        failures=failures,
        lines={**record.lines, place.key: line},
        numbers={**record.numbers, role: highest},
    )


def _brought_back(
    one: Replica,
    trial: Trial,
    now: float,
    patience: Patience,
    line: Line | None,
    attempts: Mapping[str, int],
) -> Iterator[Action]:
    place, pod = one.place, one.place.pod
    if place.declared:
        yield from _renamed(one, trial, now, patience, attempts.get(place.key, 0))
        return
    if place.role.relaunch is not None:
        yield from _follower(one, trial, now, patience, line or Line())
        return
    due = trial.at + wait(trial.count, patience)
    if place.taken or (pod is not None and pod.deleting):
        return
    if now < due:
        yield Requeue(due)
        return
    reason = one.cause or "returning"
    if pod is None:
        yield CreatePod(place.name, place.role.name, place.index, reason)
    else:
        yield ReplacePod(pod.name, pod.uid, place.role.name, place.index, reason)


def _renamed(
    one: Replica, trial: Trial, now: float, patience: Patience, attempt: int
) -> Iterator[Action]:
    """Another Pod of a replica, under another name, beside the one before."""
    place = one.place
    name = attempt_name(place.declared, attempt)
    if place.taken or (place.pod is not None and place.pod.name == name):
        return
    if now < (due := trial.at + wait(trial.count, patience)):
        yield Requeue(due)
        return
    reason = one.cause or "returning"
    lost = place.name if one.last is not None else ""
    yield CreatePod(name, place.role.name, place.index, reason, lost=lost, renamed=attempt > 0)


def _let_go(stock: Stock) -> Iterator[Action]:
    """The removal of Pods that others of other names have replaced, once those are there.

    Where a tool syncs Git it would bring back those that it knows.
    """
    standing = stock.standing
    there = {
        (one.place.role.name, one.place.index): one.place.pod
        for one in stock.replicas
        if one.place.declared and one.place.pod is not None
    }
    for pod in standing.kept:
        after = there.get((pod.role, pod.index))
        ours = pod.made_here or not standing.view.git_managed
        if after is not None and after.uid != pod.uid and ours and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Replaced")


def _follower(
    one: Replica, trial: Trial, now: float, patience: Patience, line: Line
) -> Iterator[Action]:
    place, role = one.place, one.place.role
    rank = (*place.others, *([place.pod] if place.pod else []))
    if place.taken or any(_is_at_work(pod, now, patience) for pod in rank):
        return  # two of one rank would throw each other out
    if now < (due := trial.at + wait(trial.count, patience)):
        yield Requeue(due)
        return
    member = following.successor(place, line)
    chosen = member or following.declared_member(place)
    lost = place.name if one.last is not None else ""
    yield CreatePod(
        role.pod_name(chosen), role.name, chosen.index, one.cause or "returning", member, lost
    )


def _is_at_work(pod: PodView, now: float, patience: Patience) -> bool:
    """Whether a Pod may still do something: not one that a dead node will never say goodbye to."""
    if pod.ended:
        return False
    return not (pod.deleting and pod.due and now >= pod.due + patience.verdict)


def _told(one: Replica, trial: Trial, patience: Patience, record: RunRecord) -> Action:
    place = one.place
    what = why(place.role, one.cause or "failed", one.last)
    uid = one.last.uid if one.last else None
    if not one.returns:
        left = "no Pod replaces it" if place.role.relaunch else "not replaced"
        policy = "" if place.role.relaunch else f", restartPolicy {place.role.restart}"
        message = f"{what}: {left}{policy}"
        return EmitEvent("PodLost", message, place.name, uid, warning=True)
    seconds = wait(trial.count, patience) if one.cause == "failed" else 0.0
    later = f" in {seconds:.0f} s" if seconds else ""
    message = f"{what}: {_what_comes(one.place, record)}{later}"
    failed = one.cause == "failed"
    return EmitEvent("PodReplaced", message, place.name, uid, warning=failed)


def _what_comes(place: Place, record: RunRecord) -> str:
    line = record.lines.get(place.key)
    member = following.successor(place, line) if line is not None else None
    return "recreating it" if member is None else f"{place.role.pod_name(member)} replaces it"


def _restarts(one: Replica) -> int:
    pod = one.last
    return pod.restarts + pod.init_restarts if pod and limits.counts(one.place.role) else 0
