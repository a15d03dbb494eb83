"""Compare jobs with a cluster, a folder or a Git revision (`etcompile diff`)."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import (
    PATHS,
    Connection,
    RightsOptions,
    chooses_output,
    compiles,
    connects,
    job_set,
    takes_rights,
)
from etcompile.cli.reporting import Reporting, colored, compiled, refuses, report, write
from etcompile.diagnostics import Diagnostic, RefusedError
from etcompile.exitcodes import DIFFERENT, REFUSED
from etcompile.load.revision import RevisionError
from etcompile.plan.step import Plan

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured


@click.command("diff", cls=CompilingCommand, context_settings=HELP)
@PATHS
@compiles("namespace", "overlay", "run", "quiet", "capacity")
@click.option(
    "--against",
    default="cluster",
    show_default=True,
    metavar="cluster|DIR|REV",
    help="What to compare with: the cluster, a folder of manifests or job files, or a Git revision,"
    " at which the same PATHs are compiled with the same options. REV:DIR is a folder of a"
    " revision.",
)
@click.option(
    "--plan",
    "plan_file",
    metavar="plan.json",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write the plan as JSON, for etcompile apply.",
)
@chooses_output(
    "Format of the differences: for a terminal, for scripts, for a comment on a pull request"
    " (at most 60 kB), or a page to open in a browser.",
    *("text", "json", "markdown", "html"),
)
@connects
@takes_rights
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are differences.")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    configured: "Configured",
    reporting: Reporting,
    against: str,
    plan_file: Path | None,
    output: str,
    connection: Connection,
    rights: RightsOptions,
    exit_zero: bool,
) -> None:
    """Show what apply would do, in order, and which fields would change.

    PATH is as for render. What apply would refuse is reported as well, except for missing rights.
    Exit codes: 0 no differences, 1 differences, or apply would refuse something, 2 an error.
    Nothing is written to the cluster. Values of Secrets are never shown.
    """
    chosen, in_cluster = configured.options, against == "cluster"
    # Both sides have the same encrypted key pairs: those of a folder, or none at a revision.
    if not in_cluster and Path(against).is_dir():
        chosen = structs.replace(chosen, previous=Path(against))
    elif not in_cluster:
        chosen = structs.replace(chosen, without_keys=":" not in against)
    compilation = compiled(paths, chosen, reporting)
    if refuses(compilation.diagnostics, reporting):
        raise RefusedError(compilation.findings)
    allowed, targets = rights.rights(configured), rights.targets
    problems: Sequence[Diagnostic] = ()
    refused: Sequence[Diagnostic] = ()
    try:
        if in_cluster:
            from etcompile.operations.cluster_plan import apply_proposal
            from etcompile.operations.execution import objections, warned

            with connection.connect(configured.values["namespace"]) as cluster:
                jobs = job_set(configured, paths, prune=rights.prune)
                live = apply_proposal(compilation, cluster, allowed, job_set=jobs, targets=targets)
                refused = objections(cluster, live)
                plan, problems = live.plan, [*live.diagnostics, *warned(cluster)]
        else:
            from etcompile.operations.declarations import compared

            plan = compared(compilation, against, paths, chosen, allowed.ignored, targets)
    except RevisionError as error:
        problem = f"{error}; it takes cluster, a folder, a revision, or REVISION:FOLDER"
        raise click.BadParameter(problem, param_hint="--against") from error
    except RefusedError as error:
        raise RefusedError((*compilation.findings, *error.diagnostics)) from error
    report((*compilation.findings, *problems), reporting)
    if refuses(problems, reporting):
        ctx.exit(REFUSED)
    if plan_file is not None:
        from etcompile.emit.files import write_file

        if failures := write_file(plan_file, _json(plan).encode()):
            raise click.BadParameter(failures[0].message, param_hint="--plan")
    color = colored(reporting.color, sys.stdout)
    write(*_texts(plan, output, color=color), errors="replace")
    if output == "markdown" and (configured.values["capacity"] or configured.values["price"]):
        from etcompile.cli.capacity import capacity_of
        from etcompile.operations.cluster_capacity import capacity_markdown

        write(capacity_markdown(*capacity_of(compilation, configured)))
    report(refused, reporting)
    differs = plan.differs or refused
    ctx.exit(DIFFERENT if differs and not exit_zero else 0)


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
