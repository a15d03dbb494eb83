"""A rollout as events for programs: a JSON object a line, each complete in itself."""

import contextlib
import json
import threading
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from etcompile.diagnostics import Diagnostic, Severity
from etcompile.diagnostics.redaction import shown_value
from etcompile.exitcodes import INTERRUPTED
from etcompile.kubeapi import Repeat
from etcompile.plan.step import ObjectRef, Plan
from etcompile.rollout import Outcome, StepEvent


class Events:
    """Writes events.

    Args:
        stream: Where to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._ended = False

    def begin(self, plan: Plan) -> None:
        """Says what there is to do."""
        self._write("plan", context=plan.context, counts=plan.counts())

    def tell(self, event: StepEvent) -> None:
        """Says that an object has changed its state."""
        self._write(
            "object",
            datetime.fromtimestamp(event.moment, UTC),
            object=_object(event.ref),
            job=event.job,
            action=event.action,
            status=event.status,
            reason=event.reason or None,
        )

    def repeat(self, repeat: Repeat) -> None:
        """Says that a request is sent again."""
        self._write("repeat", reason=str(repeat))

    def end(self, outcome: Outcome) -> None:
        """Says how it ended."""
        self._write(
            "end",
            exit=outcome.code,
            done=len(outcome.done),
            deleted=len(outcome.deleted),
            interrupted=outcome.interrupted,
            timedOut=outcome.timed_out,
            notDone=[
                {"object": _object(step.ref), "action": step.action, "reason": reason}
                for step, reason in outcome.left
            ],
            notReady=[
                {"object": _object(waiting.ref), "failed": waiting.failed, "reason": waiting.reason}
                for waiting in outcome.unready
            ],
            refused=[
                {
                    "object": _object(refusal.ref),
                    "why": refusal.cause,
                    "reason": "; ".join(refusal.reasons),
                }
                for refusal in outcome.refusals
            ],
        )

    def conclude(self, code: int, diagnostics: Sequence[Diagnostic]) -> None:
        """Says how it ended where nothing was begun, so that the last event is always this one."""
        if self._ended:
            return
        refused = [
            {"code": diagnostic.code, "reason": diagnostic.message}
            | ({"hint": diagnostic.hint} if diagnostic.hint else {})
            for diagnostic in diagnostics
            if diagnostic.severity is Severity.ERROR
        ]
        self._write(
            "end",
            exit=code,
            done=0,
            interrupted=code == INTERRUPTED,
            timedOut=False,
            notDone=[],
            notReady=[],
            refused=refused,
        )

    def _write(self, event: str, moment: datetime | None = None, **facts: Any) -> None:
        self._ended = self._ended or event == "end"
        moment = moment or datetime.now(UTC)
        value = {"ts": moment.isoformat(timespec="milliseconds"), "event": event}
        value |= {key: fact for key, fact in facts.items() if fact is not None}
        # A rollout goes on, whoever reads of it.
        with self._lock, contextlib.suppress(OSError):
            self._stream.buffer.write(
                json.dumps(shown_value(value), ensure_ascii=False).encode() + b"\n"
            )
            self._stream.flush()


def _object(ref: ObjectRef) -> dict[str, str]:
    value = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name}
    return value | ({"namespace": ref.namespace} if ref.namespace else {})
