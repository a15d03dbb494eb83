"""Find the Pod of each declared replica, and say what has become of it in one word, by a table.

Pods are found by the name that the compiler gives them or, where others may follow a replica, by
its rank; and only those of this run. The table maps what is in the replica's place, what was
written down of it, and whether the run is restarting, to a state. Whether a loss brings the replica
back follows from the policies of the operators (reference/et-operator.md 4.1,
reference/training-operator.md 2.3 and 5.4).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.model import Role
from etcompile.model.run_record import NOTHING, ReplicaRecord, RunRecord
from etcompile.model.supervision import is_supervised
from etcompile.watch.core.followers import exit_code, may_follow, ranks
from etcompile.watch.core.run import Cause, Replica, Run, State
from etcompile.watch.core.view import JobView


def placement(view: JobView, record: RunRecord, now: float) -> Run:
    pods = [pod for pod in view.pods.values() if pod.spec_hash == view.spec_hash]
    replicas = tuple(_replicas(view, pods, record))
    newest = max([pod.created for pod in pods], default=0.0)
    reading = {role.name for role in view.job.roles if role.additions.reads_hosts}
    readers = tuple(
        pod for pod in pods if pod.role in reading and pod.phase == "Running" and not pod.deleting
    )
    if len(pods) == sum(replica.pod is not None for replica in replicas):
        return Run(view, now, record, replicas, (), newest, readers)  # most have no other Pods
    names = {replica.name for replica in replicas}
    names.update(pod.name for replica in replicas for pod in replica.others)
    roles = {role.name: role for role in view.job.roles}
    rank_of = {
        role.pod_name(member): member.place
        for role in view.job.roles
        if role.recovery.relaunch
        for member in role.members
    }
    batch, surplus, replaced = list[PodState](), list[PodState](), list[PodState]()
    for pod in pods:
        role = roles.get(pod.role)
        if role is not None and role.batch:
            batch.append(pod)
        elif role is not None and pod.name not in names:
            # A Pod that has ended and can be followed blocks nothing, and its log says why.
            (replaced if role.recovery.relaunch and pod.ended else surplus).append(pod)
    astray = tuple(
        pod
        for pod in (pods if rank_of else ())
        if pod.rank is not None and rank_of.get(pod.name, pod.rank) != pod.rank
    )
    others = tuple(batch), tuple(surplus), tuple(replaced), astray
    return Run(view, now, record, replicas, (), newest, readers, *others)


def _replicas(view: JobView, of_run: Sequence[PodState], record: RunRecord) -> Iterator[Replica]:
    spec_hash, pods, gone_pods = view.spec_hash, view.pods, view.gone
    for role in view.job.roles:
        if role.batch:
            continue
        supervised, role_name = is_supervised(view.job, role), role.name
        if role.recovery.relaunch is None:
            for member in role.members:
                name = role.pod_name(member)
                pod, gone = pods.get(name), None
                if pod is None:
                    gone = gone_pods.get(name)
                    if gone is not None and gone.pod.spec_hash != spec_hash:
                        gone = None
                blocked = pod is not None and pod.spec_hash != spec_hash
                yield Replica(
                    role,
                    member.index,
                    (role_name, member.index or 0),
                    name,
                    None if blocked else pod,
                    gone,
                    blocked,
                    supervised=supervised,
                )
            continue
        for declared, member, of_rank in ranks(role, of_run, record):
            name, number = role.pod_name(member), declared.place or 0
            pod, gone = pods.get(name), gone_pods.get(name)
            blocked = pod is not None and not (
                pod.rank in (None, number) and pod.spec_hash == spec_hash
            )
            yield Replica(
                role,
                member.index,
                (role_name, number),
                name,
                None if blocked else pod,
                gone if pod is None and gone and gone.pod.spec_hash == spec_hash else None,
                blocked,
                rank=number,
                follower=None if member is declared else member,
                others=tuple(other for other in of_rank if other.name != name and not other.ended),
                supervised=supervised,
            )


# What has become of each -------------------------------------------------------------------------

_ANY: frozenset[Cause] = frozenset(get_args(Cause))
_POLICIES: dict[str, frozenset[Cause]] = {
    "Always": _ANY,
    # A kubelet that is told to stop a Pod lets it fail before it goes; one that is deleted by force
    # just vanishes (reference/et-operator.md 4.1).
    "OnFailure": frozenset({"failed", "deleted", "vanished", "hung"}),
    "ExitCode": frozenset({"failed", "deleted", "vanished", "hung"}),
}
_MORE: dict[str, frozenset[Cause]] = {
    "policy": frozenset(),
    "when-gone": frozenset({"deleted", "erased", "vanished"}),
    "always": _ANY - {"succeeded"},
}
_RETRYABLE = range(128, 256)
"""Exit codes after which another try may help: signals. The documented bounds; et-operator leaves
out both ends (reference/et-operator.md 6, defect 18)."""

Place = Literal["gang", "pod", "other", "gone", "nothing"]
"""What is in the place of a replica: a Pod that goes in the restart of all, its Pod, a Pod of
another run or rank, nothing after its Pod was seen to go, or nothing."""
Written = Literal["done", "returns", "left", "seen", "new"]
"""What was written down of it: it succeeded; it gets another Pod than the last; it does not; it was
there; nothing."""


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


def described(run: Run, loss: Replica) -> str:
    """Return which replica was lost first, and how: `bert-worker-1: exit code 1`."""
    sentence = run.described(run, loss) if run.described is not None else None
    return sentence or f"{loss.name}: {why(loss)}"


def why(loss: Replica) -> str:
    role, cause, pod = loss.role, loss.cause or "failed", loss.last
    if cause != "failed" or pod is None:
        words = {
            "unknown": "its node is unreachable",
            "erased": "force-deleted, or removed from the job",
            "vanished": "deleted while no watcher was running, so how it ended is unknown",
            "hung": "it has logged nothing new"
            if role.recovery.relaunch is not None
            else "no replica has logged anything for too long",
        }
        return words.get(cause, cause)
    if pod.failures:
        main_failures = [
            failure for failure in pod.failures if failure.container == role.template.main
        ]
        failure = (main_failures or pod.failures)[-1]
        name = "" if main_failures or not failure.container else f"container {failure.container} "
        return f"{name}{failure.in_words}"
    code = exit_code(role, pod)
    reason = pod.reason or next(iter(pod.reasons), "")
    return reason or ("failed" if code is None else f"exit code {code}")


_NOBODY: Mapping[int, ReplicaRecord] = {}
_UNDECIDED: dict[str, Any] = {"cause": None, "last": None, "since": 0.0, "returns": False}


def judged(run: Run, *, again: bool = False) -> Run:
    """Return a run with the state of each replica.

    Args:
        again: Only what is written down of losses has changed since.
    """
    record, pruned = run.record, _pruned_until(run.view)
    gang, restarting = frozenset(record.gang), record.phase == "Restarting"
    replicas = []
    records = record.replicas
    for known in run.replicas:
        replica = known
        if known.state == "there":
            if again and not restarting:
                replicas.append(known)
                continue
        else:
            replica = structs.replace(known, state="there", **_UNDECIDED)
        role, number = replica.key
        written, pod = records.get(role, _NOBODY).get(number, NOTHING), replica.pod
        if (
            pod is not None
            and (pod.phase == "Running" and not pod.deleting)
            and pod.uid not in gang
            and pod.uid not in run.lost
            and not (written.lost or written.completed or pod.exits)
        ):
            judged = replica  # like most: it is there
        elif state := _state(replica, gang, written, restarting=restarting):
            judged = structs.replace(replica, state=state)
        elif pod is not None:
            judged = _with_pod(run, replica, pod)
        else:
            judged = _without_pod(run, replica, pruned)
        replicas.append(judged)
    if run.restarts_together and any(judged.was_deleted for judged in replicas):
        # Its peers fail because it goes, and a deletion is no failure.
        replicas = [
            _lost(run, judged, "deleted", judged.last, judged.since)
            if judged.cause == "failed"
            else judged
            for judged in replicas
        ]
    troubled = tuple([replica for replica in replicas if replica.state != "there"])
    return structs.replace(run, replicas=tuple(replicas), troubled=troubled)


def _state(
    replica: Replica, gang: frozenset[str], record: ReplicaRecord, *, restarting: bool
) -> State | None:
    """Look a replica up in the table; None if its Pod has to be judged."""
    last = replica.latest
    place: Place = "gone" if replica.gone is not None else "nothing"
    if last is not None and last.uid in gang:
        place = "gang"
    elif replica.pod is not None:
        place = "pod"
    elif replica.blocked:
        place = "other"
    written: Written = "seen" if record.seen or place == "pod" else "new"
    if record.completed:
        written = "done"
    elif record.lost and (last is None or last.uid == record.lost):
        written = "left" if record.left else "returns"
    match place, written, restarting:
        case "gang", _, _ if replica.pod is not None:
            return "restarting"
        case "gang", "done", False:
            return "done"
        case "gang", _, False:
            return "awaited"  # it went when the job was suspended
        case "other", _, _:
            return "there"
        case "pod", "done", _:
            return "done"
        case "pod", "returns", _:
            return "returning"
        case "pod", "left", _:
            return "left"
        case "pod", _, _:
            return None
        case _, _, True:
            return "returning"  # all come back, also one that was never there
        case _, "done", _:
            return "done"
        case _, "returns", _:
            return "returning"
        case _, "left", _ if replica.role.recovery.comes_back == "policy":
            return "left"
        case "nothing", "new", _:
            return "awaited"
    return None


def _with_pod(run: Run, replica: Replica, pod: PodState) -> Replica:
    if pod.deleting and pod.due and replica.role.recovery.relaunch and not pod.held_by_queue:
        # A follower has another name, and need not wait for a node that does not answer. A queue,
        # though, counts the old Pod until it is gone, and would delete the new one as excess.
        return _lost(run, replica, "deleted", pod, pod.due + run.timeouts.verdict)
    if pod.deleting:
        # Whatever its containers make of the signal is no failure of theirs
        # (reference/training-operator.md 7, defects 5 and 48).
        return replica
    is_over = run.restarts_together and dict(pod.exits).get(replica.role.template.main)
    if pod.phase == "Failed" or is_over or (pod.phase == "Pending" and pod.refused):
        # Sidecars may go on. Or its preflight has sent it away, and its kubelet would ask again.
        return _lost(run, replica, "failed", pod)
    ends: dict[str, Cause] = {"Succeeded": "succeeded", "Unknown": "unknown"}
    cause = ends.get(pod.phase)
    if cause is not None and comes_back(replica.role, cause, pod):
        return _lost(run, replica, cause, pod)
    return _lost(run, replica, "hung", pod) if pod.uid in run.lost else replica


def _without_pod(run: Run, replica: Replica, pruned: float) -> Replica:
    gone, view = replica.gone, run.view
    if view.superseded and not (gone and (gone.pod.disrupted or gone.pod.phase == "Failed")):
        # Somebody took the Pod away to create that of the declared run.
        return structs.replace(replica, state="awaited")
    if gone is None:
        return _lost(run, replica, "vanished", None, max(view.watched_since, pruned))
    pod, since = gone.pod, gone.at
    # By force, if it was seen to go; a list that does not have it says nothing of how it went.
    cause: Cause = "vanished" if gone.unseen else "erased"
    if pod.deleting:
        cause, since = "deleted", since if pod.disrupted else max(since, pruned)
    elif pod.phase == "Failed" and run.record.replica(replica.key).lost != pod.uid:
        cause = "failed"
    elif pod.phase == "Succeeded":
        cause = "succeeded"
    return _lost(run, replica, cause, pod, since)


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


def _lost(
    run: Run, replica: Replica, cause: Cause, pod: PodState | None, since: float = 0.0
) -> Replica:
    recovery = replica.role.recovery
    if recovery.relaunch is not None:
        returns = may_follow(replica, cause, pod, run.record)
    else:
        returns = comes_back(replica.role, cause, pod) or (
            # Its Pod failed and is gone already: there is nothing to leave alone.
            bool(since) and cause == "failed" and recovery.comes_back != "policy"
        )
    return structs.replace(
        replica, state="lost", cause=cause, last=pod, since=since, returns=returns
    )
