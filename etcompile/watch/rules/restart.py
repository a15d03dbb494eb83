"""Lost replicas come back: one by one, or all together.

Why this is hard: a Pod is lost once and seen to be lost often, by a watcher that may die after any
request, and by the next one, which knows no more than what is in the cluster. So a loss is written
down, by the UID of the Pod, before anything is done about it: it is decided once, counted once,
however often it is seen and whoever watches then. The first time the replica is `lost`, and a rule
here decides; from then on it is `returning` or `left`, and only what is yet to be done is done.

One by one, a replacement has the name of what it replaces and is the same Pod, so that it is the
one that Git declares (reference/gitops.md 1.6): the Pod that failed is deleted, and made again. Two
cases differ. Where others follow by rank (ElasticJob), another Pod of the same rank comes and the
one that failed stays. Where the scheduler is Kueue, the replacement has another name, comes first,
and only then the Pod before it goes.

All together, nobody comes back before all have gone: who still runs would meet who has just started
(reference/training-operator.md 7, defect 12). The Pods that must go are written down by UID, so
that a restart is carried out once (reference/et-operator.md 4.5: there it may run twice).
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from etcompile.model.completion import attempt_name
from etcompile.watch.actions import (
    Action,
    CreatePod,
    Decision,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules.completion import is_spared
from etcompile.watch.rules.placement import Place, Placement, renames, successor
from etcompile.watch.rules.replica_state import Replica, ReplicaStates
from etcompile.watch.rules.restart_policy import counted_restarts, followed, spends_budget, why
from etcompile.watch.state import Backoff, PodView, RestartHistory, RunRecord, Timeouts

_ALL = "*"
"""What the run record calls all replicas together."""


# One by one ------------------------------------------------------------------------------------


def replaced(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """The record, with what has just been lost, and what is left to do about losses.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time.
    """
    timeouts = states.placement.view.timeouts
    trials = dict(record.trials)
    counted = dict(record.replaced)
    lost_restarts = record.lost_restarts
    attempts = dict(record.attempts)
    done: list[Action] = []
    told: list[Action] = []
    for one in states.those("lost"):
        if one.since and now < one.since + timeouts.settle:
            done.append(Requeue(one.since + timeouts.settle))
            continue
        key, role = one.place.key, one.place.role
        if not one.returns and role.vital and not is_spared(states, one):
            continue  # the run fails for it, or Git brings it back in time
        trial = _decided(trials.get(key), one, now, timeouts)
        trials[key] = trial
        if role.relaunch is not None:
            record = _followed(states, one, record)
        told.append(_told(one, trial, timeouts, record))
        if not one.returns:
            continue
        lost_restarts += counted_restarts(role, one.last)
        if one.place.declared:
            attempts[key] = attempts.get(key, 0) + 1
        if one.is_failure:
            counted[role.name] = counted.get(role.name, 0) + 1
        done += _brought_back(one, trial, now, timeouts, record.lines.get(key), attempts)
    for one in states.those("returning"):
        key = one.place.key
        trial = trials.get(key, Backoff())
        done += _brought_back(one, trial, now, timeouts, record.lines.get(key), attempts)
    done += _let_go(states)
    made = structs.replace(
        record,
        trials=trials,
        replaced=counted,
        lost_restarts=lost_restarts,
        attempts=attempts,
    )
    return Decision(made, (*done, *told))


def _decided(before: Backoff | None, loss: Replica, now: float, timeouts: Timeouts) -> Backoff:
    """What the record is to say of a loss: that it was seen, and how many in a row that makes."""
    uid = loss.last.uid if loss.last else ""
    if loss.cause != "failed" or not loss.returns:
        # Nobody's fault: it comes back as soon as it may.
        count = before.count if before else 0
        return Backoff(uid, left=not loss.returns, count=count, at=before.at if before else 0.0)
    lived = now - loss.last.created if loss.last else 0.0
    return _tried(before, uid, now, timeouts, lived)


def _followed(states: ReplicaStates, loss: Replica, record: RunRecord) -> RunRecord:
    """The record, with what a loss means to those of its rank."""
    place, cause = loss.place, loss.cause or "failed"
    role = place.role.name
    failures = record.failures
    if spends_budget(cause, loss.last):
        failures = {**failures, role: failures.get(role, 0) + 1}
    if not loss.returns:
        return structs.replace(record, failures=failures)
    line = followed(states.placement, place, cause, loss.last, record)
    highest = max(line.index or 0, record.numbers.get(role, 0))
    return structs.replace(
        record,
        failures=failures,
        lines={**record.lines, place.key: line},
        numbers={**record.numbers, role: highest},
    )


def _brought_back(
    one: Replica,
    trial: Backoff,
    now: float,
    timeouts: Timeouts,
    line: RestartHistory | None,
    attempts: Mapping[str, int],
) -> Iterator[Action]:
    place, pod = one.place, one.place.pod
    if place.declared:
        yield from _renamed(one, trial, now, timeouts, attempts.get(place.key, 0))
        return
    if place.role.relaunch is not None:
        yield from _follower(one, trial, now, timeouts, line or RestartHistory())
        return
    due = trial.at + _wait(trial.count, timeouts)
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
    one: Replica, trial: Backoff, now: float, timeouts: Timeouts, attempt: int
) -> Iterator[Action]:
    """Another Pod of a replica, under another name, beside the one before."""
    place = one.place
    name = attempt_name(place.declared, attempt)
    if place.taken or (place.pod is not None and place.pod.name == name):
        return
    if now < (due := trial.at + _wait(trial.count, timeouts)):
        yield Requeue(due)
        return
    reason = one.cause or "returning"
    lost = place.name if one.last is not None else ""
    yield CreatePod(name, place.role.name, place.index, reason, lost=lost, renamed=attempt > 0)


def _let_go(states: ReplicaStates) -> Iterator[Action]:
    """The removal of Pods that others of other names have replaced, once those are there.

    Where a tool syncs Git it would bring back those that it knows.
    """
    placement = states.placement
    there = {
        (one.place.role.name, one.place.index): one.place.pod
        for one in states.replicas
        if one.place.declared and one.place.pod is not None
    }
    for pod in placement.kept:
        after = there.get((pod.role, pod.index))
        ours = pod.made_here or not placement.view.git_managed
        if after is not None and after.uid != pod.uid and ours and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Replaced")


def _follower(
    one: Replica, trial: Backoff, now: float, timeouts: Timeouts, line: RestartHistory
) -> Iterator[Action]:
    place, role = one.place, one.place.role
    rank = (*place.others, *([place.pod] if place.pod else []))
    if place.taken or any(_is_at_work(pod, now, timeouts) for pod in rank):
        return  # two of one rank would throw each other out
    if now < (due := trial.at + _wait(trial.count, timeouts)):
        yield Requeue(due)
        return
    member = successor(place, line)
    chosen = member or place.declared_member
    lost = place.name if one.last is not None else ""
    yield CreatePod(
        role.pod_name(chosen), role.name, chosen.index, one.cause or "returning", member, lost
    )


def _is_at_work(pod: PodView, now: float, timeouts: Timeouts) -> bool:
    """Whether a Pod may still do something: not one that a dead node will never say goodbye to."""
    if pod.ended:
        return False
    return not (pod.deleting and pod.due and now >= pod.due + timeouts.verdict)


def _told(one: Replica, trial: Backoff, timeouts: Timeouts, record: RunRecord) -> Action:
    place = one.place
    what = why(place.role, one.cause or "failed", one.last)
    uid = one.last.uid if one.last else None
    if not one.returns:
        left = "no Pod replaces it" if place.role.relaunch else "not replaced"
        policy = "" if place.role.relaunch else f", restartPolicy {place.role.restart}"
        message = f"{what}: {left}{policy}"
        return EmitEvent("PodLost", message, place.name, uid, warning=True)
    seconds = _wait(trial.count, timeouts) if one.cause == "failed" else 0.0
    later = f" in {seconds:.0f} s" if seconds else ""
    message = f"{what}: {_what_comes(one.place, record)}{later}"
    failed = one.cause == "failed"
    return EmitEvent("PodReplaced", message, place.name, uid, warning=failed)


def _what_comes(place: Place, record: RunRecord) -> str:
    line = record.lines.get(place.key)
    member = successor(place, line) if line is not None else None
    return "recreating it" if member is None else f"{place.role.pod_name(member)} replaces it"


# All together ------------------------------------------------------------------------------------


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
    placement = states.placement
    timeouts = placement.view.timeouts
    uids = tuple(one.place.pod.uid for one in states.replicas if one.place.pod is not None)
    before = record.trials.get(_ALL)
    lived = now - before.at if before else timeouts.forget
    trial = _tried(before, "", now, timeouts, lived)
    role = loss.place.role.name if loss is not None and loss.is_failure else None
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
        lost_restarts=record.lost_restarts + sum(one.restarts for one in states.replicas),
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
    placement = states.placement
    if not placement.job.run.together:
        return None
    losses = states.new_returns(now)
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
    placement = states.placement
    trial = record.trials.get(_ALL)
    due = record.restarted_at + (_wait(trial.count, placement.view.timeouts) if trial else 0.0)
    if now < due:
        yield Requeue(due)
        return
    going = states.those("restarting")
    for one in going:
        pod = one.place.pod
        if pod is not None and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    for pod in placement.kept:
        # Those whose replacements have other names; they stay until these are there.
        if pod.uid in record.gang and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Restart")
    if going or _is_anyone_left(placement, record):
        return
    for one in states.those("returning"):
        if one.place.pod is None:
            place = one.place
            renamed = place.declared not in ("", place.name)
            yield CreatePod(place.name, place.role.name, place.index, "Restart", renamed=renamed)


def _is_anyone_left(placement: Placement, record: RunRecord) -> bool:
    gang = frozenset(record.gang)
    # Kueue keeps who has ended until somebody else is there (reference/gang-scheduling.md 4.5).
    kept = renames(placement.view)
    return any(pod.uid in gang and not (kept and pod.ended) for pod in placement.of_this_run)


# Backoff -----------------------------------------------------------------------------------------


def _wait(count: int, timeouts: Timeouts) -> float:
    """Seconds until the replacement of something that failed `count` times in a row."""
    doublings = count - 3
    if doublings < 0:
        return 0.0
    return min(timeouts.backoff * 2.0 ** min(doublings, 60), timeouts.longest)


def _tried(
    before: Backoff | None, uid: str, now: float, timeouts: Timeouts, lived: float
) -> Backoff:
    """A trial after one more failure.

    Args:
        before: The trial so far.
        uid: The UID of what failed.
        now: The time.
        timeouts: How long a series of failures lasts.
        lived: For how long what failed had been there.
    """
    again = before is not None and lived < timeouts.forget
    return Backoff(uid, count=(before.count if before and again else 0) + 1, at=now)
