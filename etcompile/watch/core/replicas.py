"""Find the Pod of each declared replica, and say what has become of it in one word, by a table.

Pods are found by the name that the compiler gives them or, where others may follow a replica, by
its rank; and only those of this run. Whether a loss brings the replica back follows from the
policies of the operators (reference/et-operator.md 4.1, reference/training-operator.md 2.3, 5.4).
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, Literal, get_args

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.model import Role
from etcompile.model.run_record import ReplicaKey, ReplicaRecord, RunRecord
from etcompile.model.supervision import is_supervised
from etcompile.watch.core.followers import exit_code, may_follow, ranks
from etcompile.watch.core.run import Cause, JobView, Replica, Run, State


def placement(view: JobView, now: float) -> Run:
    record = view.begun
    pods = [pod for pod in view.pods.values() if pod.spec_hash == view.spec_hash]
    replicas = tuple(_replicas(view, pods, record))
    newest = max([pod.created for pod in pods], default=0.0)
    reading = {role.name for role in view.job.roles if role.additions.reads_hosts}
    readers = tuple(
        pod for pod in pods if pod.role in reading and pod.phase == "Running" and not pod.deleting
    )
    run = Run(view, now, record, replicas, newest=newest, readers=readers)
    if len(pods) == sum(replica.pod is not None for replica in replicas):
        return run  # most have no other Pods
    roles = {role.name: role for role in view.job.roles}
    names = {pod.name for replica in replicas for pod in replica.others}
    names.update(replica.name for replica in replicas)
    rank_of = {
        name: member.place
        for role in view.job.roles
        if role.recovery.relaunch
        for member, name in zip(role.members, role.pod_names, strict=True)
    }
    batch, surplus, replaced = list[PodState](), list[PodState](), list[PodState]()
    for pod in pods:
        role = roles.get(pod.role)
        if role is not None and role.batch:
            batch.append(pod)
        elif role is not None and pod.name not in names:
            # A Pod that has ended and can be followed blocks nothing, and its log says why.
            (replaced if role.recovery.relaunch and pod.ended else surplus).append(pod)
    astray = [pod for pod in pods if pod.rank not in (None, rank_of.get(pod.name, pod.rank))]
    return structs.replace(
        run,
        batch=tuple(batch),
        surplus=tuple(surplus),
        replaced=tuple(replaced),
        astray=tuple(astray),
    )


def _replicas(view: JobView, of_run: Sequence[PodState], record: RunRecord) -> Iterator[Replica]:
    spec_hash, pods = view.spec_hash, view.pods
    for role in view.job.roles:
        if role.batch:
            continue
        supervised, ranked = is_supervised(view.job, role), role.recovery.relaunch is not None
        declared_members = zip(role.members, role.members, role.pod_names, repeat(()))
        placed = ranks(role, of_run, record) if ranked else declared_members
        for declared, member, name, of_rank in placed:
            number = (declared.place if ranked else declared.index) or 0
            pod = pods.get(name)
            key, gone, blocked = (role.name, number), None, False
            if pod is None:
                gone = view.gone.get(name)
                gone = gone if gone and gone.pod.spec_hash == spec_hash else None
            elif pod.spec_hash != spec_hash or (ranked and pod.rank not in (None, number)):
                pod, blocked = None, True
            others: tuple[PodState, ...] = ()
            if of_rank:
                others = tuple([o for o in of_rank if o.name != name and not o.ended])
            yield Replica(role, declared, member, key, name, pod, gone, blocked, others, supervised)


# What has become of each -------------------------------------------------------------------------
#
# By what is in its place, and what was written down of it: that it succeeded, that it gets another
# Pod than the last, that it does not, that it was there, or nothing. `judge` looks at its Pod, or
# at how that went. While all are restarted, every replica without a Pod is `returning`.

# fmt: off
_WRITTEN = ("done", "returns", "left", "seen", "new")
_TABLE: Mapping[str, tuple[State | Literal["judge"], ...]] = {
    # its Pod; or its Pod has gone; or there is none and nobody saw it go
    "pod":     ("done", "returning", "left", "judge", "judge"),
    "gone":    ("done", "returning", "left", "judge", "judge"),
    "nothing": ("done", "returning", "left", "judge", "awaited"),
    # a Pod of another run or rank
    "other":   ("there",) * 5,
    # its Pod goes in the restart of all; or has gone, in that or because the job was suspended
    "going":   ("restarting",) * 5,
    "went":    ("done", "awaited", "awaited", "awaited", "awaited"),
}
# fmt: on

_ANY: frozenset[Cause] = frozenset(get_args(Cause))
_AFTER_FAILURES: frozenset[Cause] = frozenset({"failed", "deleted", "vanished", "hung"})
_POLICIES: Mapping[str, frozenset[Cause]] = {
    "Always": _ANY,
    # A kubelet that is told to stop a Pod lets it fail before it goes; one that is deleted by force
    # just vanishes (reference/et-operator.md 4.1).
    "OnFailure": _AFTER_FAILURES,
    "ExitCode": _AFTER_FAILURES,
}
_MORE: Mapping[str, frozenset[Cause]] = {
    "policy": frozenset(),
    "when-gone": frozenset({"deleted", "erased", "vanished"}),
    "always": _ANY - {"succeeded"},
}
_RETRYABLE = range(128, 256)
"""Exit codes after which another try may help: signals. The documented bounds; et-operator leaves
out both ends (reference/et-operator.md 6, defect 18)."""


def comes_back(role: Role, cause: Cause, pod: PodState | None) -> bool:
    if cause in _MORE[role.recovery.comes_back]:
        return True
    if pod is not None and pod.stopped_by_queue:
        return True  # its queue has suspended the job, whatever its policy says of failures
    if cause == "failed" and pod is not None and pod.refused:
        return True  # it never ran: the scheduler was wrong, or another Pod was faster
    if cause not in _POLICIES.get(role.recovery.restart, ()):
        return False
    if cause == "succeeded":
        # Elsewhere a replica that has succeeded is done (reference/training-operator.md 7,
        # defect 9).
        return role.recovery.comes_back == "policy"
    if role.recovery.restart != "ExitCode" or cause != "failed":
        return True
    # A Pod without an exit code never came to train (reference/training-operator.md 5.4).
    code = None if pod is None or pod.disrupted else exit_code(role, pod)
    return code is None or code in _RETRYABLE


_UNDECIDED: Mapping[str, Any] = {"cause": None, "last": None, "since": 0.0, "returns": False}


def judged(run: Run) -> Run:
    """Return a run with the state of each replica, by what is written down now."""
    record, pruned = run.record, _pruned_until(run.view)
    gang, restarting = frozenset(record.gang), record.phase == "Restarting"
    judged: dict[ReplicaKey, Replica] = {}
    # All that run well are `there`: they are most.
    for known in run.replicas if restarting or run.lost else run.doubtful:
        replica, written = known, record.replica(known.key)
        if known.state != "there":
            replica = structs.replace(known, state="there", **_UNDECIDED)
        state = _state(replica, written, gang, restarting=restarting)
        if state == "judge":
            replica = _judged(run, replica, written, pruned)
        elif state != "there":
            replica = structs.replace(replica, state=state)
        judged[replica.key] = replica
    if run.restarts_together and any(replica.was_deleted for replica in judged.values()):
        # Its peers fail because it goes, and a deletion is no failure.
        for key, replica in judged.items():
            if replica.cause == "failed":
                judged[key] = _lost(run, replica, "deleted", replica.last, replica.since)
    replicas = run.replicas
    if judged:
        replicas = tuple([judged.get(replica.key, replica) for replica in run.replicas])
    return structs.replace(run, replicas=replicas, doubtful=tuple(judged.values()))


def _state(
    replica: Replica, record: ReplicaRecord, gang: frozenset[str], *, restarting: bool
) -> State | Literal["judge"]:
    last, is_there = replica.latest, replica.pod is not None
    place = "other" if replica.blocked else "nothing"
    if last is not None:
        place = "pod" if is_there else "gone"
        if last.uid in gang:
            place = "going" if is_there else "went"
    if restarting and not is_there and not replica.blocked:
        return "returning"
    written = "seen" if record.seen else "new"
    if record.completed:
        written = "done"
    elif record.lost and (last is None or last.uid == record.lost):
        written = "left" if record.left else "returns"
    state = _TABLE[place][_WRITTEN.index(written)]
    if state == "left" and not is_there and replica.role.recovery.comes_back != "policy":
        return "judge"  # it comes back once its Pod has gone
    return state


def _judged(run: Run, replica: Replica, written: ReplicaRecord, pruned: float) -> Replica:
    """Return a replica of whose Pod, or of how that went, nothing is decided."""
    role, pod, gone, view = replica.role, replica.pod, replica.gone, run.view
    if pod is not None and pod.deleting:
        # A follower has another name, and need not wait for a node that does not answer. A queue,
        # though, counts the old Pod until it is gone, and would delete the new one as excess.
        if pod.due and role.recovery.relaunch and not pod.held_by_queue:
            return _lost(run, replica, "deleted", pod, pod.due + run.timeouts.verdict)
        # Whatever its containers make of the signal is no failure of theirs
        # (reference/training-operator.md 7, defects 5 and 48).
        return replica
    if pod is not None:
        # Sidecars may go on. Or its preflight has sent it away, and its kubelet would ask again.
        is_over = run.restarts_together and dict(pod.exits).get(role.template.main)
        if pod.phase == "Failed" or is_over or (pod.phase == "Pending" and pod.refused):
            return _lost(run, replica, "failed", pod)
        if pod.phase == "Succeeded" and comes_back(role, "succeeded", pod):
            return _lost(run, replica, "succeeded", pod)
        if pod.phase == "Unknown" and comes_back(role, "unknown", pod):
            return _lost(run, replica, "unknown", pod)
        return _lost(run, replica, "hung", pod) if pod.uid in run.lost else replica
    if view.superseded and not (gone and (gone.pod.disrupted or gone.pod.phase == "Failed")):
        # Somebody took the Pod away to create that of the declared run.
        return structs.replace(replica, state="awaited")
    if gone is None:
        return _lost(run, replica, "vanished", None, max(view.watched_since, pruned))
    pod, since = gone.pod, gone.at
    if pod.deleting:
        return _lost(run, replica, "deleted", pod, since if pod.disrupted else max(since, pruned))
    if pod.phase == "Failed" and written.lost != pod.uid:
        return _lost(run, replica, "failed", pod, since)
    if pod.phase == "Succeeded":
        return _lost(run, replica, "succeeded", pod, since)
    # By force, if it was seen to go; a list that does not have it says nothing of how it went.
    return _lost(run, replica, "vanished" if gone.unseen else "erased", pod, since)


def _lost(
    run: Run, replica: Replica, cause: Cause, pod: PodState | None, since: float = 0.0
) -> Replica:
    loss = structs.replace(replica, state="lost", cause=cause, last=pod, since=since)
    if loss.role.recovery.relaunch is not None:
        returns = may_follow(loss, run.record)
    else:
        returns = comes_back(loss.role, cause, pod) or (
            # Its Pod failed and is gone already: there is nothing to leave alone.
            bool(since) and cause == "failed" and loss.role.recovery.comes_back != "policy"
        )
    return structs.replace(loss, returns=returns)


def _pruned_until(view: JobView) -> float:
    """Return until when a tool may be deleting Pods that Git no longer declares; 0 if none is.

    Argo CD prunes before it applies (reference/gitops.md 1.1). Only the condition of an evicted Pod
    tells that from other deletions.
    """
    if not view.git_managed:
        return 0.0
    leaving = (pod.due for pod in view.pods.values() if pod.deleting and not pod.disrupted)
    went = (gone.at for gone in view.gone.values() if gone.pod.deleting and not gone.pod.disrupted)
    last = max((*leaving, *went), default=0.0)
    return last + view.timeouts.prune if last else 0.0


def described(run: Run, loss: Replica) -> str:
    """Return which replica was lost first, and how: `bert-worker-1: exit code 1`."""
    sentence = run.described(run, loss) if run.described is not None else None
    return sentence or f"{loss.name}: {why(loss)}"


_WHY: Mapping[Cause, str] = {
    "unknown": "its node is unreachable",
    "erased": "force-deleted, or removed from the job",
    "vanished": "deleted while no watcher was running, so how it ended is unknown",
    "hung": "no replica has logged anything for too long",
}


def why(loss: Replica) -> str:
    role, cause, pod = loss.role, loss.cause or "failed", loss.last
    if cause == "hung" and role.recovery.relaunch is not None:
        return "it has logged nothing new"
    if cause != "failed" or pod is None:
        return _WHY.get(cause, cause)
    if pod.failures:
        of_main = [failure for failure in pod.failures if failure.container == role.template.main]
        failure = (of_main or pod.failures)[-1]
        name = "" if of_main or not failure.container else f"container {failure.container} "
        return f"{name}{failure.in_words}"
    code = exit_code(role, pod)
    reason = pod.reason or next(iter(pod.reasons), "")
    return reason or ("failed" if code is None else f"exit code {code}")
