"""A rollout as a table that follows it on a terminal: what is under way, and counts of the rest.

Failures scroll by above the table, so that they stay on the screen.
"""

import threading
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table as Grid
from rich.text import Text

from etcompile.cli.progress import Lines, in_order
from etcompile.diagnostics import Diagnostic
from etcompile.diagnostics.redaction import shown
from etcompile.kubeapi import Repeat
from etcompile.naming import shortened
from etcompile.plan.step import WRITES, ObjectRef, Plan
from etcompile.rollout import Outcome, StepEvent

_STYLES = {
    "waiting": "yellow",
    "running": "cyan",
    "deleting": "red",
    "failed": "bold red",
    "held": "yellow",
}
_OVER = frozenset({"ready", "succeeded", "released", "deleted"})
_FRAME = 5
_NAME = 30
_STATE = 8
_GAP = 2
_REASON = 8
_OTHERS = 40
"""Columns that a state, a time and the beginning of a reason need; a name has the rest."""


class Table:
    """Shows a table, and lines where a table would lose something."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._console = Console()
        self._lock = threading.Lock()
        self._rows: dict[ObjectRef, tuple[StepEvent, float]] = {}
        self._written: set[ObjectRef] = set()
        self._ready = 0
        self._to_write = 0
        self._note = ""
        self._live = Live(
            get_renderable=self._drawn,
            console=self._console,
            transient=True,
            refresh_per_second=8,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def begin(self, plan: Plan) -> None:
        """Shows an empty table."""
        self._lines.begin(plan)
        self._to_write = sum(step.action in WRITES for step in plan.steps)
        if any(step.action not in ("unchanged", "unmanaged") for step in plan.steps):
            self._live.start()

    def tell(self, event: StepEvent) -> None:
        """Changes a row."""
        with self._lock:
            known = self._rows.get(event.ref)
            since = known[1] if known else time.monotonic()
            if event.status in ("created", "updated", "adopted", "released", "deleted"):
                self._written.add(event.ref)
            if event.status in ("ready", "succeeded"):
                self._ready += 1
            if event.status in _OVER:
                self._rows.pop(event.ref, None)
            else:
                self._rows[event.ref] = (event, since)
        if event.status == "failed":
            self._console.print(Text.from_ansi(self._lines.line(event)), soft_wrap=True)
        if not self._live.is_started and event.status not in _OVER:
            self._live.start()

    def repeat(self, repeat: Repeat) -> None:
        """Shows below the table that a request is sent again."""
        with self._lock:
            self._note = str(repeat)

    def end(self, outcome: Outcome) -> None:
        """Removes the table, and says how the rollout ended."""
        self._live.stop()
        self._lines.end(outcome)

    def conclude(self, code: int, diagnostics: Sequence[Diagnostic]) -> None:
        """Says nothing: people read the diagnostics."""

    def _drawn(self) -> Group:
        with self._lock:
            rows = [row for row in self._rows.values() if row[0].status in _STYLES]
            rows.sort(key=lambda row: (row[0].status != "failed", in_order(row[0].ref)))
            written, ready, note = len(self._written), self._ready, self._note
        shown_rows = rows[: max(3, self._console.height - _FRAME)]
        longest = max(_NAME, self._console.width - _OTHERS)
        names = [shortened(str(event.ref), longest) for event, _ in shown_rows]
        grid = Grid(box=None, pad_edge=False, header_style="dim")
        for title, more in (
            ("OBJECT", {"no_wrap": True, "min_width": max(map(len, names), default=0)}),
            ("STATE", {"no_wrap": True, "min_width": _STATE}),
            ("FOR", {"justify": "right", "no_wrap": True}),
            ("WHY", {"no_wrap": True}),
        ):
            grid.add_column(title, **more)
        now = time.monotonic()
        ages = []
        for _, since in shown_rows:
            seconds = int(now - since)
            ages.append(f"{seconds // 60}m{seconds % 60:02}s" if seconds >= 60 else f"{seconds}s")
        # Where a table is too wide, rich removes whole columns; only reasons may be cut.
        widths = [max(map(len, column), default=0) for column in (names, ages)]
        left = max(_REASON, self._console.width - sum(widths) - _STATE - 3 * _GAP)
        for name, age, (event, _) in zip(names, ages, shown_rows, strict=True):
            style = _STYLES[event.status]
            reason = Text(shown(event.reason))
            reason.truncate(left, overflow="ellipsis")
            grid.add_row(Text(name), Text(event.status, style), Text(age), reason)
        parts: list[object] = [grid] if rows else []
        if hidden := len(rows) - len(shown_rows):
            parts.append(Text(f"and {hidden} more", "dim"))
        if self._to_write:
            counts = f"{written} of {self._to_write} written, {ready} ready"
            bar = ProgressBar(self._to_write, min(written, self._to_write), width=30)
            foot = Grid.grid(padding=(0, 1))
            foot.add_row(bar, Text(counts))
            parts.append(foot)
        if note:
            parts.append(Text(note, "dim", overflow="ellipsis", no_wrap=True))
        return Group(*parts)  # type: ignore[arg-type]
