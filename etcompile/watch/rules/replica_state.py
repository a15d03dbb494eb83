"""Each declared replica in one word: there, done, to come back, left alone, or just lost.

What to make of a phase, of a deletion that is under way, of a place that is empty and of a log that
does not grow is decided here, once; and whether a loss brings the replica back, by the tables of
policies (reference/et-operator.md 4.1, reference/training-operator.md 2.3 and 5.4).
"""

from collections.abc import Iterator
from typing import get_args

from msgspec import Struct, structs

from etcompile.k8s.quantity import number
from etcompile.model import Job, Relaunch, Role
from etcompile.model.run_record import RestartHistory, RunRecord
from etcompile.watch.actions import Action, PatchPod, ReadLog, Requeue
from etcompile.watch.job_view import JobView, Timeouts
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.pod_placement import Cause, Placement, Replica, State
from etcompile.watch.rules.silence import AGAIN, Silence, blamed, silence_of

_ANY: frozenset[Cause] = frozenset(get_args(Cause))
_POLICIES: dict[str, frozenset[Cause]] = {
    "Always": _ANY,
    # A kubelet lets a Pod that it is told to stop fail before it goes; one that is deleted by
    # force just is not there any more (reference/et-operator.md 4.1).
    "OnFailure": frozenset({"failed", "deleted", "vanished", "stuck"}),
    "ExitCode": frozenset({"failed", "deleted", "vanished", "stuck"}),
}
_MORE: dict[str, frozenset[Cause]] = {
    "policy": frozenset(),
    "when-gone": frozenset({"deleted", "erased", "vanished"}),
    "always": _ANY - {"succeeded"},
}
_RETRYABLE = range(128, 256)
"""Exit codes after which another try may help: signals. The documented bounds; et-operator leaves
out both ends (reference/et-operator.md 6, defect 18)."""


def comes_back(role: Role, cause: Cause, pod: PodView | None) -> bool:
    """Whether a replica gets another Pod, by how it lost the last that was seen of it."""
    if cause in _MORE[role.recovery.comes_back]:
        return True
    if pod is not None and pod.stopped_by_kueue:
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


def exit_code(role: Role, pod: PodView) -> int | None:
    """The exit code that counts: the main container's if it failed. None if none has ended."""
    if not pod.exits:
        return None
    failed = [code for _, code in pod.exits if code]
    return dict(pod.exits).get(role.template.main) or next(iter(failed), 0)


def why(role: Role, cause: Cause, pod: PodView | None) -> str:
    """A loss in a few words, those of `etcompile why`: `ran out of memory (OOMKilled, …)`."""
    if cause != "failed" or pod is None:
        words = {
            "unknown": "its node is unreachable",
            "erased": "force-deleted, or removed from the job",
            "vanished": "deleted while no watcher was running, so how it ended is unknown",
            "stuck": "it has logged nothing new"
            if role.recovery.relaunch is not None
            else "no replica has logged anything for too long",
        }
        return words.get(cause, cause)
    if pod.failures:
        own = [failure for failure in pod.failures if failure.container == role.template.main]
        return (own or pod.failures)[-1].in_words
    code = exit_code(role, pod)
    said = pod.reason or next(iter(pod.reasons), "")
    return said or ("failed" if code is None else f"exit code {code}")


# Who may follow a lost replica of the same rank --------------------------------------------------
#
# With which number, and with how much memory. The table of exit codes is the job's (`Relaunch`):
# DLRover's is that of reference/dlrover.md 4.2. A failed Pod stays as it is, so that its log can be
# read; who follows it stands beside it. What somebody deleted or a node lost is nobody's fault and
# is not counted.

_OUT_OF_MEMORY = ("OOMKilled", 247)
"""A reason and an exit code: DLRover's programs end with the latter (reference/dlrover.md 4.2)."""
_MEBI = 2**20
_STEP = 8192 * _MEBI
_MOST_MEMORY = 65536 * _MEBI
"""Bytes: by how much more memory at once, and from where on nobody gets any more."""


