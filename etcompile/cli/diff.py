"""Compare jobs with a cluster, a folder or a Git revision (`etcompile diff`)."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from msgspec import structs

from etcompile.cli.command_line import option, subcommand
from etcompile.cli.configured import CompilingCommand, job_set
from etcompile.cli.options import (
    SET_NAME,
    CapacityOptions,
    CompileOptions,
    Connection,
    RightsOptions,
    compiler_options,
)
from etcompile.cli.reporting import colored, compiled, refuses, report, write
from etcompile.diagnostics import Diagnostic, RefusedError
from etcompile.exitcodes import DIFFERENT, REFUSED
from etcompile.load.revision import RevisionError
from etcompile.plan.step import Plan

if TYPE_CHECKING:
    from etcompile.compiler import Compilation, Options


class _Options(CompileOptions, frozen=True, kw_only=True):
    against: str = option(
        default="cluster",
        metavar="cluster|DIR|REV",
        help="What to compare with: the cluster, a folder of manifests or job files, or a Git"
        " revision, at which the same PATHs are compiled with the same options. REV:DIR is a"
        " folder of a revision.",
    )
    plan_file: Path | None = option(
        "--plan",
        metavar="plan.json",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Also write the plan as JSON, for etcompile apply.",
    )
    output: Literal["text", "json", "markdown", "html"] = option(
        "-o",
        default="text",
        help="Format of the differences: for a terminal, for scripts, for a comment on a pull"
        " request (at most 60 kB), or a page to open in a browser.",
    )
    connection: Connection
    capacity: CapacityOptions
    rights: RightsOptions
    set_name: str | None = SET_NAME
    exit_zero: bool = option(help="Exit with 0 even if there are differences.")


@subcommand("diff", _Options, cls=CompilingCommand, flags=("capacity", "run"))
def command(ctx: click.Context, options: _Options) -> None:
    """Show what apply would do, in order, and which fields would change.

    PATH is as for render. What apply would refuse is reported as well, except for missing rights.
    Exit codes: 0 no differences, 1 differences, or apply would refuse something, 2 an error.
    Nothing is written to the cluster. Values of Secrets are never shown.
    """
    chosen = compiler_options(options)
    # Both sides have the same encrypted key pairs: those of a folder, or none at a revision.
    if options.against != "cluster" and Path(options.against).is_dir():
        chosen = structs.replace(chosen, previous=Path(options.against))
    elif options.against != "cluster":
        chosen = structs.replace(chosen, without_keys=":" not in options.against)
    compilation = compiled(options.paths, chosen, options)
    if refuses(compilation.diagnostics, options):
        raise RefusedError(compilation.findings)
    try:
        plan, problems, refused = _compared(compilation, chosen, options)
    except RefusedError as error:
        raise RefusedError((*compilation.findings, *error.diagnostics)) from error
    report((*compilation.findings, *problems), options)
    if refuses(problems, options):
        ctx.exit(REFUSED)
    if options.plan_file is not None:
        from etcompile.emit.files import write_file

        if failures := write_file(options.plan_file, _json(plan).encode()):
            raise click.BadParameter(failures[0].message, param_hint="--plan")
    color = colored(options.color, sys.stdout)
    write(*_texts(plan, options.output, color=color), errors="replace")
    if options.output == "markdown" and (options.capacity.capacity or options.capacity.prices):
        from etcompile.cli.capacity import capacity_of
        from etcompile.operations.cluster_capacity import capacity_markdown

        write(capacity_markdown(*capacity_of(compilation, options.capacity)))
    report(refused, options)
    differs = plan.differs or refused
    ctx.exit(DIFFERENT if differs and not options.exit_zero else 0)


def _compared(
    compilation: "Compilation", chosen: "Options", options: _Options
) -> tuple[Plan, list[Diagnostic], tuple[Diagnostic, ...]]:
    """Return the plan against `--against`, its diagnostics, and apply's refusals."""
    rights, targets = options.rights.rights(), options.rights.targets
    if options.against == "cluster":
        from etcompile.operations.cluster_plan import apply_proposal
        from etcompile.operations.execution import objections, warned

        with options.connection.connect(options.namespace) as cluster:
            jobs = job_set(options.paths, options.set_name, prune=options.rights.prune)
            live = apply_proposal(compilation, cluster, rights, job_set=jobs, targets=targets)
            refused = objections(cluster, live)
            return live.plan, [*live.diagnostics, *warned(cluster)], refused
    from etcompile.operations.declarations import compared

    against, paths = options.against, options.paths
    try:
        return compared(compilation, against, paths, chosen, rights.ignored, targets), [], ()
    except RevisionError as error:
        problem = f"{error}; it takes cluster, a folder, a revision, or REVISION:FOLDER"
        raise click.BadParameter(problem, param_hint="--against") from error


def _texts(plan: Plan, output: str, *, color: bool) -> Iterator[str]:
    from etcompile import emit
    from etcompile.plan.presentation import markdown, page, text

    if output == "json":
        yield _json(plan)
    elif output == "markdown":
        yield markdown(plan, emit.to_yaml)
    elif output == "html":
        yield page(plan, emit.to_yaml)
    else:
        yield from (f"{line}\n" for line in text(plan, emit.to_yaml, color=color))


def _json(plan: Plan) -> str:
    from etcompile.plan.plan_file import plan_value

    return json.dumps(plan_value(plan), indent=2, ensure_ascii=False) + "\n"
