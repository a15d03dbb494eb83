"""Each declared replica in one word: there, done, to come back, left alone, or just lost.

The other rules ask this and nothing of Pods: what to make of a phase, of a deletion that is under
way, of a place that is empty and of a log that does not grow is decided here, once.
"""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, structs

from etcompile.model import Role
from etcompile.model.run_record import ReplicaKey, ReplicaRecord, RunRecord
from etcompile.watch.actions import Action, EndPod, ReadLog, Requeue
from etcompile.watch.rules.placement import Place, Placement
from etcompile.watch.rules.restart_policy import Cause, comes_back, counted_restarts, may_follow
from etcompile.watch.rules.silence import AGAIN, blamed
from etcompile.watch.state import JobView, PodView

State = Literal["there", "awaited", "done", "returning", "left", "lost", "restarting"]
"""`there`: its Pod may be at work, or is on its way out. `awaited`: nobody has created it yet.
`done`: it has succeeded. `returning`: it was decided that it gets another Pod. `left`: that it does
not. `lost`: nothing is decided. `restarting`: its Pod goes with all others."""


class Replica(Struct, frozen=True):
    """A declared replica, and what has become of it.

    Args:
        place: Where it belongs.
        state: What has become of it.
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


class ReplicaStates(Struct, frozen=True):
    """What has become of all replicas.

    Args:
        placement: Who is there.
        replicas: The declared replicas.
    """

    placement: Placement
    replicas: tuple[Replica, ...]

    def those(self, *states: State) -> list[Replica]:
        """The replicas in any of these states."""
        return [replica for replica in self.replicas if replica.state in states]

    def new_losses(self, now: float, after: float | None = None) -> list[Replica]:
        """The losses about which something is to be decided.

        Args:
            now: The time, in seconds since 1970.
            after: Seconds until one whose Pod has vanished counts; `Timeouts.settle` if None.
        """
        wait = self.placement.view.timeouts.settle if after is None else after
        return [loss for loss in self.those("lost") if not loss.since or now >= loss.since + wait]

    def new_returns(self, now: float) -> list[Replica]:
        """Those of them that bring a replica back."""
        return [loss for loss in self.new_losses(now) if loss.returns]


def states(placement: Placement, record: RunRecord) -> ReplicaStates:
    """What has become of each declared replica."""
    return ReplicaStates(placement, tuple(_replicas(placement, record)))


def _replicas(placement: Placement, record: RunRecord) -> Iterator[Replica]:
    pruned = _pruned(placement.view)
    stuck = blamed(placement, record)
    gang = frozenset(record.gang)
    all_anew = record.phase == "Restarting"
    for place in placement.places:
        written = record.replica(place.key)
        if place.pod is not None:
            if place.pod.uid in gang:
                yield Replica(place, "restarting")
            elif written.completed:
                yield Replica(place, "done")
            elif place.pod.uid == written.lost:
                yield Replica(place, "left" if written.left else "returning")
            else:
                yield _present(placement, place, place.pod, record, stuck)
        elif place.taken:
            yield Replica(place, "there")
        elif written.completed and not all_anew:
            yield Replica(place, "done")
        elif place.gone is not None and place.gone.pod.uid in gang and not all_anew:
            yield Replica(place, "awaited")  # it went when the job was suspended
        elif all_anew and (place.gone or written.seen):
            yield Replica(place, "returning")
        elif placement.view.superseded and _is_given_up(place, written):
            yield Replica(place, "awaited")
        elif place.gone is not None:
            yield _vanished(place, place.gone.pod, place.gone.at, record, pruned)
        elif written.seen:
            yield _missing(place, max(placement.view.watched_since, pruned), record)
        else:
            yield Replica(place, "awaited")


def put_back(placement: Placement, record: RunRecord) -> dict[ReplicaKey, ReplicaRecord]:
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
    stuck = blamed(placement, record) if back else ""  # asked for at each look, and rarely needed
    return {
        place.key: structs.replace(record.replica(place.key), lost="", left=False)
        for place, pod in back
        if _present(placement, place, pod, record, stuck).state == "there"
    }


def _is_given_up(place: Place, written: ReplicaRecord) -> bool:
    """Whether somebody took a Pod away to make another run's: it neither failed nor was evicted."""
    last = place.gone.pod if place.gone is not None else None
    if written.returns and (last is None or last.uid == written.lost):
        return False
    return last is None or not (last.disrupted or last.phase == "Failed")


def _present(
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
    if pod.uid == stuck or _hangs(placement, place.role, pod):
        return _lost(place, "stuck", pod, record)
    return Replica(place, "there")


def _pruned(view: JobView) -> float:
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


def _missing(place: Place, since: float, record: RunRecord) -> Replica:
    written = record.replica(place.key)
    if written.returns:
        return Replica(place, "returning")
    if written.left and place.role.recovery.comes_back == "policy":
        return Replica(place, "left")
    return _lost(place, "vanished", None, record, since)


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


def _hangs(placement: Placement, role: Role, pod: PodView) -> bool:
    """Whether a Pod has been silent for too long, as of when its log was last read."""
    heard = placement.view.heard.get(pod.uid)
    if heard is None or heard.at is None or not _can_hang(placement, role, pod):
        return False
    return heard.asked >= _silent_at(placement, pod)


def _silent_at(placement: Placement, pod: PodView) -> float:
    """When a Pod will have been silent for too long if it says nothing more."""
    heard = placement.view.heard.get(pod.uid)
    last = heard.at if heard is not None and heard.at is not None else 0.0
    limit = placement.job.run.stuck_after or 0
    return max(last, pod.ready_since or pod.created) + limit


def _can_hang(placement: Placement, role: Role, pod: PodView) -> bool:
    """Whether a Pod is one that is to be ended if it is silent for too long."""
    if role.recovery.relaunch is None or placement.job.run.stuck_after is None:
        return False
    return pod.phase == "Running" and not pod.deleting and not pod.ending


def logs_to_read(states: ReplicaStates, now: float) -> Iterator[Action]:
    """The logs that are to be read, and when to ask again."""
    placement = states.placement
    for replica in states.those("there"):
        pod, role = replica.place.pod, replica.place.role
        if pod is None or not _can_hang(placement, role, pod):
            continue
        known = placement.view.heard.get(pod.uid)
        due = _silent_at(placement, pod)
        if known is not None and known.at is None:
            due = max(due, known.asked + AGAIN)
        if now < due:
            yield Requeue(due)
        else:
            yield ReadLog(pod.name, pod.uid, role.template.main)
            yield Requeue(now + AGAIN)
    for replica in states.those("left"):
        pod = replica.place.pod
        if (
            pod is not None
            and replica.place.role.recovery.relaunch
            and not pod.ended
            and not pod.ending
        ):
            yield EndPod(pod.name, pod.uid, "Stuck")
