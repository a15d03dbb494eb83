"""Name the same first failure in the run record and its Events as `etcompile why` does.

The core names the replica for which it ends an attempt: the first of which it learned. Others may
have failed before; which of them was the first follows from the log of failures.
"""

from msgspec import structs

from etcompile.failures.log import FailureLog, first_causes
from etcompile.watch.core.actions import EmitEvent
from etcompile.watch.core.listener import Listener, Outcome


def _after(outcome: Outcome) -> Outcome:
    log: FailureLog | None = outcome.facts.get("failures")
    record, attempt = outcome.record, outcome.previous.attempt
    first = first_causes(log.failures).get(attempt) if log is not None else None
    pod, _, what = record.message.partition(": ")
    names = {loss.name for loss in outcome.losses} | {*outcome.view.pods}
    is_new = record.message != outcome.previous.message
    if not is_new or first is None or first.pod == pod or pod not in names:
        return outcome
    _, comma, restarts = what.partition(", after ")
    message = f"{first.pod}: {first.in_words}{comma}{restarts}"
    actions = tuple(
        structs.replace(action, message=message)
        if isinstance(action, EmitEvent) and action.message == record.message
        else action
        for action in outcome.actions
    )
    record = structs.replace(record, message=message)
    return structs.replace(outcome, record=record, actions=actions)


LISTENER = Listener(after=_after)
