"""Change the number of workers of a job in the source tree (`etcompile scale`)."""

from typing import TYPE_CHECKING, Literal

import click

from etcompile.cli.command_line import option, subcommand
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import JOB, OPTIONAL_PATHS, CompileOptions, compiler_options
from etcompile.cli.reporting import notices, refuses, report, write
from etcompile.exitcodes import REFUSED
from etcompile.naming import some

if TYPE_CHECKING:
    from etcompile.scaling import Way


class _Options(CompileOptions, frozen=True, kw_only=True):
    job: str = JOB
    paths: tuple[str, ...] = OPTIONAL_PATHS
    to: int | None = option(
        *("--to", "--replicas"),
        metavar="N",
        type=click.IntRange(min=0),
        help="Scale to this number of workers.",
    )
    add: int | None = option(
        metavar="N", type=click.IntRange(min=1), help="Add this number of workers."
    )
    remove: int | None = option(
        metavar="N",
        type=click.IntRange(min=1),
        help="Remove this number of workers, highest index first.",
    )
    pods: str | None = option(metavar="A,B", help="Remove these workers.")
    kind: str | None = option(
        metavar="KIND", help="Kind of the job, if jobs of several kinds have this name."
    )
    in_place: bool | None = option(
        "--in-place/--no-in-place",
        help="Change only the number in the job's own file, or add a file.  [default: in place, if"
        " the kind is elastic and nothing else sets the number]",
    )
    dry_run: Literal["client"] | None = option(
        metavar="[=client]", help="Print the file instead of writing it."
    )


@subcommand("scale", _Options, cls=CompilingCommand, flags=("ignore", "strict"))
def command(ctx: click.Context, options: _Options) -> None:
    """Change the number of workers of a job: in its file, or by a ScaleOut or ScaleIn beside it.

    scale looks for JOB in the PATHs, by default in this folder. If the kind is elastic, it changes
    the number in the job's file. For a TrainingJob or ElasticJob, with --pods, if an overlay sets
    the number, and if the job has scale intents already, it adds a file with one more intent,
    which is applied last.
    Nothing is written if render would refuse the result.
    """
    from etcompile.emit.files import outside, write_file
    from etcompile.scaling import scaled

    way, value = _request(options)
    paths = options.paths or (".",)
    change, problems = scaled(
        options.job,
        paths,
        way,
        value,
        compiler_options(options),
        kind=options.kind,
        in_place=options.in_place,
    )
    if change is None or refuses(problems, options):
        report(problems, options)
        if notices(options):
            click.echo("nothing was written", err=True)
        ctx.exit(REFUSED)
    if options.dry_run:
        write(change.text)
    elif change.path is not None:
        content, only_new = change.text.encode(), not change.replaces
        problems += outside(change.path, paths) or write_file(
            change.path, content, only_new=only_new
        )
    report(problems, options)
    if refuses(problems, options):
        ctx.exit(REFUSED)
    if notices(options):
        lines = [f"{change.job}: already has {change.before} workers: nothing to do"]
        if change.path is not None:
            verb = "would write" if options.dry_run else "wrote"
            lines = [f"{verb} {change.path}: {change.title}"]
            lines += [f"{change.job}: {change.before} -> {change.after} workers"]
            moves = (("+", change.come), ("-", change.go))
            lines += [f"  {sign} {some(pods)}" for sign, pods in moves if pods]
        click.echo("\n".join(lines), err=True)


def _request(options: _Options) -> "tuple[Way, int | str]":
    """Return the option that sets the number of workers, and its value.

    Raises:
        click.UsageError: the options contradict each other.
    """
    ways: dict[Way, int | str | None] = {
        "to": options.to,
        "add": options.add,
        "remove": options.remove,
        "pods": options.pods,
    }
    if options.kind and "/" in options.job:
        raise click.UsageError(f"{options.job} names the kind already: leave out --kind")
    named = [(way, value) for way, value in ways.items() if value is not None]
    if len(named) != 1:
        raise click.UsageError("say one of --to N, --add N, --remove N and --pods A,B")
    if options.pods is not None and not options.pods.strip(", "):
        raise click.BadParameter("names no Pod", param_hint="--pods")
    if "-" in options.paths:
        raise click.UsageError("a file is written beside the job: name its folder, not -")
    if options.in_place and options.pods is not None:
        raise click.UsageError("--in-place changes a number, and --pods names Pods: use --remove N")
    return named[0]
