"""Decide who has a rank, and who follows a lost replica of it (ElasticJob).

Several Pods may have the same rank, and at most one of them may be at work: two would throw each
other out of the rendezvous (reference/dlrover.md 4.5). The declared Pod has precedence, because a
tool that syncs Git brings it back whenever it is gone; then the one that the run record names; then
one that lives.

A failed Pod stays as it is, so that its log can be read; another one with a new number follows it.
The table of exit codes is the job's (`Relaunch`); DLRover's is that of reference/dlrover.md 4.2.
Deletions and lost nodes do not count.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.k8s.quantity import number
from etcompile.model import Member, Relaunch, Role
from etcompile.model.run_completion import Ranked, holder
from etcompile.model.run_record import RestartHistory, RunRecord
from etcompile.watch.core.run import Cause, Replica, Run

_OUT_OF_MEMORY = ("OOMKilled", 247)
"""A reason and an exit code: DLRover's programs end with the latter (reference/dlrover.md 4.2)."""
_MEBI = 2**20
_STEP = 8192 * _MEBI  # bytes that a follower gets at most in addition
_MOST_MEMORY = 65536 * _MEBI  # bytes from which on no follower gets more


def ranks(
    role: Role, pods: Iterable[PodState], record: RunRecord
) -> Iterator[tuple[Member, Member, Sequence[PodState]]]:
    """Yield the declared replicas of a role, the one that has each rank, and the rank's Pods."""
    by_rank: defaultdict[int, list[PodState]] = defaultdict(list)
    for pod in pods:
        if pod.role == role.name:
            by_rank[(pod.index if pod.rank is None else pod.rank) or 0].append(pod)
    for declared in role.members:
        written = record.replica((role.name, declared.place or 0))
        history, of_rank = written.history, by_rank[declared.place or 0]
        # A Pod whose replacement has been decided no longer counts, even if it still runs.
        candidates = [pod for pod in of_rank if pod.uid != written.out]
        recorded = history.index if history is not None else None
        ranked = [Ranked(p.index, p.created, not (p.ended or p.deleting)) for p in candidates]
        index = holder(declared.index, recorded, ranked, written=history is not None)
        member = declared
        if index != declared.index:
            if history is None or index != recorded:
                history = RestartHistory(index, relaunches=len(candidates) - 1)
            member = follower(declared, history)
        yield declared, member, of_rank


def follower(declared: Member, history: RestartHistory) -> Member:
    """Return the replica that has the rank of a declared one, which may be that itself."""
    if history.index is None:
        return declared
    memory = {"memory": history.memory} if history.memory else {}
    return Member(
        history.index,
        declared.labels,
        rank=declared.place,
        relaunches=history.relaunches,
        resources={**declared.resources, **memory},
    )


def exit_code(role: Role, pod: PodState) -> int | None:
    """Return the exit code that counts: the main container's if it failed; None if none ended."""
    if not pod.exits:
        return None
    failed = [code for _, code in pod.exits if code]
    return dict(pod.exits).get(role.template.main) or next(iter(failed), 0)


def may_follow(replica: Replica, cause: Cause, pod: PodState | None, record: RunRecord) -> bool:
    role, rules = replica.role, replica.role.recovery.relaunch
    if rules is None or cause == "succeeded":
        return False
    members = record.replicas.get(role.name, {}).values()
    if rules.joint and any(member.completed for member in members):
        return False
    history = record.replica(replica.key).history
    is_within = (history.counted if history else 0) < rules.limit
    if cause == "hung":
        return is_within
    if cause != "failed" or pod is None or pod.disrupted:
        return True
    if any(end in rules.never for end in (exit_code(role, pod), *pod.reasons)):
        return False
    size = _memory(replica) if rules.memory and _ran_out_of_memory(role, pod) else None
    if size is not None and size >= _MOST_MEMORY:
        return False
    return is_within or not _counts(rules, role, cause, pod)


def _counts(rules: Relaunch, role: Role, cause: Cause, pod: PodState | None) -> bool:
    """Return whether a loss counts against the limit of its rank."""
    if cause == "hung" or pod is None:
        return cause == "hung"
    # An exit code says that it was killed; being killed for want of memory counts.
    is_free = exit_code(role, pod) in rules.free and not _ran_out_of_memory(role, pod)
    return spends_budget(cause, pod) and not is_free


def spends_budget(cause: Cause | None, pod: PodState | None) -> bool:
    """Return whether a loss counts against the failures of the whole run: not the node's doing."""
    return cause == "hung" or (cause == "failed" and not (pod is not None and pod.disrupted))


def _ran_out_of_memory(role: Role, pod: PodState) -> bool:
    return any(reason in _OUT_OF_MEMORY for reason in (*pod.reasons, exit_code(role, pod)))


def with_follower(run: Run, loss: Replica, cause: Cause, record: RunRecord) -> RestartHistory:
    """Return the history of a rank, with the replica that follows the lost one.

    If a tool syncs Git, a declared replica whose Pod is gone comes back as itself: the tool would
    bring it back, too. Otherwise, and if a Pod has its name, another number follows.
    """
    role, view, rules, pod = loss.role, run.view, loss.role.recovery.relaunch, loss.last
    history = record.replica(loss.key).history or RestartHistory()
    declared = loss.declared_member
    written = view.run_record
    highest = written.numbers.get(role.name) if written else None
    # No Pod of the declared number was ever there: a plan has just moved the rank.
    is_new = highest is not None and (declared.index or 0) > highest
    index = None
    if role.pod_name(declared) in view.pods or not (view.git_managed or is_new):
        # None that a replica ever had, or that Git may yet give: scaling gives numbers up to the
        # most that the role may have. A plan that moves a replica may give a higher one all the
        # same: its former Pod goes then (`decide.duplicates`).
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
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    size = member.resources.get("memory") or amounts.get("memory")
    amount = number(size) if size is not None else None
    return None if amount is None else float(amount)
