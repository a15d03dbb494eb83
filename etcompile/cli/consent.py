"""Asks whoever sits at a terminal before objects are deleted; scripts say yes with an option."""

import sys
from collections.abc import Callable
from typing import Any

import click

from etcompile.plan.show.alike import MARKS, destroyed, toll
from etcompile.plan.step import Plan

_LISTED = 20
"""Lines of objects that a question lists."""


def consent_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds `--yes`."""
    return click.option(
        "-y", "--yes", is_flag=True, help="Do not ask before objects are deleted or replaced."
    )(command)


def consents(plan: Plan, *, yes: bool) -> bool:
    """Whether a plan may delete what it deletes.

    On a terminal the objects are listed and somebody answers. Elsewhere nobody can answer, and
    the options that the plan needed for its deletions have asked for them already.

    Args:
        plan: The plan, without refusals.
        yes: The answer is known.
    """
    groups = destroyed(plan)
    if not groups or yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    click.echo(f"{toll(plan)}:", err=True)
    for group in groups[:_LISTED]:
        reason = f" ({', '.join(group.reasons)})" if group.reasons else ""
        click.echo(f"  {MARKS[group.first.action]:>3} {group.title}{reason}", err=True)
    if len(groups) > _LISTED:
        click.echo(f"  … and {len(groups) - _LISTED} more", err=True)
    try:
        return click.confirm("Continue?", default=False, err=True)
    except click.Abort:
        click.echo(err=True)
        return False
