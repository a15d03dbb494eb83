"""A run that the job's ConfigMap does not describe any more, while its Pods are still there.

Mostly somebody is about to exchange the Pods, and for a moment nothing is made again that would be
in the way. After that moment the apply has failed, and the run goes on as it was; people are told
so once, and `status` shows it.
"""

from msgspec import structs

from etcompile.watch.actions import Action, CreatePod, EmitEvent, ReplacePod, Requeue
from etcompile.watch.rules.decision import Decision
from etcompile.watch.state import JobView, RunRecord

REASON = "AnotherRunDeclared"
UNREADABLE = "UnreadableJob"
REASONS = (REASON, UNREADABLE)
_MESSAGE = (
    "the ConfigMap describes another run, but the Pods of this one are still there: it goes on, "
    "and its Pods are still replaced; apply the job with --replace to exchange them, or apply what "
    "it was before"
)


def held(view: JobView, decision: Decision, now: float) -> Decision:
    """The ruling for such a run: the same, but that nobody is created in the first moment.

    Args:
        view: What is known of the job.
        decision: What the rules say of the run.
        now: The time.
    """
    due = (view.declared_at or 0.0) + view.timeouts.verdict
    if now < due:
        actions: list[Action] = [
            one for one in decision.actions if not isinstance(one, CreatePod | ReplacePod)
        ]
        return Decision(decision.record, (*actions, Requeue(due)))
    reason, message = REASON, _MESSAGE
    if view.unreadable:
        reason = UNREADABLE
        message = (
            f"the ConfigMap cannot be read: {view.unreadable}; the run goes on as it was before, "
            "and its Pods are still replaced; apply the job again"
        )
    known = decision.record.reason, decision.record.message
    if decision.record.phase != "Running" or known == (reason, message):
        return decision
    record = structs.replace(decision.record, reason=reason, message=message)
    told = EmitEvent(reason, message, warning=True)
    return Decision(record, (*decision.actions, told))


def undone(record: RunRecord) -> RunRecord:
    """The record of a run that is described again.

    Args:
        record: The record so far.
    """
    return structs.replace(record, reason="", message="")
