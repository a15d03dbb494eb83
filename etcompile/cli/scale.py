"""Change the number of workers of a job in the source tree (`etcompile scale`)."""

from typing import TYPE_CHECKING, Any

import click

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import JOB, OPTIONAL_PATHS, compiles
from etcompile.cli.reporting import Reporting, notices, refuses, report, write
from etcompile.exitcodes import REFUSED
from etcompile.naming import some

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured
    from etcompile.scaling import Way


@click.command("scale", cls=CompilingCommand, context_settings=HELP)
@JOB
@OPTIONAL_PATHS
@compiles("namespace", "overlay", "strict", "ignore", "output-format", "quiet")
@click.option(
    *("--to", "--replicas"),
    "to",
    metavar="N",
    type=click.IntRange(min=0),
    help="Scale to this number of workers.",
)
@click.option("--add", metavar="N", type=click.IntRange(min=1), help="Add this number of workers.")
@click.option(
    "--remove",
    metavar="N",
    type=click.IntRange(min=1),
    help="Remove this number of workers, highest index first.",
)
@click.option("--pods", metavar="A,B", help="Remove these workers.")
@click.option(
    "--kind", metavar="KIND", help="Kind of the job, if jobs of several kinds have this name."
)
@click.option(
    "--in-place/--no-in-place",
    default=None,
    help="Change only the number in the job's own file, or add a file.  [default: in place, if the"
    " kind is elastic and nothing else sets the number]",
)
@click.option(
    "--dry-run",
    metavar="[=client]",
    type=click.Choice(["client"]),
    help="Print the file instead of writing it.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    job: str,
    paths: tuple[str, ...],
    configured: "Configured",
    reporting: Reporting,
    kind: str | None,
    in_place: bool | None,
    dry_run: str | None,
    **ways: Any,
) -> None:
    """Change the number of workers of a job: in its file, or by a ScaleOut or ScaleIn beside it.

    scale looks for JOB in the PATHs, by default in this folder. If the kind is elastic, it changes
    the number in the job's file. For a TrainingJob or ElasticJob, with --pods, if an overlay sets
    the number, and if the job has scale intents already, it adds a file with one more intent,
    which is applied last.
    Nothing is written if render would refuse the result.
    """
    from etcompile.emit.files import outside, write_file
    from etcompile.scaling import scaled

    if kind and "/" in job:
        raise click.UsageError(f"{job} names the kind already: leave out --kind")
    named = [(way, value) for way, value in ways.items() if value is not None]
    if len(named) != 1:
        raise click.UsageError("say one of --to N, --add N, --remove N and --pods A,B")
    way: Way = named[0][0]  # type: ignore[assignment]  # click has only these
    value = named[0][1]
    if isinstance(value, str) and not value.strip(", "):
        raise click.BadParameter("names no Pod", param_hint="--pods")
    if "-" in paths:
        raise click.UsageError("a file is written beside the job: name its folder, not -")
    if in_place and way == "pods":
        raise click.UsageError("--in-place changes a number, and --pods names Pods: use --remove N")
    paths = paths or (".",)
    compiling = configured.options
    change, problems = scaled(job, paths, way, value, compiling, kind=kind, in_place=in_place)
    if change is None or refuses(problems, reporting):
        report(problems, reporting)
        if notices(reporting):
            click.echo("nothing was written", err=True)
        ctx.exit(REFUSED)
    if dry_run:
        write(change.text)
    elif change.path is not None:
        content, only_new = change.text.encode(), not change.replaces
        problems += outside(change.path, paths) or write_file(
            change.path, content, only_new=only_new
        )
    report(problems, reporting)
    if refuses(problems, reporting):
        ctx.exit(REFUSED)
    if notices(reporting):
        lines = [f"{change.job}: already has {change.before} workers: nothing to do"]
        if change.path is not None:
            verb = "would write" if dry_run else "wrote"
            lines = [f"{verb} {change.path}: {change.title}"]
            lines += [f"{change.job}: {change.before} -> {change.after} workers"]
            moves = (("+", change.come), ("-", change.go))
            lines += [f"  {sign} {some(pods)}" for sign, pods in moves if pods]
        click.echo("\n".join(lines), err=True)
