"""Each declared replica in one word: there, done, to come back, left alone, or just lost.

What to make of a phase, of a deletion that is under way, of a place that is empty and of a log that
does not grow is decided here, once.
"""

from collections.abc import Iterator

from msgspec import Struct, structs

from etcompile.model import Job, Role
from etcompile.model.run_record import ReplicaRecord, RunRecord
from etcompile.watch.actions import Action, EndPod, ReadLog, Requeue
from etcompile.watch.job_view import JobView, Timeouts
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.pod_placement import Cause, Placement, Replica, State
from etcompile.watch.rules.restart_policy import comes_back, may_follow
from etcompile.watch.rules.silence import AGAIN, Silence, blamed, silence_of


class RunState(Struct, frozen=True):
    """What has become of a run: what the rules are asked about.

    Args:
        record: The run record, with what was decided so far.
        now: In seconds since 1970.
        silence: How long nobody has written anything, if its job limits that.
    """

    placement: Placement
    record: RunRecord
    now: float
    replicas: tuple[Replica, ...]
    silence: Silence | None

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
        """The replicas in any of these states."""
        return [replica for replica in self.replicas if replica.state in states]

    def new_losses(self, after: float | None = None) -> list[Replica]:
        """The losses about which something is to be decided.

        Args:
            after: Seconds until one whose Pod has vanished counts; `Timeouts.settle` if None.
        """
        wait = self.timeouts.settle if after is None else after
        return [
            loss for loss in self.those("lost") if not loss.since or self.now >= loss.since + wait
        ]

    def new_returns(self) -> list[Replica]:
        """Those of them that bring a replica back."""
        return [loss for loss in self.new_losses() if loss.returns]


def run_state(placement: Placement, record: RunRecord, now: float) -> RunState:
    """What has become of a run and each of its replicas."""
    silence = silence_of(placement, record)
    replicas = tuple(_replicas(placement, record, blamed(silence)))
    return RunState(placement, record, now, replicas, silence)


def _replicas(placement: Placement, record: RunRecord, stuck: str) -> Iterator[Replica]:
    view = placement.view
    pruned = _pruned_until(view)
    gang = frozenset(record.gang)
    restarting = record.phase == "Restarting"
    for replica in placement.replicas:
        written = record.replica(replica.key)
        gone, pod = replica.gone, replica.pod
        state: State | None = None
        if pod is not None:
            if pod.uid in gang:
                state = "restarting"
            elif written.completed:
                state = "done"
            elif pod.uid == written.lost:
                state = "left" if written.left else "returning"
        elif replica.blocked:
            state = "there"
        elif written.completed and not restarting:
            state = "done"
        elif gone is not None and gone.pod.uid in gang and not restarting:
            state = "awaited"  # it went when the job was suspended
        elif restarting and (gone or written.seen):
            state = "returning"
        elif view.superseded and _is_given_up(replica, written):
            state = "awaited"  # somebody took the Pod away to make another run's
        elif gone is None:
            if not written.seen:
                state = "awaited"
            elif written.returns:
                state = "returning"
            elif written.left and replica.role.recovery.comes_back == "policy":
                state = "left"
        if state is not None:
            yield structs.replace(replica, state=state)
        elif pod is not None:
            yield _with_pod(placement, replica, pod, record, stuck)
        elif gone is not None:
            yield _vanished(replica, gone.pod, gone.at, record, pruned)
        else:
            yield _lost(replica, "vanished", None, record, max(view.watched_since, pruned))


def _is_given_up(replica: Replica, written: ReplicaRecord) -> bool:
    """Whether its Pod neither failed nor was evicted."""
    last = replica.gone.pod if replica.gone is not None else None
    decided = written.returns and (last is None or last.uid == written.lost)
    return not decided and (last is None or not (last.disrupted or last.phase == "Failed"))


