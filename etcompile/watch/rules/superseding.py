"""A run that the job's ConfigMap does not describe any more, while its Pods are still there.

Mostly somebody is about to exchange the Pods, and for a moment nothing is made again that would be
in the way. After that moment the apply has failed, and the run goes on as it was; people are told
so once, and `status` shows it.
"""

from msgspec import structs

from etcompile.watch.actions import Action, CreatePod, EmitEvent, ReplacePod, Requeue
from etcompile.watch.rules.ruling import Ruling
from etcompile.watch.state import JobView, RunRecord

REASON = "AnotherRunDeclared"
UNREADABLE = "UnreadableJob"
REASONS = (REASON, UNREADABLE)
_MESSAGE = (
    "the ConfigMap describes another run, but the Pods of this one are still there: it goes on, "
    "and its Pods are still replaced; apply the job with --replace to exchange them, or apply what "
    "it was before"
)


def held(view: JobView, ruling: Ruling, now: float) -> Ruling:
    """The ruling for such a run: the same, but that nobody is created in the first moment.

    Args:
        view: What is known of the job.
        ruling: What the rules say of the run.
        now: The time.
    """
    due = (view.declared_at or 0.0) + view.patience.verdict
    if now < due:
        actions: list[Action] = [
            one for one in ruling.actions if not isinstance(one, CreatePod | ReplacePod)
        ]
        return Ruling(ruling.record, (*actions, Requeue(due)))
    reason, message = REASON, _MESSAGE
    if view.unreadable:
        reason = UNREADABLE
        message = (
            f"the ConfigMap cannot be read: {view.unreadable}; the run goes on as it was before, "
            "and its Pods are still replaced; apply the job again"
        )
    known = ruling.record.reason, ruling.record.message
    if ruling.record.phase != "Running" or known == (reason, message):
        return ruling
    record = structs.replace(ruling.record, reason=reason, message=message)
    told = EmitEvent(reason, message, warning=True)
    return Ruling(record, (*ruling.actions, told))


def undone(record: RunRecord) -> RunRecord:
    """The record of a run that is described again.

    Args:
        record: The record so far.
    """
    return structs.replace(record, reason="", message="")
