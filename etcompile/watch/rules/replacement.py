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
from etcompile.watch.rules import limits, relaunch
from etcompile.watch.rules.decision import Decision, tried, wait
from etcompile.watch.rules.replica_states import Replica, ReplicaStates
from etcompile.watch.rules.restart_policy import why
from etcompile.watch.rules.run_state import Place
from etcompile.watch.rules.verdict import is_spared
from etcompile.watch.state import Backoff, PodView, RestartHistory, RunRecord, Timeouts


def replaced(states: ReplicaStates, record: RunRecord, now: float) -> Decision:
    """The record, with what has just been lost, and what is left to do about losses.

    Args:
        states: What has become of the replicas.
        record: The run record.
        now: The time.
    """
    timeouts = states.run_state.view.timeouts
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
        lost_restarts += _restarts(one)
        if one.place.declared:
            attempts[key] = attempts.get(key, 0) + 1
        if limits.is_failure(one):
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
    return tried(before, uid, now, timeouts, lived)


def _followed(states: ReplicaStates, loss: Replica, record: RunRecord) -> RunRecord:
    """The record, with what a loss means to those of its rank."""
    place, cause = loss.place, loss.cause or "failed"
    role = place.role.name
    failures = record.failures
    if relaunch.is_failure(cause, loss.last):
        failures = {**failures, role: failures.get(role, 0) + 1}
    if not loss.returns:
        return structs.replace(record, failures=failures)
    line = relaunch.followed(states.run_state, place, cause, loss.last, record)
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
    due = trial.at + wait(trial.count, timeouts)
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
    if now < (due := trial.at + wait(trial.count, timeouts)):
        yield Requeue(due)
        return
    reason = one.cause or "returning"
    lost = place.name if one.last is not None else ""
    yield CreatePod(name, place.role.name, place.index, reason, lost=lost, renamed=attempt > 0)


def _let_go(states: ReplicaStates) -> Iterator[Action]:
    """The removal of Pods that others of other names have replaced, once those are there.

    Where a tool syncs Git it would bring back those that it knows.
    """
    run_state = states.run_state
    there = {
        (one.place.role.name, one.place.index): one.place.pod
        for one in states.replicas
        if one.place.declared and one.place.pod is not None
    }
    for pod in run_state.kept:
        after = there.get((pod.role, pod.index))
        ours = pod.made_here or not run_state.view.git_managed
        if after is not None and after.uid != pod.uid and ours and not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "Replaced")


def _follower(
    one: Replica, trial: Backoff, now: float, timeouts: Timeouts, line: RestartHistory
) -> Iterator[Action]:
    place, role = one.place, one.place.role
    rank = (*place.others, *([place.pod] if place.pod else []))
    if place.taken or any(_is_at_work(pod, now, timeouts) for pod in rank):
        return  # two of one rank would throw each other out
    if now < (due := trial.at + wait(trial.count, timeouts)):
        yield Requeue(due)
        return
    member = relaunch.successor(place, line)
    chosen = member or relaunch.declared_member(place)
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
    seconds = wait(trial.count, timeouts) if one.cause == "failed" else 0.0
    later = f" in {seconds:.0f} s" if seconds else ""
    message = f"{what}: {_what_comes(one.place, record)}{later}"
    failed = one.cause == "failed"
    return EmitEvent("PodReplaced", message, place.name, uid, warning=failed)


def _what_comes(place: Place, record: RunRecord) -> str:
    line = record.lines.get(place.key)
    member = relaunch.successor(place, line) if line is not None else None
    return "recreating it" if member is None else f"{place.role.pod_name(member)} replaces it"


def _restarts(one: Replica) -> int:
    pod = one.last
    return pod.restarts + pod.init_restarts if pod and limits.counts(one.place.role) else 0
