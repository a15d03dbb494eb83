"""Name the same first failure in the run record and its Events as `etcompile why` does.

The core names the replica for which it ends an attempt: the first of which it learned. Others may
have failed before; which of them was the first follows from the log of failures.
"""

from msgspec import structs

from etcompile.causes.log import FailureLog, first_causes
from etcompile.watch.core.actions import EmitEvent
from etcompile.watch.core.listener import Listener, Outcome
from etcompile.watch.core.replicas import why


def _after(outcome: Outcome) -> Outcome:
    log: FailureLog | None = outcome.facts.get("failures")
    record, attempt = outcome.record, outcome.previous.attempt
    first = first_causes(log.failures).get(attempt) if log is not None else None
    if first is None:
        return outcome
    message = record.message
    for loss in (loss for loss in outcome.losses if loss.name != first.pod):
        words = why(loss.role, loss.cause or "failed", loss.last)
        message = message.replace(f"{loss.name}: {words}", f"{first.pod}: {first.in_words}")
    if message == record.message:
        return outcome
    actions = tuple(
        structs.replace(action, message=message)
        if isinstance(action, EmitEvent) and action.message == record.message
        else action
        for action in outcome.actions
    )
    record = structs.replace(record, message=message)
    return structs.replace(outcome, record=record, actions=actions)


LISTENER = Listener(after=_after)
