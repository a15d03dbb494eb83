"""A rollout as lines: one for each change of state, and at the end what is not ready and why."""

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from etcompile.diagnostics import Diagnostic
from etcompile.diagnostics.redaction import shown
from etcompile.kubeapi import Repeat
from etcompile.naming import Natural, natural
from etcompile.plan.show.groups import listed, side, summary
from etcompile.plan.step import ObjectRef, Plan, Step
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
_USED = re.compile(r"used: [^:]*(?=, limited: )")


class Lines:
    """Writes a line for each change of state.

    Args:
        stream: Where to.
        quiet: Only what is wrong.
        color: Use ANSI escapes.
    """

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
        """Writes a line."""
        if not self._quiet or event.status == "failed":
            self._write(self.line(event))

    def repeat(self, repeat: Repeat) -> None:
        """Says that a request is sent again."""
        if not self._quiet:
            self._write(self._painted(str(repeat), "33"))

    def end(self, outcome: Outcome) -> None:
        """Says how it ended, and lists what is not as it should be."""
        for line in self.ending(outcome):
            self._write(line)

    def conclude(self, code: int, diagnostics: Sequence[Diagnostic]) -> None:
        """Says nothing: lines are for people, who are told by the diagnostics."""

    def line(self, event: StepEvent) -> str:
        """A change of state as a line: `Pod ml/bert-worker-0  waiting: cannot be scheduled: …`."""
        status = self._painted(event.status, _COLOURS.get(event.status, ""))
        reason = f": {shown(event.reason)}" if event.reason else ""
        return f"{event.ref}  {status}{reason}"

    def ending(self, outcome: Outcome) -> Iterator[str]:
        """How a rollout ended, as lines."""
        stopped = outcome.interrupted or outcome.timed_out
        good = not (outcome.left or outcome.unready or outcome.refusals or stopped)
        if good and self._quiet:
            return
        if outcome.interrupted:
            yield "interrupted: run the command again to continue"
        elif outcome.timed_out:
            yield "timed out: run the command again to continue"
        nothing = "nothing" if outcome.left or outcome.refusals else "nothing had to be changed"
        yield f"done: {_counted(outcome) or nothing}"
        left = [(step.ref, _what(step), reason) for step, reason in outcome.left]
        yield from self._listed("not done", left)
        unready = sorted(
            outcome.unready, key=lambda waiting: (not waiting.failed, in_order(waiting.ref))
        )
        yield from self._listed(
            "not ready", [(waiting.ref, ("", ""), waiting.reason) for waiting in unready]
        )
        for job in dict.fromkeys(
            waiting.job for waiting in unready if waiting.over and waiting.job
        ):
            namespace, _, name = job.rpartition("/")
            yield f"to run it again: etcompile restart {name}" + (
                f" -n {namespace}" if namespace else ""
            )

    def _listed(
        self, title: str, found: Iterable[tuple[ObjectRef, tuple[str, str], str]]
    ) -> Iterator[str]:
        """Objects and why, each different reason once, with those that it holds for."""
        alike: dict[tuple[tuple[str, str], str], list[tuple[ObjectRef, str]]] = {}
        for ref, what, reason in found:
            words = _USED.sub("used: *", reason.replace(ref.name, "*"))
            alike.setdefault((what, words), []).append((ref, reason))
        if alike:
            yield self._painted(f"{title}:", "1")
        for ((before, after), _), group in alike.items():
            reason = group[0][1]
            if len(group) > 1:
                reason = reason.replace(group[0][0].name, "*")
            yield self._painted(f"  {before}{listed(ref for ref, _ in group)}{after}: {reason}", "")

    def _painted(self, words: str, style: str) -> str:
        words = shown(words, keep="\n\t")
        return f"\x1b[{style}m{words}\x1b[0m" if self._color and style else words

    def _write(self, line: str) -> None:
        # A rollout goes on, whoever reads of it.
        with self._lock, contextlib.suppress(OSError):
            # As bytes: a terminal of another encoding still gets what a file would.
            self._stream.buffer.write(f"{line}\n".encode(errors="replace"))
            self._stream.flush()


def in_order(ref: ObjectRef) -> tuple[str, str, Natural]:
    """What sorts objects as people do: worker-2 before worker-10."""
    return ref.kind, ref.namespace, natural(ref.name)


def _what(step: Step) -> tuple[str, str]:
    """What stands before and after the object of a step that was not done."""
    return f"{step.action} ", f" until {step.until}" if step.until else ""


def _counted(outcome: Outcome) -> str:
    words = {
        "create": "created",
        "update": "updated",
        "adopt": "adopted",
        "replace": "replaced",
        "delete": "deleted",
        "release": "released",
    }
    counts = {
        word: sum(step.action == action for step in outcome.done) for action, word in words.items()
    }
    counts["deleted"] += len(outcome.deleted)
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
