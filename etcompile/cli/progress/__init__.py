"""How a rollout shows itself: a table on a terminal, lines elsewhere, events for programs.

One form a module, behind one small protocol, so that a rollout knows none of them.
"""

import sys
from collections.abc import Sequence
from typing import Protocol

from etcompile.diagnostics import Diagnostic
from etcompile.kubeapi import Repeat
from etcompile.plan.step import Plan
from etcompile.rollout import Outcome, StepEvent


class Progress(Protocol):
    """What shows a rollout."""

    def begin(self, plan: Plan) -> None:
        """The plan is about to be done."""

    def tell(self, event: StepEvent) -> None:
        """An object has changed its state."""

    def repeat(self, repeat: Repeat) -> None:
        """A request is sent again; told from any thread."""

    def end(self, outcome: Outcome) -> None:
        """It is over: says what is not as it should be, always."""

    def conclude(self, code: int, diagnostics: Sequence[Diagnostic]) -> None:
        """The command ends: says so for programs, unless `end` did."""


def progress(output: str, *, quiet: bool, color: bool) -> Progress:
    """The form for this output.

    Args:
        output: `text` or `json`.
        quiet: Say only what is wrong.
        color: Use colour, where the form has any.
    """
    if output == "json":
        from etcompile.cli.progress.events import Events

        return Events(sys.stdout)
    from etcompile.cli.progress.lines import Lines

    lines = Lines(sys.stdout, quiet=quiet, color=color)
    if quiet or not sys.stdout.isatty():
        return lines
    from etcompile.cli.progress.table import Table

    return Table(lines)
