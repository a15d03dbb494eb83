"""Say what has become of each declared replica, in one word (`State`), by a table.

The table maps what is in the replica's place, what was written down of it, and whether the run is
restarting, to a state. Whether a loss brings the replica back follows from the policies of the
operators (reference/et-operator.md 4.1, reference/training-operator.md 2.3 and 5.4).
"""

from typing import Literal, get_args

from msgspec import Struct, structs

from etcompile.k8s.pod_state import PodState
from etcompile.model import Job, Role
from etcompile.model.run_record import ReplicaRecord, RunRecord
from etcompile.watch.core.followers import exit_code, may_follow
from etcompile.watch.core.listener import Before
from etcompile.watch.core.placement import Cause, Placement, Replica, State
from etcompile.watch.core.view import JobView, Timeouts

_ANY: frozenset[Cause] = frozenset(get_args(Cause))
_POLICIES: dict[str, frozenset[Cause]] = {
    "Always": _ANY,
    # A kubelet lets a Pod that it is told to stop fail before it goes; one that is deleted by
    # force just is not there any more (reference/et-operator.md 4.1).
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
    """Return whether a replica gets another Pod, by how it lost the last that was seen of it."""
    if cause in _MORE[role.recovery.comes_back]:
        return True
    if pod is not None and pod.stopped_by_queue:
        return True  # its queue has suspended the job, whatever its policy says of failures
    if cause == "failed" and pod is not None and pod.refused:
        return True  # it never ran: the scheduler was wrong, or somebody was faster
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


def why(role: Role, cause: Cause, pod: PodState | None) -> str:
    """Describe a loss in a few words, those of `etcompile why`."""
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
        own = [failure for failure in pod.failures if failure.container == role.template.main]
        failure = (own or pod.failures)[-1]
        name = "" if own or not failure.container else f"container {failure.container} "
        return f"{name}{failure.in_words}"
    code = exit_code(role, pod)
    said = pod.reason or next(iter(pod.reasons), "")
    return said or ("failed" if code is None else f"exit code {code}")


class RunState(Struct, frozen=True):
    """What has become of a run: what the rules are asked about."""

    placement: Placement
    record: RunRecord  # with what was decided so far
    now: float  # in seconds since 1970
    replicas: tuple[Replica, ...]
    before: Before

    @property
    def view(self) -> JobView:
        """All that is known of the job."""
        return self.placement.view

    @property
    def job(self) -> Job:
        """The job."""
        return self.placement.view.job

    @property
    def timeouts(self) -> Timeouts:
        """How long the watcher waits."""
        return self.placement.view.timeouts

    def those(self, *states: State) -> list[Replica]:
        """Return the replicas in any of these states."""
        return [replica for replica in self.replicas if replica.state in states]

    def new_losses(self, after: float | None = None) -> list[Replica]:
        """Return the losses to decide about: their Pods have been gone `after` seconds."""
        return [
            loss
            for loss in self.those("lost")
            if self.now >= (loss.settled(self.timeouts) if after is None else loss.since + after)
            or not loss.since
        ]

    def new_returns(self) -> list[Replica]:
        """Return those of them that bring a replica back."""
        return [loss for loss in self.new_losses() if loss.returns]


def run_state(placement: Placement, before: Before, now: float) -> RunState:
    """Say what has become of a run and each of its replicas."""
    record, pruned = before.record, _pruned_until(placement.view)
    gang, restarting = frozenset(record.gang), record.phase == "Restarting"
    judged = gang | before.lost
    replicas = []
    for replica in placement.replicas:
        written, pod = record.replica(replica.key), replica.pod
        if (
            pod is not None
            and (pod.phase == "Running" and not pod.deleting and pod.uid not in judged)
            and not (written.lost or written.completed or pod.exits)
        ):
            replicas.append(replica)  # as most: it is there
            continue
        place = _place(replica, gang)
        state = _state(replica, place, _written(replica, place, written), restarting=restarting)
        if state is not None:
            replicas.append(structs.replace(replica, state=state))
        elif pod is not None:
            replicas.append(_with_pod(placement, replica, pod, before))
        else:
            replicas.append(_without_pod(placement.view, replica, record, pruned))
    if placement.restarts_together and any(own.was_deleted for own in replicas):
        # Its peers fail because it goes, and a deletion is no failure.
        replicas = [
            _lost(own, "deleted", own.last, record, own.since) if own.cause == "failed" else own
            for own in replicas
        ]
    return RunState(placement, record, now, tuple(replicas), before)


def _place(replica: Replica, gang: frozenset[str]) -> Place:
    last = replica.pod or (replica.gone.pod if replica.gone else None)
    if last is not None and last.uid in gang:
        return "gang"
    if replica.pod is not None:
        return "pod"
    if replica.blocked:
        return "other"
    return "gone" if replica.gone is not None else "nothing"


def _written(replica: Replica, place: Place, written: ReplicaRecord) -> Written:
    last = replica.pod or (replica.gone.pod if replica.gone else None)
    if written.completed:
        return "done"
    if written.lost and (last is None or last.uid == written.lost):
        return "left" if written.left else "returns"
    return "seen" if written.seen or place == "pod" else "new"


def _state(replica: Replica, place: Place, written: Written, *, restarting: bool) -> State | None:
    """Look a replica up in the table; None if its Pod has to be judged."""
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


def _with_pod(placement: Placement, replica: Replica, pod: PodState, before: Before) -> Replica:
    """Judge a replica by its Pod."""
    record = before.record
    if pod.deleting and pod.due and replica.role.recovery.relaunch and not pod.held_by_queue:
        # A follower has another name, and need not wait for a node that does not answer. A queue,
        # though, counts the old Pod until it is gone, and would delete the new one as excess.
        since = pod.due + placement.view.timeouts.verdict
        return _lost(replica, "deleted", pod, record, since)
    if pod.deleting:
        # Whatever its containers make of the signal is no failure of theirs
        # (reference/training-operator.md 7, defects 5 and 48).
        return replica
    is_over = placement.restarts_together and dict(pod.exits).get(replica.role.template.main)
    if pod.phase == "Failed" or is_over or (pod.phase == "Pending" and pod.refused):
        # Sidecars may go on. Or its preflight has sent it away, and its kubelet would ask again.
        return _lost(replica, "failed", pod, record)
    ends: dict[str, Cause] = {"Succeeded": "succeeded", "Unknown": "unknown"}
    cause = ends.get(pod.phase)
    if cause is not None and comes_back(replica.role, cause, pod):
        return _lost(replica, cause, pod, record)
    return _lost(replica, "hung", pod, record) if pod.uid in before.lost else replica


def _without_pod(view: JobView, replica: Replica, record: RunRecord, pruned: float) -> Replica:
    """Judge a replica by what was seen of its Pod before it went."""
    gone = replica.gone
    is_disrupted = gone is not None and (gone.pod.disrupted or gone.pod.phase == "Failed")
    if view.superseded and not is_disrupted:
        # Somebody took the Pod away to create that of the declared run.
        return structs.replace(replica, state="awaited")
    if gone is None:
        return _lost(replica, "vanished", None, record, max(view.watched_since, pruned))
    pod = gone.pod
    if pod.deleting:
        since = gone.at if pod.disrupted else max(gone.at, pruned)
        return _lost(replica, "deleted", pod, record, since)
    if pod.phase == "Failed" and record.replica(replica.key).lost != pod.uid:
        return _lost(replica, "failed", pod, record, gone.at)
    if pod.phase == "Succeeded":
        return _lost(replica, "succeeded", pod, record, gone.at)
    # By force, if it was seen to go; a list that does not have it says nothing of how it went.
    return _lost(replica, "vanished" if gone.unseen else "erased", pod, record, gone.at)


def _pruned_until(view: JobView) -> float:
    """Return until when a tool may be deleting Pods that Git no longer declares; 0 if none is.

    Argo CD prunes before it applies (reference/gitops.md 1.1). Nothing tells that from a Pod that
    somebody deleted, but that an evicted one carries a condition.
    """
    if not view.git_managed:
        return 0.0
    leaving = (pod.due for pod in view.pods.values() if pod.deleting and not pod.disrupted)
    went = (gone.at for gone in view.gone.values() if gone.pod.deleting and not gone.pod.disrupted)
    last = max((*leaving, *went), default=0.0)
    return last + view.timeouts.prune if last else 0.0


def _lost(
    replica: Replica, cause: Cause, pod: PodState | None, record: RunRecord, since: float = 0.0
) -> Replica:
    if replica.role.recovery.relaunch is not None:
        returns = may_follow(replica, cause, pod, record)
    else:
        returns = comes_back(replica.role, cause, pod) or (
            # Its Pod failed and is gone already: there is nothing to leave alone.
            bool(since) and cause == "failed" and replica.role.recovery.comes_back != "policy"
        )
    return structs.replace(
        replica, state="lost", cause=cause, last=pod, since=since, returns=returns
    )
