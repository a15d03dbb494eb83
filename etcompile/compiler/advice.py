"""Advice about jobs, where somebody asks for it.

A stage of its own, as no output depends on it: `render` never comes here.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from etcompile.compiler.options import Options
from etcompile.diagnostics import Diagnostic
from etcompile.load import Document
from etcompile.model import Job, Settings

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
        found = lint.problems(lint.linted_job(job, settings, objects, neighbours), selected)
        return [_in_files_of_the_user(problem, job) for problem in found]

    return problems


def _in_files_of_the_user(problem: Diagnostic, job: Job) -> Diagnostic:
    """The problem; one of a runtime that Trainer ships is told where the job names that."""
    from etcompile.compiler.runtimes import SHIPPED_FILE  # noqa: PLC0415 - few jobs have a runtime

    if problem.location is None or problem.location.file != SHIPPED_FILE:
        return problem
    place = job.origin.locate("spec", "runtimeRef", "name")
    return structs.replace(problem, location=place)


def unheard(options: Options) -> frozenset[str]:
    """The codes of advice that a run does not ask for: nobody can tell what they would say."""
    from etcompile.diagnostics.selection import unheard as left_out  # noqa: PLC0415 - few runs need it
    from etcompile.diagnostics.suppression import codes_of  # noqa: PLC0415

    return left_out(linted=options.lint, selected=codes_of(options.select))
