"""Share what commands that change a cluster need: questions, signals, and exit codes."""

import gc
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from etcompile import emit
from etcompile.cli.options import ChangeOptions
from etcompile.cli.reporting import Reporting, colored, notices, report, write
from etcompile.diagnostics import Diagnostic, RefusedError
from etcompile.exitcodes import INTERNAL, INTERRUPTED, REFUSED
from etcompile.plan.groups import STYLES, destroyed, toll
from etcompile.plan.step import Plan

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster
    from etcompile.operations.execution import Result
    from etcompile.rollout.executor import Rollout
    from etcompile.rollout.machine.messages import Proposal

_LISTED = 20  # lines of objects in a question
Wait = Literal["ready", "complete", "none"]


class Session:
    """A command that changes a cluster, from its start to its exit code."""

    def __init__(
        self, ctx: click.Context, reporting: Reporting, rollout: ChangeOptions, concurrency: int
    ) -> None:
        from etcompile.cli.progress import Events, Lines

        signal.signal(signal.SIGTERM, signal.default_int_handler)
        self._color = colored(reporting.color, sys.stdout)
        lines = Lines(sys.stdout, quiet=reporting.quiet, color=self._color)
        self.shown = Events(sys.stdout) if rollout.output == "json" else lines
        self.unreported: tuple[Diagnostic, ...] = ()
        """Diagnostics to report at the end."""
        self._ctx = ctx
        self._reporting = reporting
        self._concurrency = concurrency
        self._rollout = rollout

    def leave(self, code: int, diagnostics: Sequence[Diagnostic]) -> NoReturn:
        reported = (*self.unreported, *diagnostics)
        self.shown.conclude(code, reported)
        report(reported, self._reporting)
        self._ctx.exit(code)

    @contextmanager
    def concluded(self) -> Iterator[None]:
        """End the command with a last event for programs, however it ends."""
        try:
            yield
        except RefusedError as error:
            self.leave(error.code, error.diagnostics)
        except click.exceptions.Exit:
            raise
        except BaseException as error:
            code = REFUSED if isinstance(error, OSError) else INTERNAL
            code = INTERRUPTED if isinstance(error, KeyboardInterrupt) else code
            self.shown.conclude(getattr(error, "exit_code", code), ())
            raise

    def carry_out(
        self,
        cluster: "Cluster",
        proposal: "Proposal",
        wait: Wait,
        timeout: float | None,
        drain: float | None = None,
    ) -> "Result":
        """Show the proposal, or ask whether to carry it out, and do so.

        Args:
            timeout: Seconds; 0 for no limit, None for the default of `--timeout`.
            drain: Seconds between removing a worker from the host list and deleting its Pod.
        """
        from etcompile.operations.execution import Result, execute, refused
        from etcompile.rollout.machine.messages import Choices

        plan, dry_run = proposal.full_plan, self._rollout.dry_run
        if timeout is None and wait != "complete":
            timeout = 900.0
        if dry_run:
            if self._rollout.output == "json":
                from etcompile.plan.plan_file import plan_value

                value = plan_value(plan, with_manifests=False)
                write(f"{json.dumps(value, ensure_ascii=False)}\n", errors="replace")
            else:
                from etcompile.plan.presentation import text

                lines = text(plan, emit.to_yaml, color=self._color)
                write("".join(f"{line}\n" for line in lines), errors="replace")
        if (result := refused(proposal)) is None and dry_run == "client":
            result = Result(0)
        if result is None and not dry_run and not consents(plan, cluster, yes=self._rollout.yes):
            click.echo("nothing was changed", err=True)
            result = Result(INTERRUPTED)
        if result is not None:
            return result
        # A rollout may take days and must not grow; what exists before it stays.
        gc.freeze()
        gc.enable()
        result = execute(
            cluster,
            proposal,
            Choices(wait, timeout or None, drain, self._concurrency),
            dry_run=dry_run == "server",
            begin=self.shown.begin,
            tell=self.shown.tell,
            end=self.shown.end,
            during=_signals,
        )
        left = [step for step in plan.steps if step.action == "unmanaged"]
        could = [step for step in left if any(remedy.option == "prune" for remedy in step.remedies)]
        if could and notices(self._reporting) and self._rollout.output == "text":
            count = f"{len(could)} object{'s are' if len(could) > 1 else ' is'}"
            click.echo(f"{count} no longer in the files, and kept: --prune deletes them", err=True)
        return result


def consents(plan: Plan, cluster: "Cluster", *, yes: bool) -> bool:
    """Return whether a plan without refusals may delete what it deletes.

    On a terminal the user is asked. Elsewhere nobody can answer; the command line already has the
    options that the plan needs for its deletions.
    """
    groups = destroyed(plan)
    if not groups or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    context = f"context {cluster.context}, " if cluster.context else ""
    click.echo(f"{toll(plan)} ({context}server {cluster.server}):", err=True)
    for group in groups[:_LISTED]:
        reason = f" ({', '.join(group.first.reasons)})" if group.first.reasons else ""
        click.echo(f"  {STYLES[group.first.action].mark:>3} {group.title}{reason}", err=True)
    if len(groups) > _LISTED:
        click.echo(f"  … and {len(groups) - _LISTED} more", err=True)
    try:
        return click.confirm("Continue?", default=False, err=True)
    except click.Abort:
        click.echo(err=True)
        return False


@contextmanager
def _signals(rollout: "Rollout") -> Iterator[None]:
    """Let SIGINT and SIGTERM end the rollout in order; a second one ends the process."""
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if received:
            os._exit(INTERRUPTED)
        received.append(number)
        rollout.interrupt()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
