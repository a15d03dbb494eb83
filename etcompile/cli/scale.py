"""`etcompile scale`: changes the number of workers of a job in the source tree."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource
from msgspec import structs

from etcompile import frontends
from etcompile.cli import completion
from etcompile.cli.command_line import long_name, option, refuse_without, subcommand
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import (
    JOB,
    OPTIONAL_PATHS,
    CompileOptions,
    Connection,
    compiler_options,
)
from etcompile.cli.reporting import notices, refuses, report, write
from etcompile.exitcodes import REFUSED

if TYPE_CHECKING:
    from etcompile.scaling import Proposal
    from etcompile.scaling.intents import Request

_NAMES = 4
"""So many of the Pods that come or go are named."""


class _Connection(Connection, frozen=True, kw_only=True):
    """Which cluster `--apply` changes."""

    context: str | None = option(
        metavar="NAME",
        shell_complete=completion.contexts,
        help="With --apply: context of the kubeconfig.",
    )
    kubeconfig: Path | None = option(
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="With --apply: path of the kubeconfig.",
    )


class ScaleOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile scale`."""

    job: str = JOB
    paths: tuple[str, ...] = OPTIONAL_PATHS
    to: int | None = option(
        metavar="N", type=click.IntRange(min=0), help="Scale to this number of workers."
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
    applies: bool = option("--apply", help="Apply the job afterwards, as etcompile apply does.")
    connection: _Connection
    wait: str | None = option(metavar="WHAT", help="With --apply: as for apply.")
    timeout: str | None = option(metavar="T", help="With --apply: as for apply.")
    drain: str | None = option(metavar="T", help="With --apply: as for apply.")
    set_name: str | None = option("--set", metavar="NAME", help="With --apply: as for apply.")

    def ways(self) -> dict[str, int | str]:
        """The options that say how many workers there are to be."""
        ways = {"to": self.to, "add": self.add, "remove": self.remove, "pods": self.pods}
        return {name: value for name, value in ways.items() if value is not None}


@subcommand("scale", ScaleOptions, cls=CompilingCommand, flags=("ignore", "strict"))
def command(ctx: click.Context, options: ScaleOptions) -> None:
    """Change the number of workers of a job: in its file, or by a ScaleOut or ScaleIn beside it.

    scale looks for JOB in the PATHs, by default in this folder. If the kind is elastic, it changes
    the number in the job's file. For a TrainingJob or ElasticJob, with --pods or --overlay, and if
    the job has scale intents already, it adds a file with one more intent, which is applied last.
    Nothing is written if render would refuse the result.
    """
    from etcompile.scaling import chosen, in_place, proposal, written

    request = _request(options)
    job, paths = options.job, options.paths or (".",)
    compiling = compiler_options(options)
    selected, problems = chosen(job, paths, compiling, options.kind)
    change = None
    if selected is not None:
        ((way, value),) = options.ways().items()
        said = f"etcompile scale {shlex.quote(job)} --{way} {shlex.quote(str(value))}"
        change, problems = proposal(selected, request, compiling, said=said)
        changes_number = options.in_place
        if changes_number is None:
            # Unless asked, only where the number alone counts, and not of a kind whose operator
            # scales by documents of their own.
            kind = frontends.find(selected.job.api_version, selected.job.kind)
            scalers = kind.operator.scalers if kind and kind.operator else ()
            others = options.pods or options.overlays or scalers
            changes_number = not others and len(selected.documents) == 1
        if change is not None and changes_number:
            edited, more = in_place(selected, change)
            if options.in_place or edited is not None:
                change, problems = edited, [*problems, *more]
    if change is None or refuses(problems, options):
        report(problems, options)
        if notices(options):
            click.echo("nothing was written", err=True)
        ctx.exit(REFUSED)
    # Before anything is written: its options may be wrong.
    rollout = _rollout(ctx, change) if options.applies else None
    if options.dry_run:
        write(change.text)
    else:
        problems += written(change, paths)
    report(problems, options)
    if refuses(problems, options):
        ctx.exit(REFUSED)
    if notices(options):
        for line in _summary(job, change, dry_run=options.dry_run is not None):
            click.echo(line, err=True)
    if rollout is not None:
        with rollout:
            if change.go and selected is not None:
                why = f"{len(change.go)} of its workers are about to go"
                _ask_for_checkpoint(options, options.namespace or selected.job.namespace, why)
            rollout.command.invoke(rollout)


def _ask_for_checkpoint(options: ScaleOptions, namespace: str | None, why: str) -> None:
    """Asks for a checkpoint before workers go, if the job that runs names a signal for that.

    Whatever stands in the way of it does not stand in the way of the rollout, which says itself
    what is wrong with the cluster.
    """
    from etcompile.cli.checkpoint import outcome
    from etcompile.kubeapi import ClusterError
    from etcompile.operations import ImpossibleError, request_checkpoint
    from etcompile.status import NoSuchJobError

    try:
        with options.connection.connect(namespace) as cluster:
            request = request_checkpoint(cluster, options.job, why=why)
    except (ClusterError, ImpossibleError, NoSuchJobError):
        return
    if notices(options):
        for line in outcome(request):
            click.echo(line, err=True)


def _request(options: ScaleOptions) -> "Request":
    """How many workers there are to be; a usage error if the options contradict each other."""
    from etcompile.scaling.intents import Request

    ways = [*options.ways()]
    if len(ways) != 1:
        raise click.UsageError("say one of --to N, --add N, --remove N and --pods A,B")
    pods = tuple(name.strip() for name in (options.pods or "").split(",") if name.strip())
    if ways == ["pods"] and not pods:
        raise click.BadParameter("names no Pod", param_hint="--pods")
    if "-" in options.paths:
        raise click.UsageError("a file is written beside the job: name its folder, not -")
    if options.in_place and options.pods is not None:
        raise click.UsageError("--in-place changes a number, and --pods names Pods: use --remove N")
    if options.applies and options.dry_run:
        raise click.UsageError("--dry-run writes nothing: leave out --apply")
    if not options.applies:
        where = structs.asdict(options.connection)
        how = {"wait": options.wait, "timeout": options.timeout, "drain": options.drain}
        how["set"] = options.set_name
        refuse_without("--apply", **where, **how)
    return Request(to=options.to, add=options.add, remove=options.remove, pods=pods)


def _summary(job: str, change: "Proposal", *, dry_run: bool) -> "list[str]":
    if change.path is None:
        return [f"{job}: already has {change.before} workers: nothing to do"]
    verb = "would write" if dry_run else "wrote"
    lines = [
        f"{verb} {change.path}: {change.title}",
        f"{job}: {change.before} -> {change.after} workers",
    ]
    for sign, pods in (("+", change.come), ("-", change.go)):
        if pods:
            more = f" and {len(pods) - _NAMES} more" if len(pods) > _NAMES else ""
            lines.append(f"  {sign} {', '.join(pods[:_NAMES])}{more}")
    return lines


def _rollout(ctx: click.Context, change: "Proposal") -> click.Context:
    """`etcompile apply` of the job's files, with the same options."""
    new = [str(change.path)] if change.path and not change.replaces else []
    files = [*change.files, *new]
    from etcompile.cli.apply import command as target

    known = {param.name: param for param in target.params}
    # Without it a worker that the job no longer declares stays.
    words = ["--prune"] if change.go else []
    for param in ctx.command.params:
        name = param.name or ""
        own = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if name not in known or not own or not isinstance(param, click.Option):
            continue
        values = ctx.params[name] if param.multiple else (ctx.params[name],)
        if getattr(known[name], "hidden", False):
            value = "true" if param.is_flag else ",".join(map(str, values))
            words += ["--config", f"{long_name(param)}={value}"]
        elif param.is_flag:
            words.append(param.opts[-1])
        else:
            for value in values:
                words += [param.opts[-1], str(value)]
    return target.make_context("apply", [*words, "--", *files], parent=ctx.parent)
