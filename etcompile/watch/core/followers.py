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
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.k8s.quantity import number
from etcompile.model import Member, Role
from etcompile.model.run_completion import Ranked, holder
from etcompile.model.run_record import ReplicaKey, ReplicaRecord, RestartHistory, RunRecord
from etcompile.watch.core.run import Action, DeletePod, EmitEvent, PatchPod, Replica, Requeue, Run

_OUT_OF_MEMORY = ("OOMKilled", 247)
"""A reason and an exit code: DLRover's programs end with the latter (reference/dlrover.md 4.2)."""
_MEBI = 2**20
_STEP = 8192 * _MEBI  # bytes that a follower gets at most in addition
_MOST_MEMORY = 65536 * _MEBI  # bytes from which on no follower gets more


def ranks(
    role: Role, pods: Iterable[PodState], record: RunRecord
) -> Iterator[tuple[Member, Member, str, Sequence[PodState]]]:
    """Yield the declared replicas of a role, who has each rank, its name, and the rank's Pods."""
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
        yield declared, member, role.pod_name(member), of_rank


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


def may_follow(loss: Replica, record: RunRecord) -> bool:
    role, rules, pod = loss.role, loss.role.recovery.relaunch, loss.last
    if rules is None or loss.cause == "succeeded":
        return False
    if rules.joint and any(past.completed for past in record.replicas.get(role.name, {}).values()):
        return False
    if pod is not None and loss.cause == "failed" and not pod.disrupted:
        if any(end in rules.never for end in (exit_code(role, pod), *pod.reasons)):
            return False
        size = _memory(loss) if rules.memory and _ran_out_of_memory(role, pod) else None
        if size is not None and size >= _MOST_MEMORY:
            return False
    history = record.replica(loss.key).history
    return (history.counted if history else 0) < rules.limit or not _counts(loss)


def _counts(loss: Replica) -> bool:
    """Return whether a loss counts against the limit of its rank."""
    role, rules, pod = loss.role, loss.role.recovery.relaunch, loss.last
    if rules is None or pod is None or loss.cause == "hung":
        return loss.cause == "hung"
    # An exit code says that it was killed; being killed for want of memory counts.
    is_free = exit_code(role, pod) in rules.free and not _ran_out_of_memory(role, pod)
    return loss.spends_budget and not is_free


def _ran_out_of_memory(role: Role, pod: PodState) -> bool:
    return any(reason in _OUT_OF_MEMORY for reason in (*pod.reasons, exit_code(role, pod)))


def with_follower(run: Run, loss: Replica, numbers: Mapping[str, int]) -> RestartHistory:
    """Return the history of a rank, with the replica that follows the lost one.

    `numbers` has the highest number of each role so far.

    If a tool syncs Git, a declared replica whose Pod is gone comes back as itself: the tool would
    bring it back, too. Otherwise, and if a Pod has its name, another number follows.
    """
    role, view, rules, pod = loss.role, run.view, loss.role.recovery.relaunch, loss.last
    history = run.record.replica(loss.key).history or RestartHistory()
    # No Pod of the declared number was ever there: a plan has just moved the rank.
    highest = view.run_record.numbers.get(role.name) if view.run_record else None
    is_new = highest is not None and (loss.declared.index or 0) > highest
    index = None
    if role.pod_name(loss.declared) in view.pods or not (view.git_managed or is_new):
        # None that a replica ever had, or that Git may yet give: scaling gives numbers up to the
        # most that the role may have. A plan that moves a replica may give a higher one all the
        # same: its former Pod goes then (`duplicates`).
        used = [pod.index for pod in view.pods.values() if pod.role == role.name and pod.index]
        used += [member.index for member in role.members if member.index]
        least = (role.bounds.maximum if role.bounds else None) or len(role.members)
        index = max(least, max(used, default=0) + 1, numbers.get(role.name, -1) + 1)
    memory, times = history.memory, rules.memory if rules is not None else None
    size = _memory(loss) if pod is not None and _ran_out_of_memory(role, pod) else None
    if times and size is not None:
        memory = f"{int(min(size * times, size + _STEP)) // _MEBI}Mi"
    return structs.replace(
        history,
        index=index,
        relaunches=history.relaunches + 1,
        counted=history.counted + _counts(loss),
        memory=memory,
    )


def _memory(replica: Replica) -> float | None:
    resources = replica.role.template.main_container.get("resources") or {}
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    size = replica.member.resources.get("memory") or amounts.get("memory")
    amount = number(size) if size is not None else None
    return None if amount is None else float(amount)


def with_ranks(run: Run, record: RunRecord) -> RunRecord:
    """Write down who has each rank that others have followed to, and the highest number."""
    ranked = {role.name for role in run.job.roles if role.recovery.relaunch}
    if not ranked:
        return record
    changed: dict[ReplicaKey, ReplicaRecord] = {}
    for replica in run.replicas:
        written, follows = record.replica(replica.key), replica.member is not replica.declared
        if replica.role.name not in ranked or (written.history is None and not follows):
            continue
        relaunches = replica.member.relaunches if follows else 0
        history = written.history or RestartHistory(relaunches=relaunches)
        index = replica.index if replica.index != replica.declared.index else None
        changed[replica.key] = structs.replace(
            written, history=structs.replace(history, index=index)
        )
    numbers = dict(record.numbers)
    for pod in run.pods:
        if pod.role in ranked and (pod.index or 0) > numbers.get(pod.role, -1):
            numbers[pod.role] = pod.index or 0
    return structs.replace(record.with_replicas(changed), numbers=numbers)


# Two Pods of one rank, or with one another's name ------------------------------------------------
#
# The one that is declared stays: a tool that syncs Git would bring it back for ever. Both would
# join the rendezvous under the same rank (reference/dlrover.md 4.5), so the other one goes, after a
# moment for the job's ConfigMap to arrive. One that hangs is ended, so that its log stays.


def duplicates(run: Run) -> Iterator[Action]:
    extra = []
    for replica in run.doubtful:
        for pod in replica.others:
            if pod.uid != run.record.replica(replica.key).lost:
                newer = max(pod.created, replica.pod.created if replica.pod else 0.0)
                extra.append((pod, newer, f"its rank belongs to {replica.name}"))
            elif not pod.ending and not pod.deleting:
                yield PatchPod("end", pod.name, pod.uid, "Lost")
    # The declared one cannot be created while it is there.
    extra += [(pod, pod.created, "its name now belongs to another replica") for pod in run.astray]
    for pod, since, why in extra:
        due = since + run.timeouts.settle
        if run.now < due and not pod.deleting:
            yield Requeue(due)
        elif not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "RankTaken")
            yield EmitEvent("PodMakesRoom", why, pod.name, pod.uid)
