"""Who may follow a lost replica of the same rank, where ranks are followed (ElasticJob).

With which number, and with how much memory. The table of exit codes is the job's (`Relaunch`):
DLRover's is that of reference/dlrover.md 4.2. A failed Pod stays as it is, so that its log can be
read; the one that follows it stands beside it. What somebody deleted or a node lost is nobody's
fault and is not counted.
"""

from msgspec import structs

from etcompile.k8s.pod_state import PodState
from etcompile.k8s.quantity import number
from etcompile.model import Relaunch, Role
from etcompile.model.run_record import RestartHistory, RunRecord
from etcompile.watch.core.placement import Cause, Placement, Replica

_OUT_OF_MEMORY = ("OOMKilled", 247)
"""A reason and an exit code: DLRover's programs end with the latter (reference/dlrover.md 4.2)."""
_MEBI = 2**20
_STEP = 8192 * _MEBI
_MOST_MEMORY = 65536 * _MEBI
"""Bytes: by how much more memory at once, and from where on nobody gets any more."""


def exit_code(role: Role, pod: PodState) -> int | None:
    """Return the exit code that counts: the main container's if it failed; None if none ended."""
    if not pod.exits:
        return None
    failed = [code for _, code in pod.exits if code]
    return dict(pod.exits).get(role.template.main) or next(iter(failed), 0)


def may_follow(replica: Replica, cause: Cause, pod: PodState | None, record: RunRecord) -> bool:
    """Return whether another replica may follow a lost one."""
    role = replica.role
    rules = role.recovery.relaunch
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
    # An exit code says who was killed; for want of memory is another matter.
    is_free = exit_code(role, pod) in rules.free and not _ran_out_of_memory(role, pod)
    return spends_budget(cause, pod) and not is_free


def spends_budget(cause: Cause, pod: PodState | None) -> bool:
    """Return whether a loss counts against what the run may fail in all: not the node's doing."""
    return cause == "hung" or (cause == "failed" and not (pod is not None and pod.disrupted))


def _ran_out_of_memory(role: Role, pod: PodState) -> bool:
    return any(reason in _OUT_OF_MEMORY for reason in (*pod.reasons, exit_code(role, pod)))


def with_follower(
    placement: Placement, loss: Replica, cause: Cause, record: RunRecord
) -> RestartHistory:
    """Return the history of a rank, with the replica that follows the lost one.

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
    own = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    size = member.resources.get("memory") or own.get("memory")
    amount = number(size) if size is not None else None
    return None if amount is None else float(amount)
