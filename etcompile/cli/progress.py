"""How a rollout shows itself: events for programs, and lines for people.

Neither form fails if nobody reads it any more: the rollout goes on.
"""

import contextlib
import json
import re
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from etcompile.diagnostics import Diagnostic, Severity
from etcompile.diagnostics.redaction import shown, shown_value
from etcompile.exitcodes import INTERRUPTED
from etcompile.naming import natural
from etcompile.plan.groups import listed, side, summary
from etcompile.plan.step import ObjectRef, Plan
from etcompile.rollout import Outcome, StepEvent

_COLOURS = {
    "created": "32",
    "updated": "33",
    "adopted": "33",
    "released": "31",
    "deleted": "31",
    "deleting": "31",
    "ready": "32",
    "succeeded": "32",
    "failed": "1;31",
    "held": "33",
    "waiting": "2",
    "running": "2",
}
_PARTICIPLES = {
    "create": "created",
    "update": "updated",
    "adopt": "adopted",
    "replace": "replaced",
    "delete": "deleted",
    "release": "released",
}
_USED = re.compile(r"used: [^:]*(?=, limited: )")


class Events:
    """A JSON object a line, each complete in itself."""

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

    def repeat(self, notice: str) -> None:
        """Says that a request is sent again; called from any thread."""
        self._write("repeat", reason=notice)

    def end(self, outcome: Outcome) -> None:
        """Says how the rollout ended."""
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
        """Says how the command ended where nothing was begun, so that `end` is always last."""
        if self._ended:
            return
        errors = (each for each in diagnostics if each.severity is Severity.ERROR)
        refused = [
            {"code": each.code, "reason": each.message} | ({"hint": each.hint} if each.hint else {})
            for each in errors
        ]
        stopped: dict[str, Any] = {"interrupted": code == INTERRUPTED, "timedOut": False}
        nothing: dict[str, Any] = {"done": 0, "notDone": [], "notReady": []}
        self._write("end", exit=code, **stopped, **nothing, refused=refused)

    def _write(self, event: str, moment: datetime | None = None, **facts: Any) -> None:
        self._ended = self._ended or event == "end"
        moment = moment or datetime.now(UTC)
        value = {"ts": moment.isoformat(timespec="milliseconds"), "event": event}
        value |= {key: fact for key, fact in facts.items() if fact is not None}
        text = json.dumps(shown_value(value), ensure_ascii=False)
        with self._lock, contextlib.suppress(OSError):
            self._stream.buffer.write(f"{text}\n".encode())
            self._stream.flush()


def _object(ref: ObjectRef) -> dict[str, str]:
    value = {"apiVersion": ref.api_version, "kind": ref.kind, "name": ref.name}
    return value | ({"namespace": ref.namespace} if ref.namespace else {})


class Lines:
    """A line for each change of state, and at the end what is not ready and why."""

    def __init__(self, stream: TextIO, *, quiet: bool, color: bool) -> None:
        self._stream = stream
        self._quiet = quiet
        self._color = color
        self._lock = threading.Lock()

    def begin(self, plan: Plan) -> None:
        """Says what there is to do."""
        if not self._quiet:
            self._write(f"{side(plan)}: {summary(plan)}")

    def tell(self, event: StepEvent) -> None:
        """Writes a line such as `Pod ml/bert-worker-0  waiting: cannot be scheduled: …`."""
        if not self._quiet or event.status == "failed":
            status = self._painted(event.status, _COLOURS.get(event.status, ""))
            reason = f": {shown(event.reason)}" if event.reason else ""
            self._write(f"{event.ref}  {status}{reason}")

    def repeat(self, notice: str) -> None:
        """Says that a request is sent again; called from any thread."""
        if not self._quiet:
            self._write(self._painted(notice, "33"))

    def end(self, outcome: Outcome) -> None:
        """Says how the rollout ended, and lists what is not as it should be."""
        stopped = outcome.interrupted or outcome.timed_out
        good = not (outcome.left or outcome.unready or outcome.refusals or stopped)
        if good and self._quiet:
            return
        if stopped:
            why = "interrupted" if outcome.interrupted else "timed out"
            self._write(f"{why}: run the command again to continue")
        counts = {
            word: sum(step.action == action for step in outcome.done)
            for action, word in _PARTICIPLES.items()
        }
        counts["deleted"] += len(outcome.deleted)
        done = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        nothing = "nothing" if outcome.left or outcome.refusals else "nothing had to be changed"
        self._write(f"done: {done or nothing}")
        left = []
        for step, reason in outcome.left:
            until = f" until {step.until}" if step.until else ""
            left.append((step.ref, f"{step.action} ", until, reason))
        self._list("not done", left)
        # As people sort: worker-2 before worker-10.
        unready = sorted(
            outcome.unready, key=lambda each: (not each.failed, natural(f"{each.ref}"))
        )
        self._list("not ready", [(waiting.ref, "", "", waiting.reason) for waiting in unready])
        jobs = (waiting.job for waiting in unready if waiting.over and waiting.job)
        for job in dict.fromkeys(jobs):
            namespace, _, name = job.rpartition("/")
            where = f" -n {namespace}" if namespace else ""
            self._write(f"to run it again: etcompile restart {name}{where}")

    def conclude(self, code: int, diagnostics: Sequence[Diagnostic]) -> None:
        """Says nothing: people read the diagnostics."""

    def _list(self, title: str, objects: Iterable[tuple[ObjectRef, str, str, str]]) -> None:
        """Writes objects and why, each different reason once, with those that it holds for.

        Args:
            objects: Each with what to write before and after it, and the reason.
        """
        groups: dict[tuple[str, str, str], list[tuple[ObjectRef, str]]] = {}
        for ref, before, after, reason in objects:
            words = _USED.sub("used: *", reason.replace(ref.name, "*"))
            groups.setdefault((before, after, words), []).append((ref, reason))
        if groups:
            self._write(self._painted(f"{title}:", "1"))
        for (before, after, _), group in groups.items():
            ref, reason = group[0]
            if len(group) > 1:
                reason = reason.replace(ref.name, "*")
            names = listed(ref for ref, _ in group)
            self._write(self._painted(f"  {before}{names}{after}: {reason}", ""))

    def _painted(self, words: str, style: str) -> str:
        words = shown(words, keep="\n\t")
        return f"\x1b[{style}m{words}\x1b[0m" if self._color and style else words

    def _write(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            # As bytes: a terminal of another encoding still gets what a file would.
            self._stream.buffer.write(f"{line}\n".encode(errors="replace"))
            self._stream.flush()
