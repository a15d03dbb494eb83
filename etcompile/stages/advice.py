"""Advice about jobs, where somebody asks for it.

A stage of its own, as no output depends on it: `render` never comes here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic
from etcompile.load import Document
from etcompile.model import Job, Settings
from etcompile.options import Options

Advice = Callable[[Job, Settings, Sequence[Mapping[str, Any]]], list[Diagnostic]]
"""What is to be said of a job, of how it is compiled, and of what it is compiled to."""


def advice(options: Options, neighbours: Sequence[Document]) -> Advice:
    """The advice that a run asks for.

    Args:
        options: How to compile.
        neighbours: The other objects of the input.
    """
    from etcompile import lint  # noqa: PLC0415 - only check asks
    from etcompile.diagnostics.suppression import codes_of  # noqa: PLC0415

    selected = frozenset(codes_of(options.select))

    def problems(
        job: Job, settings: Settings, objects: Sequence[Mapping[str, Any]]
    ) -> list[Diagnostic]:
        return lint.problems(lint.linted_job(job, settings, objects, neighbours), selected)

    return problems


def unheard(options: Options) -> frozenset[str]:
    """The codes of advice that a run does not ask for: nobody can tell what they would say."""
    from etcompile.diagnostics.selection import unheard as left_out  # noqa: PLC0415 - few runs need it
    from etcompile.diagnostics.suppression import codes_of  # noqa: PLC0415

    return left_out(linted=options.lint, selected=codes_of(options.select))