def _with_pod(
    placement: Placement, replica: Replica, pod: PodView, record: RunRecord, stuck: str
) -> Replica:
    if pod.deleting and pod.due and replica.role.recovery.relaunch and not pod.held_by_kueue:
        # Who follows has another name, and need not wait for a node that does not answer. Kueue,
        # though, counts the old Pod until it is gone, and would delete the new one as excess.
        since = pod.due + placement.view.timeouts.verdict
        return _lost(replica, "deleted", pod, record, since)
    if pod.deleting:
        # Whatever its containers make of the signal is no failure of theirs
        # (reference/training-operator.md 7, defects 5 and 48).
        return replica
    if pod.phase == "Failed" or (pod.phase == "Pending" and pod.refused):
        # Its preflight has sent it away, and its kubelet would only ask again.
        return _lost(replica, "failed", pod, record)
    ends: dict[str, Cause] = {"Succeeded": "succeeded", "Unknown": "unknown"}
    cause = ends.get(pod.phase)
    if cause is not None and comes_back(replica.role, cause, pod):
        return _lost(replica, cause, pod, record)
    log = placement.view.log(pod.uid)
    due = _silent_at(placement, replica.role, pod) if log.at is not None else None
    is_stuck = pod.uid == stuck or (due is not None and log.read_at >= due)
    return _lost(replica, "stuck", pod, record) if is_stuck else replica


def _pruned_until(view: JobView) -> float:
    """Until when a tool may be taking Pods away that Git no longer declares; 0 if none is.

    Argo CD prunes before it applies: the Pods are gone, all of them, before the job that does
    without them is there (reference/gitops.md 1.1). Nothing tells that from a Pod that somebody
    deleted, but that an evicted one carries a condition.
    """
    if not view.git_managed:
        return 0.0
    leaving = (pod.due for pod in view.pods.values() if pod.deleting and not pod.disrupted)
    went = (gone.at for gone in view.gone.values() if gone.pod.deleting and not gone.pod.disrupted)
    last = max((*leaving, *went), default=0.0)
    return last + view.timeouts.prune if last else 0.0


def _vanished(
    replica: Replica, pod: PodView, at: float, record: RunRecord, pruned: float
) -> Replica:
    written = record.replica(replica.key)
    decided = written.lost == pod.uid
    if decided and written.returns:
        return structs.replace(replica, state="returning")
    if decided and replica.role.recovery.comes_back == "policy":
        return structs.replace(replica, state="left")
    if pod.deleting:
        since = at if pod.disrupted else max(at, pruned)
        return _lost(replica, "deleted", pod, record, since)
    if pod.phase == "Failed" and not decided:
        return _lost(replica, "failed", pod, record, at)
    if pod.phase == "Succeeded":
        return _lost(replica, "succeeded", pod, record, at)
    # By force, if it was seen to go; a list that does not have it says nothing of how it went.
    unseen = replica.gone is not None and replica.gone.unseen
    return _lost(replica, "vanished" if unseen else "erased", pod, record, at)


def _lost(
    replica: Replica, cause: Cause, pod: PodView | None, record: RunRecord, since: float = 0.0
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


# Replicas that run and say nothing ---------------------------------------------------------------
#
# DLRover's master watches its agents' heartbeats, and duplicates a hung one instead of ending it
# (reference/dlrover.md 4.2; 7, defect 13). Here the time of the last line of the main container's
# log counts, asked for only when it may have been too long ago. Who hangs is ended and not deleted:
# its log says where.


def _silent_at(placement: Placement, role: Role, pod: PodView) -> float | None:
    """When a Pod that another one can follow has been silent for too long, if it says no more."""
    limit = placement.job.run.stuck_after
    if role.recovery.relaunch is None or limit is None:
        return None
    if pod.phase != "Running" or pod.deleting or pod.ending:
        return None
    last = placement.view.log(pod.uid).at or 0.0
    return max(last, pod.ready_since or pod.created) + limit


def logs_to_read(state: RunState) -> Iterator[Action]:
    """The logs that are to be read, when to ask again, and the end of Pods that hang."""
    for replica in state.those("there"):
        pod, role = replica.pod, replica.role
        due = _silent_at(state.placement, role, pod) if pod is not None else None
        if pod is None or due is None:
            continue
        log = state.view.log(pod.uid)
        if log.at is None:
            due = max(due, log.read_at + AGAIN)
        if state.now < due:
            yield Requeue(due)
        else:
            yield ReadLog(pod.name, pod.uid, role.template.main)
            yield Requeue(state.now + AGAIN)
    for replica in state.those("left"):
        pod = replica.pod if replica.role.recovery.relaunch else None
        if pod is not None and not pod.ended and not pod.ending:
            yield EndPod(pod.name, pod.uid, "Stuck")
