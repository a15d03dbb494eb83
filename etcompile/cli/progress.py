"""Show the progress of a rollout: events for programs, and lines for people.

Neither fails if nobody reads it any more: the rollout goes on.
"""

import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, TextIO

from etcompile.diagnostics import Diagnostic, Severity
from etcompile.diagnostics.message_text import painted
from etcompile.diagnostics.redaction import shown, shown_value
from etcompile.exitcodes import INTERRUPTED
from etcompile.naming import natural
from etcompile.plan.groups import family, listed, side, summary
from etcompile.plan.step import IDLE, ObjectRef, Plan
from etcompile.rollout.machine.messages import Outcome, StepEvent

if TYPE_CHECKING:
    from rich.live import Live

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
_UNDER_WAY = ("deleting", "held", "running", "waiting")
"""Statuses in which the rollout waits for the object."""
_SOON = 1.0  # seconds until a wait or a failure of some of a family is written
_BEAT = 30.0  # until everything else is, and between two lines about waits
_TICK = 0.25  # between two checks
_USED = re.compile(r"used: [^:]*(?=, limited: )")


class Events:
    """Prints a JSON object a line, each complete in itself."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._ended = False

    def begin(self, plan: Plan) -> None:
        self._write("plan", context=plan.context, counts=plan.counts())

    def tell(self, event: StepEvent) -> None:
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
        """Report that a request is sent again; called from any thread."""
        self._write("repeat", reason=notice)

    def end(self, outcome: Outcome) -> None:
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
        """Report the end of a command that began nothing, so that `end` is always last."""
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


_Line = tuple[object, ...]
"""Key of a line: family, action, status and reason without names; or a failed request."""


class Lines:
    """Prints lines for people: objects of one family that reach the same state are one line.

    It is written when the whole family has arrived, or after `_BEAT` seconds; waits of a part of
    the family after `_SOON` seconds. A last line says how long that takes: on a terminal it changes
    in place, elsewhere it is written every `_BEAT` seconds.
    """

    def __init__(self, stream: TextIO, *, quiet: bool, color: bool) -> None:
        self._stream = stream
        self._quiet = quiet
        self._color = color
        self._lock = threading.RLock()
        self._sizes: Counter[_Line] = Counter()
        """Number of objects in the plan, by family and action."""
        self._reached: Counter[_Line] = Counter()
        self._total = self._done = 0
        self._pending: dict[_Line, list[tuple[ObjectRef, str]]] = {}
        self._due: dict[_Line, float] = {}
        self._waits: dict[ObjectRef, tuple[float, _Line, str]] = {}
        """By object: since when it waits, its line, and why; the oldest first."""
        self._begun = self._said = time.monotonic()
        self._ended = threading.Event()
        self._live: Live | None = None
        threading.Thread(target=self._beat, name="etcompile-progress", daemon=True).start()

    def begin(self, plan: Plan) -> None:
        acting = [step for step in plan.steps if step.action not in IDLE]
        each = {(family(s.ref), action, s.ref) for s in acting for action in (s.action, "wait")}
        self._sizes.update((kind, action) for kind, action, _ in each)
        if self._quiet:
            return
        self._write(f"{side(plan)}: {summary(plan)}")
        self._total = sum(step.action != "wait" for step in acting)
        # A terminal may have another encoding, and none of the controls that a live line needs.
        if self._stream.isatty() and isinstance(self._stream, TextIOWrapper):
            self._stream.reconfigure(errors="replace")
            from rich.console import Console
            from rich.live import Live

            console = Console(file=self._stream, no_color=not self._color, highlight=False)
            if not console.is_dumb_terminal:
                live = Live(console=console, auto_refresh=False, transient=True)
                live.start()
                console.show_cursor()  # a second signal ends the process at once
                self._live = live

    def tell(self, event: StepEvent) -> None:
        """Record a change of state, for a line such as `Pod ml/w-0 … 9 (10 Pods)  ready`."""
        if self._quiet and event.status != "failed":
            return
        ref, state = event.ref, (family(event.ref), event.action, event.status)
        with self._lock:
            if event.status != "deleted" or event.action == "delete":
                self._done += event.status in _PARTICIPLES.values()
            pattern = _pattern(ref, event.reason) if event.reason else ""
            since, *_ = self._waits.get(ref, (time.monotonic(),))
            if event.status in _UNDER_WAY:
                self._waits[ref] = since, (state[0], pattern), event.reason
            else:
                self._waits.pop(ref, None)
            size = self._sizes[state[:2]]
            soon = event.status in (*_UNDER_WAY, "failed") or not size
            line = (*state, pattern)
            self._add(line, ref, event.reason, _SOON if soon else _BEAT)
            self._reached[state] += 1
            if size and self._reached[state] >= size:
                self._reached[state] = 0
                self._flush([line for line in self._pending if line[:3] == state])

    def repeat(self, notice: str) -> None:
        if not self._quiet:
            problem = notice.partition(": ")[2].rpartition(", trying again")[0]
            with self._lock:
                self._add((problem,), ObjectRef("", "", "", ""), notice, _SOON)

    def _add(self, line: _Line, ref: ObjectRef, reason: str, patience: float) -> None:
        self._pending.setdefault(line, []).append((ref, reason))
        self._due.setdefault(line, time.monotonic() + patience)

    def _flush(self, lines: Iterable[_Line]) -> None:
        for line in lines:
            self._due[line] = time.monotonic() + _BEAT
            group = self._pending.pop(line)
            if len(line) == 1:
                words = f"{line[0]}: {len(group)} requests are sent again, the last: "
                words = f"{words if len(group) > 1 else ''}{group[-1][1]}"
                self._write(self._painted(words, "33"))
            else:
                status = self._painted(f"{line[2]}", _COLOURS.get(f"{line[2]}", ""))
                self._write(_words(group, f"  {status}"))

    def _beat(self) -> None:
        while not self._ended.wait(_TICK):
            self.show(time.monotonic())

    def show(self, now: float) -> None:
        """Write the lines that are due at a time of the monotonic clock."""
        with self._lock, contextlib.suppress(OSError):
            self._flush([line for line in self._pending if now >= self._due[line]])
            if self._live is not None:
                from rich.text import Text

                words = Text(self._waiting(now), "dim", no_wrap=True, overflow="ellipsis")
                self._live.update(words, refresh=True)
            elif self._total and now - self._said >= _BEAT:
                self._write(self._waiting(now))

    def _waiting(self, now: float) -> str:
        done = f"{self._done:,} of {self._total:,} done"
        for since, first, _ in self._waits.values():
            same = [(ref, why) for ref, (_, line, why) in self._waits.items() if line == first]
            return f"{done}, waiting {timedelta(0, round(now - since))} for {_words(same)}"
        return f"{done} after {timedelta(0, round(now - self._begun))}"

    def end(self, outcome: Outcome) -> None:
        self.conclude()
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

    def conclude(self, *_: object) -> None:
        self._ended.set()
        with self._lock, contextlib.suppress(OSError):
            self._flush([*self._pending])
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _list(self, title: str, objects: Iterable[tuple[ObjectRef, str, str, str]]) -> None:
        """List objects by reason, each different reason once.

        Args:
            objects: Each with the text before and after it, and the reason.
        """
        groups: dict[tuple[str, str, str], list[tuple[ObjectRef, str]]] = {}
        for ref, before, after, reason in objects:
            groups.setdefault((before, after, _pattern(ref, reason)), []).append((ref, reason))
        if groups:
            self._write(self._painted(f"{title}:", "1"))
        for (before, after, _), group in groups.items():
            self._write(self._painted(f"  {before}{_words(group, after)}", ""))

    def _painted(self, words: str, style: str) -> str:
        return painted(shown(words, keep="\n\t"), style, color=self._color)

    def _write(self, line: str) -> None:
        with self._lock, contextlib.suppress(OSError):
            self._said = time.monotonic()
            if self._live is not None:
                from rich.text import Text

                self._live.console.print(Text.from_ansi(line), soft_wrap=True)
                return
            # As bytes: terminals of other encodings get the same as a file.
            self._stream.buffer.write(f"{line}\n".encode(errors="replace"))
            self._stream.flush()


def _pattern(ref: ObjectRef, reason: str) -> str:
    """Remove the name of the object and the counts of a quota from a reason."""
    return _USED.sub("used: *", reason.replace(ref.name, "*"))


def _words(group: Sequence[tuple[ObjectRef, str]], status: str = "") -> str:
    refs = dict.fromkeys(ref for ref, _ in group)
    (ref, reason), *_ = group
    reason = shown(reason.replace(ref.name, "*") if len(refs) > 1 else reason)
    return f"{listed(refs)}{status}" + (f": {reason}" if reason else "")
