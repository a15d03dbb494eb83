"""Each declared replica in one word: there, done, to come back, left alone, or just lost.

The other rules ask this and nothing of Pods: what to make of a phase, of a deletion that is under
way, of a place that is empty and of a log that does not grow is decided here, once.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs

from etcompile.model import Job, Role
from etcompile.model.run_record import ReplicaKey, ReplicaRecord, RunRecord
from etcompile.watch.actions import Action, EndPod, ReadLog, Requeue
from etcompile.watch.job_view import JobView, Timeouts
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.placement import Place, Placement
from etcompile.watch.rules.restart_policy import Cause, comes_back, counted_restarts, may_follow
from etcompile.watch.rules.silence import AGAIN, Silence, blamed, silence_of

State = Literal["there", "awaited", "done", "returning", "left", "lost", "restarting"]
"""`there`: its Pod may be at work, or is on its way out. `awaited`: nobody has created it yet.
`done`: it has succeeded. `returning`: it was decided that it gets another Pod. `left`: that it does
not. `lost`: nothing is decided. `restarting`: its Pod goes with all others."""


class Replica(Struct, frozen=True):
    """A declared replica, and what has become of it.

    Args:
        cause: How it was lost, if it was just lost.
        last: What was last seen of the Pod that was lost.
        since: When it vanished; 0 if it is still there.
        returns: Whether it gets another Pod, if it was just lost.
    """

    place: Place
    state: State
    cause: Cause | None = None
    last: PodView | None = None
    since: float = 0.0
    returns: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether its loss counts as one: not if its kubelet did not admit the Pod.

        Where commands restart in place, what happens to a Pod from outside does not count either.
        """
        if self.place.supervised and self.last is not None and self.last.disrupted:
            return False
        if self.cause == "stuck":
            return self.place.role.recovery.relaunch is None
        return self.cause == "failed" and not (self.last is not None and self.last.refused)

    @property
    def restarts(self) -> int:
        """How often containers of its Pod were started again, as far as that counts now."""
        if self.state in ("restarting", "returning") or self.place.supervised:
            return 0  # counted when that was decided, or by the supervisors
        return counted_restarts(self.place.role, self.place.pod)


class RunState(Struct, frozen=True):
    """What has become of a run: what the rules are asked about.

    Args:
        record: The run record, with what was decided so far.
        now: The time, in seconds since 1970.
        replicas: The declared replicas.
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
    all_anew = record.phase == "Restarting"
    for place in placement.places:
        written = record.replica(place.key)
        gone = place.gone
        if place.pod is not None:
            if place.pod.uid in gang:
                yield Replica(place, "restarting")
            elif written.completed:
                yield Replica(place, "done")
            elif place.pod.uid == written.lost:
                yield Replica(place, "left" if written.left else "returning")
            else:
                yield _with_pod(placement, place, place.pod, record, stuck)
        elif place.blocked:
            yield Replica(place, "there")
        elif written.completed and not all_anew:
            yield Replica(place, "done")
        elif gone is not None and gone.pod.uid in gang and not all_anew:
            yield Replica(place, "awaited")  # it went when the job was suspended
        elif all_anew and (gone or written.seen):
            yield Replica(place, "returning")
        elif view.superseded and _is_given_up(place, written):
            yield Replica(place, "awaited")
        elif gone is not None:
            yield _vanished(place, gone.pod, gone.at, record, pruned)
        elif not written.seen:
            yield Replica(place, "awaited")
        elif written.returns:
            yield Replica(place, "returning")
        elif written.left and place.role.recovery.comes_back == "policy":
            yield Replica(place, "left")
        else:
            yield _lost(place, "vanished", None, record, max(view.watched_since, pruned))


def restored(placement: Placement, record: RunRecord) -> dict[ReplicaKey, ReplicaRecord]:
    """The records of replicas whose Pod was taken out of the job, left alone, and put back alive.

    It is the same Pod and it never failed, so whatever was decided when it went no longer holds.
    """
    back = [
        (place, place.pod)
        for place in placement.places
        if place.pod is not None
        and record.replica(place.key).left
        and place.pod.uid == record.replica(place.key).lost
        and not (place.pod.ended or place.pod.deleting or place.pod.ending)
    ]
    # This is asked at each look, and rarely needed.
    stuck = blamed(silence_of(placement, record)) if back else ""
    return {
        place.key: structs.replace(record.replica(place.key), lost="", left=False)
        for place, pod in back
        if _with_pod(placement, place, pod, record, stuck).state == "there"
    }


def _is_given_up(place: Place, written: ReplicaRecord) -> bool:
    """Whether somebody took a Pod away to make another run's: it neither failed nor was evicted."""
    last = place.gone.pod if place.gone is not None else None
    if written.returns and (last is None or last.uid == written.lost):
        return False
    return last is None or not (last.disrupted or last.phase == "Failed")


