"""Lost replicas, one by one: who comes back, when, and who is left alone.

A replacement has the name of what it replaces and is the same Pod, so that it is the one that Git
declares (reference/gitops.md 1.6). A loss is written down before anything is done about it, by
the UID of the Pod: it is decided once, however often it is seen and whoever watches then.
"""

from collections.abc import Iterator

from msgspec import structs

from etcompile.watch.actions import Action, CreatePod, EmitEvent, ReplacePod, Requeue
from etcompile.watch.rules import limits
from etcompile.watch.rules.returning import why
from etcompile.watch.rules.ruling import Ruling, tried, wait
from etcompile.watch.rules.stock import Replica, Stock
from etcompile.watch.state import Patience, RunRecord, Trial


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
    done: list[Action] = []
    told: list[Action] = []
    for one in stock.those("lost"):
        if one.since and now < one.since + patience.settle:
            done.append(Requeue(one.since + patience.settle))
            continue
        key, role = one.place.key, one.place.role
        if not one.returns and role.vital:
            continue  # the run fails for it, or Git brings it back in time
        trial = _decided(trials.get(key), one, now, patience)
        trials[key] = trial
        told.append(_told(one, trial, patience))
        if not one.returns:
            continue
        lost_restarts += _restarts(one)
        if one.cause == "failed":
            counted[role.name] = counted.get(role.name, 0) + 1
        done += _brought_back(one, trial, now, patience)
    for one in stock.those("returning"):
        done += _brought_back(one, trials.get(one.place.key, Trial()), now, patience)
    made = structs.replace(record, trials=trials, replaced=counted, lost_restarts=lost_restarts)
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


def _brought_back(one: Replica, trial: Trial, now: float, patience: Patience) -> Iterator[Action]:
    place, pod = one.place, one.place.pod
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


def _told(one: Replica, trial: Trial, patience: Patience) -> Action:
    place = one.place
    what = why(place.role, one.cause or "failed", one.last)
    uid = one.last.uid if one.last else None
    if not one.returns:
        message = f"{what}: left alone, restartPolicy {place.role.restart}"
        return EmitEvent("PodLost", message, place.name, uid, warning=True)
    seconds = wait(trial.count, patience) if one.cause == "failed" else 0.0
    later = f" in {seconds:.0f} s" if seconds else ""
    message = f"{what}: made again{later}"
    failed = one.cause == "failed"
    return EmitEvent("PodReplaced", message, place.name, uid, warning=failed)


def _restarts(one: Replica) -> int:
    pod = one.last
    return pod.restarts + pod.init_restarts if pod and limits.counts(one.place.role) else 0
