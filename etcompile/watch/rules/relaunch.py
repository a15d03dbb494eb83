"""Who may follow a lost replica of the same rank, with which number and how much memory.

The table of exit codes is the job's (`Relaunch`): DLRover's is that of reference/dlrover.md 4.2. A
failed Pod stays as it is, so that its log can be read; who follows it stands beside it. What
somebody deleted or a node lost is nobody's fault and is not counted.
"""

from msgspec import structs

from etcompile.model import Member, Relaunch, Role
from etcompile.model.quantity import number
from etcompile.watch.rules.ranks import follower, next_number
from etcompile.watch.rules.restart_policy import Cause, exit_code
from etcompile.watch.rules.run_state import Place, RunState, sets
from etcompile.watch.state import PodView, RestartHistory, RunRecord

OUT_OF_MEMORY = ("OOMKilled", 247)
"""A reason and an exit code: DLRover's programs end with the latter (reference/dlrover.md 4.2)."""
_MEBI = 2**20
_STEP = 8192 * _MEBI
_MOST_MEMORY = 65536 * _MEBI
"""Bytes: by how much more memory at once, and from where on nobody gets any more."""


def may_follow(place: Place, cause: Cause, pod: PodView | None, record: RunRecord) -> bool:
    """Whether somebody may follow a lost replica.

    Args:
        place: Where it belonged.
        cause: How it was lost.
        pod: What was last seen of its Pod.
        record: The run record.
    """
    role = place.role
    rules = role.relaunch
    if rules is None or cause == "succeeded":
        return False
    if rules.joint and sets(record.completed).get(role.name):
        return False
    if cause == "stuck":
        return _is_within(rules, record.lines.get(place.key))
    if cause != "failed" or pod is None or pod.disrupted:
        return True
    if exit_code(role, pod) in rules.never or any(one in rules.never for one in pod.reasons):
        return False
    if rules.memory and ran_out_of_memory(role, pod):
        size = _memory(place)
        if size is not None and size >= _MOST_MEMORY:
            return False
    return not counts(rules, role, cause, pod) or _is_within(rules, record.lines.get(place.key))


def counts(rules: Relaunch, role: Role, cause: Cause, pod: PodView | None) -> bool:
    """Whether a loss counts against the limit of its rank.

    Args:
        rules: How the role's replicas are followed.
        role: The role.
        cause: How a replica was lost.
        pod: What was last seen of its Pod.
    """
    if cause == "stuck":
        return True
    if cause != "failed" or pod is None or pod.disrupted:
        return False
    # An exit code says who was killed; for want of memory is another matter.
    return exit_code(role, pod) not in rules.free or ran_out_of_memory(role, pod)


def is_failure(cause: Cause, pod: PodView | None) -> bool:
    """Whether a loss counts against what the run may fail in all: not the node's doing."""
    return cause == "stuck" or (cause == "failed" and not (pod is not None and pod.disrupted))


def ran_out_of_memory(role: Role, pod: PodView) -> bool:
    """Whether a Pod failed because it had too little memory."""
    return any(one in OUT_OF_MEMORY for one in (*pod.reasons, exit_code(role, pod)))


def followed(
    run_state: RunState, place: Place, cause: Cause, pod: PodView | None, record: RunRecord
) -> RestartHistory:
    """Who has had a rank, with who comes now.

    Where a tool syncs Git, a declared replica whose Pod is gone comes back as itself: the tool
    would bring it back, too. Elsewhere, and where a Pod has its name, somebody with another number
    comes.

    Args:
        run_state: Who is there.
        place: Where a replica was lost that comes back.
        cause: How it was lost.
        pod: What was last seen of its Pod.
        record: The run record, with the numbers that were given so far.
    """
    role, view = place.role, run_state.view
    line = record.lines.get(place.key, RestartHistory())
    declared = declared_member(place)
    name = role.pod_name(declared)
    itself = name not in view.pods and (view.git_managed or _is_new(run_state, role, declared))
    counted = role.relaunch is not None and counts(role.relaunch, role, cause, pod)
    memory = line.memory
    if role.relaunch is not None and role.relaunch.memory and pod is not None:
        memory = _more(role.relaunch.memory, place, pod) or memory
    return structs.replace(
        line,
        index=None if itself else next_number(role, view.pods, record),
        relaunches=line.relaunches + 1,
        counted=line.counted + counted,
        memory=memory,
    )


def successor(place: Place, line: RestartHistory) -> Member | None:
    """The replica that is to follow; None if it is the one that is declared."""
    return None if line.index is None else follower(declared_member(place), line)


def declared_member(place: Place) -> Member:
    """The replica that the job declares for a rank."""
    return next(one for one in place.role.members if (one.place or 0) == place.number)


def _is_within(rules: Relaunch, line: RestartHistory | None) -> bool:
    return (line.counted if line else 0) < rules.limit


def _is_new(run_state: RunState, role: Role, declared: Member) -> bool:
    """Whether no Pod of the declared number was ever there: a plan has just moved the rank."""
    index = declared.index or 0
    record = run_state.view.own_record
    highest = record.numbers.get(role.name) if record else None
    return highest is not None and index > highest


def _more(times: int, place: Place, pod: PodView) -> str:
    """The memory of who follows a replica that ran out of it; empty if it is not to change."""
    size = _memory(place)
    if size is None or not ran_out_of_memory(place.role, pod):
        return ""
    return f"{int(min(size * times, size + _STEP)) // _MEBI}Mi"


def _memory(place: Place) -> float | None:
    """Bytes that the main container of a replica may have."""
    member = place.follower or declared_member(place)
    resources = place.role.template.main_container.get("resources") or {}
    given = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    size = member.resources.get("memory") or given.get("memory")
    amount = number(size) if size is not None else None
    return None if amount is None else float(amount)
