"""How far a job's run is, according to its custom resource.

All operators write a condition whose type names the state, and some a phase as well.
"""

from collections.abc import Mapping
from typing import Any, Literal

from etcompile.load import Document
from etcompile.model import Job

State = Literal["running", "ended", "suspended", "pending"]

_ENDED = frozenset({"Succeeded", "Failed", "Complete"})


def state(document: Document, job: Job) -> State:
    """The state of a job's run.

    Returns:
        `pending` if it never started; `running` in doubt, because of all mistakes that one does
        least harm.
    """
    status = document.data.get("status")
    status = status if isinstance(status, Mapping) else {}
    true = {
        str(condition.get("type"))
        for condition in _conditions(status)
        if condition.get("status") == "True"
    }
    phase = str(status.get("phase") or "")
    if phase in _ENDED or (not phase and true & _ENDED):
        return "ended"
    if phase == "Suspended" or job.run.suspended or (not phase and "Suspended" in true):
        return "suspended"
    return "running" if status else "pending"


def _conditions(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    # Not `k8s.conditions`, which reads what an API server has sent: a file may hold anything.
    found = status.get("conditions")
    return (
        [condition for condition in found if isinstance(condition, Mapping)]
        if isinstance(found, list)
        else []
    )