def _with_pod(
    placement: Placement, place: Place, pod: PodView, record: RunRecord, stuck: str
) -> Replica:
    if pod.deleting and pod.due and place.role.recovery.relaunch:
        # Who follows has another name, and need not wait for a node that does not answer.
        since = pod.due + placement.view.timeouts.verdict
        return _lost(place, "deleted", pod, record, since)
    if pod.deleting and pod.due and place.declared:
        # Kueue keeps it until another one is there (reference/gang-scheduling.md 4.5).
        return _lost(place, "deleted", pod, record, 0.0 if pod.ended else pod.due)
    if pod.deleting:
        # Whatever its containers make of the signal is no failure of theirs
        # (reference/training-operator.md 7, defects 5 and 48).
        return Replica(place, "there")
    if pod.phase == "Failed" or (pod.phase == "Pending" and pod.refused):
        # Its preflight has sent it away, and its kubelet would only ask again.
        return _lost(place, "failed", pod, record)
    if pod.phase == "Succeeded" and comes_back(place.role, "succeeded", pod):
        return _lost(place, "succeeded", pod, record)
    if pod.phase == "Unknown" and comes_back(place.role, "unknown", pod):
        return _lost(place, "unknown", pod, record)
    log = placement.view.activity.get(pod.uid)
    if log is not None and log.at is not None:
        due = _silent_at(placement, place.role, pod)
        if due is not None and log.read_at >= due:
            return _lost(place, "stuck", pod, record)
    return _lost(place, "stuck", pod, record) if pod.uid == stuck else Replica(place, "there")


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


def _vanished(place: Place, pod: PodView, at: float, record: RunRecord, pruned: float) -> Replica:
    written = record.replica(place.key)
    decided = written.lost == pod.uid
    if decided and written.returns:
        return Replica(place, "returning")
    if decided and place.role.recovery.comes_back == "policy":
        return Replica(place, "left")
    if pod.deleting:
        since = at if pod.disrupted else max(at, pruned)
        return _lost(place, "deleted", pod, record, since)
    if pod.phase == "Failed" and not decided:
        return _lost(place, "failed", pod, record, at)
    if pod.phase == "Succeeded":
        return _lost(place, "succeeded", pod, record, at)
    # By force, if it was seen to go; a list that does not have it says nothing of how it went.
    unseen = place.gone is not None and place.gone.unseen
    return _lost(place, "vanished" if unseen else "erased", pod, record, at)


def _lost(
    place: Place, cause: Cause, pod: PodView | None, record: RunRecord, since: float = 0.0
) -> Replica:
    if place.role.recovery.relaunch is not None:
        return Replica(place, "lost", cause, pod, since, may_follow(place, cause, pod, record))
    back = comes_back(place.role, cause, pod) or (
        # Its Pod failed and is gone already: there is nothing to leave alone.
        bool(since) and cause == "failed" and place.role.recovery.comes_back != "policy"
    )
    return Replica(place, "lost", cause, pod, since, back)


# Replicas that run and say nothing ---------------------------------------------------------------
#
# Their logs are read, and who is silent for too long is lost. DLRover's master watches its agents'
# heartbeats, and only where it makes the Pods; a hung one it duplicates instead of ending it
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
    log = placement.view.activity.get(pod.uid)
    last = log.at if log is not None and log.at is not None else 0.0
    return max(last, pod.ready_since or pod.created) + limit


def logs_to_read(state: RunState) -> Iterator[Action]:
    """The logs that are to be read, when to ask again, and the end of Pods that hang."""
    for replica in state.those("there"):
        pod, role = replica.place.pod, replica.place.role
        due = _silent_at(state.placement, role, pod) if pod is not None else None
        if pod is None or due is None:
            continue
        log = state.view.activity.get(pod.uid)
        if log is not None and log.at is None:
            due = max(due, log.read_at + AGAIN)
        if state.now < due:
            yield Requeue(due)
        else:
            yield ReadLog(pod.name, pod.uid, role.template.main)
            yield Requeue(state.now + AGAIN)
    for replica in state.those("left"):
        pod = replica.place.pod
        if pod is None or not replica.place.role.recovery.relaunch:
            continue
        if not pod.ended and not pod.ending:
            yield EndPod(pod.name, pod.uid, "Stuck")
