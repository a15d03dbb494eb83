"""Which losses bring a replica back: the tables of policies, and who may follow whom.

A loss is what became of a Pod, not whose fault it is (reference/et-operator.md 4.1,
reference/training-operator.md 2.3 and 5.4).
"""

from typing import get_args

from msgspec import structs

from etcompile.k8s.quantity import number
from etcompile.model import Relaunch, Role
from etcompile.model.run_record import RestartHistory, RunRecord
from etcompile.watch.pod_view import PodView
from etcompile.watch.rules.pod_placement import Cause, Placement, Replica

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
    """The exit code that counts: the main container's if it failed, else the first that failed.

    None if no container has ended.
    """
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
    """Bytes that the main container of a replica may have."""
    member = replica.follower or replica.declared_member
    resources = replica.role.template.main_container.get("resources") or {}
    own = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    size = member.resources.get("memory") or own.get("memory")
    amount = number(size) if size is not None else None
    return None if amount is None else float(amount)