def may_follow(replica: Replica, cause: Cause, pod: PodView | None, record: RunRecord) -> bool:
    """Whether another replica may follow a lost one."""
    role = replica.role
    rules = role.recovery.relaunch
    if rules is None or cause == "succeeded":
        return False
    if rules.joint and any(
        replica.completed for replica in record.replicas.get(role.name, {}).values()
    ):
        return False
    history = record.replica(replica.key).history
    is_within = (history.counted if history else 0) < rules.limit
    if cause == "stuck":
        return is_within
    if cause != "failed" or pod is None or pod.disrupted:
        return True
    if any(end in rules.never for end in (exit_code(role, pod), *pod.reasons)):
        return False
    size = _memory(replica) if rules.memory and _ran_out_of_memory(role, pod) else None
    if size is not None and size >= _MOST_MEMORY:
        return False
    return is_within or not _counts(rules, role, cause, pod)


def _counts(rules: Relaunch, role: Role, cause: Cause, pod: PodView | None) -> bool:
    """Whether a loss counts against the limit of its rank."""
    if cause == "stuck" or pod is None:
        return cause == "stuck"
    # An exit code says who was killed; for want of memory is another matter.
    is_free = exit_code(role, pod) in rules.free and not _ran_out_of_memory(role, pod)
    return spends_budget(cause, pod) and not is_free


def spends_budget(cause: Cause, pod: PodView | None) -> bool:
    """Whether a loss counts against what the run may fail in all: not the node's doing."""
    return cause == "stuck" or (cause == "failed" and not (pod is not None and pod.disrupted))


def _ran_out_of_memory(role: Role, pod: PodView) -> bool:
    return any(reason in _OUT_OF_MEMORY for reason in (*pod.reasons, exit_code(role, pod)))


def with_follower(
    placement: Placement, loss: Replica, cause: Cause, record: RunRecord
) -> RestartHistory:
    """The history of a rank, with the replica that follows the lost one.

    Where a tool syncs Git, a declared replica whose Pod is gone comes back as itself: the tool
    would bring it back, too. Elsewhere, and where a Pod has its name, another number follows.
    """
    role, view, rules, pod = loss.role, placement.view, loss.role.recovery.relaunch, loss.last
    history = record.replica(loss.key).history or RestartHistory()
    declared = loss.declared_member
    own = view.own_record
    highest = own.numbers.get(role.name) if own else None
    # No Pod of the declared number was ever there: a plan has just moved the rank.
    is_new = highest is not None and (declared.index or 0) > highest
    index = None
    if role.pod_name(declared) in view.pods or not (view.git_managed or is_new):
        # None that a replica ever had, or that Git may yet give: scaling gives numbers up to the
        # most that the role may have. A plan that moves a replica may give a higher one all the
        # same: whoever has it then makes room (`termination.duplicates`).
        numbers = [pod.index for pod in view.pods.values() if pod.role == role.name and pod.index]
        numbers += [member.index for member in role.members if member.index]
        least = (role.bounds.maximum if role.bounds else None) or len(role.members)
        index = max(least, max(numbers, default=0) + 1, record.numbers.get(role.name, -1) + 1)
    memory, times = history.memory, rules.memory if rules is not None else None
    size = _memory(loss) if pod is not None and _ran_out_of_memory(role, pod) else None
    if times and size is not None:
        memory = f"{int(min(size * times, size + _STEP)) // _MEBI}Mi"
    return structs.replace(
        history,
        index=index,
        relaunches=history.relaunches + 1,
        counted=history.counted + (rules is not None and _counts(rules, role, cause, pod)),
        memory=memory,
    )


def _memory(replica: Replica) -> float | None:
    member = replica.follower or replica.declared_member
    resources = replica.role.template.main_container.get("resources") or {}
    own = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    size = member.resources.get("memory") or own.get("memory")
    amount = number(size) if size is not None else None
    return None if amount is None else float(amount)


class RunState(Struct, frozen=True):
    """What has become of a run: what the rules are asked about."""

    placement: Placement
    record: RunRecord  # with what was decided so far
    now: float  # in seconds since 1970
    replicas: tuple[Replica, ...]
    silence: Silence | None  # if its job limits that

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
        """The losses to decide about: their Pods have been gone `after` seconds."""
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
        elif view.superseded and not (
            (written.returns and (gone is None or gone.pod.uid == written.lost))
            or (gone is not None and (gone.pod.disrupted or gone.pod.phase == "Failed"))
        ):
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

    Argo CD prunes before it applies (reference/gitops.md 1.1). Nothing tells that from a Pod that
    somebody deleted, but that an evicted one carries a condition.
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
            yield PatchPod("end", pod.name, pod.uid, "Stuck")
