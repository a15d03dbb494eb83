"""A rollout as lines: one for each change of state, and at the end what is not ready and why."""

import re
import threading
from collections.abc import Iterator
from typing import TextIO

from etcompile.cluster import Repeat
from etcompile.cluster.rollout import Happening, Outcome
from etcompile.naming import Natural, natural
from etcompile.plan.show.alike import side, summary
from etcompile.plan.step import ObjectRef, Plan, Step

_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_COLOURS = {
    "created": "32",
    "updated": "33",
    "adopted": "33",
    "deleted": "31",
    "deleting": "31",
    "ready": "32",
    "succeeded": "32",
    "failed": "1;31",
    "held": "33",
    "waiting": "2",
}
_MANY = 30
"""So many objects of an end's list are named."""


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

    def tell(self, happening: Happening) -> None:
        """Writes a line."""
        if not self._quiet or happening.status == "failed":
            self._write(self.line(happening))

    def repeat(self, repeat: Repeat) -> None:
        """Says that a request is sent again."""
        if not self._quiet:
            self._write(self._painted(str(repeat), "33"))

    def end(self, outcome: Outcome, code: int) -> None:  # noqa: ARG002 - the shell shows the code
        """Says how it ended, and lists what is not as it should be."""
        for line in self.ending(outcome):
            self._write(line)

    def line(self, happening: Happening) -> str:
        """A change of state as a line: `Pod ml/bert-worker-0  waiting: no node takes it: …`."""
        status = self._painted(happening.status, _COLOURS.get(happening.status, ""))
        reason = f": {happening.reason}" if happening.reason else ""
        return f"{happening.ref}  {status}{reason}"

    def ending(self, outcome: Outcome) -> Iterator[str]:
        """How a rollout ended, as lines."""
        good = not (outcome.left or outcome.unready or outcome.refusals or outcome.interrupted)
        if good and self._quiet:
            return
        if outcome.interrupted:
            yield "interrupted: run it again to go on from here"
        elif outcome.timed_out:
            yield "the time is over: run it again to go on from here"
        done = _counted(outcome.done)
        yield f"done: {done}" if done else "done: nothing had to be changed"
        yield from self._listed(
            "not done", [f"{_what(step)}: {reason}" for step, reason in outcome.left]
        )
        unready = sorted(outcome.unready, key=lambda one: in_order(one.ref))
        yield from self._listed("not ready", [f"{one.ref}: {one.reason}" for one in unready])

    def _listed(self, title: str, found: list[str]) -> Iterator[str]:
        if found:
            yield self._painted(f"{title}:", "1")
            yield from (f"  {line}" for line in found[:_MANY])
            if len(found) > _MANY:
                yield f"  and {len(found) - _MANY} more"

    def _painted(self, words: str, style: str) -> str:
        words = _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", words)
        return f"\x1b[{style}m{words}\x1b[0m" if self._color and style else words

    def _write(self, line: str) -> None:
        with self._lock:
            # As bytes: a terminal of another encoding still gets what a file would.
            self._stream.buffer.write(f"{line}\n".encode(errors="replace"))
            self._stream.flush()


def in_order(ref: ObjectRef) -> tuple[str, str, Natural]:
    """What sorts objects as people do: worker-2 before worker-10."""
    return ref.kind, ref.namespace, natural(ref.name)


def _what(step: Step) -> str:
    return f"{step.action} {step.ref}" + (f" until {step.until}" if step.until else "")


def _counted(steps: tuple[Step, ...]) -> str:
    words = {
        "create": "created",
        "update": "updated",
        "adopt": "adopted",
        "replace": "replaced",
        "delete": "deleted",
    }
    counts = {word: sum(step.action == action for step in steps) for action, word in words.items()}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
