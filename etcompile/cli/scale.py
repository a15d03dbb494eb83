"""`etcompile scale`: writes the scale intent that a wish needs into the source tree."""

import shlex
from typing import TYPE_CHECKING, Literal

import click
from click.core import ParameterSource
from msgspec import structs

from etcompile import frontends
from etcompile.cli import completing
from etcompile.cli.cluster_options import Connection, connection_options_of
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import (
    CompileOptions,
    file_setting_options,
    options,
    paths_argument,
    refuses,
    talks,
    tell,
    write,
)
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Choice
from etcompile.cli.usage import refuse_without
from etcompile.exitcodes import REFUSED

if TYPE_CHECKING:
    from etcompile.intents.wishes import Wish
    from etcompile.scaling import Proposal
    from etcompile.scaling.selection import Chosen

_NAMES = 4
"""So many of the Pods that come or go are named."""


class ScaleOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile scale`."""

    job: str
    to: int | None
    add: int | None
    remove: int | None
    pods: str | None
    kind: str | None
    in_place: bool | None
    dry_run: Literal["client"] | None
    applies: bool
    connection: Connection
    wait: str | None
    timeout: str | None
    drain: str | None
    set_name: str | None

    def ways(self) -> dict[str, int | str]:
        """The options that say how many workers there are to be."""
        ways = {"to": self.to, "add": self.add, "remove": self.remove, "pods": self.pods}
        return {name: value for name, value in ways.items() if value is not None}


@click.command("scale", cls=CompilingCommand)
@click.argument("job", metavar="JOB", shell_complete=completing.jobs)
@paths_argument(required=False)
@click.option(
    "--to", metavar="N", type=click.IntRange(min=0), help="Scale to this number of workers."
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
    help="Change the number in the job's own file, and nothing else of it, or add a file."
    "  [default: the number, where the kind is elastic and nothing else says how many there are]",
)
@click.option(
    "--dry-run",
    metavar="[=client]",
    type=Choice(["client"]),
    help="Print the file instead of writing it.",
)
@click.option(
    "--apply", "applies", is_flag=True, help="Apply the job afterwards, as etcompile apply does."
)
@connection_options_of("--apply")
@click.option("--wait", metavar="WHAT", help="With --apply: as there.")
@click.option("--timeout", metavar="T", help="With --apply: as there.")
@click.option("--drain", metavar="T", help="With --apply: as there.")
@click.option("--set", "set_name", metavar="NAME", help="With --apply: as there.")
@file_setting_options
@takes(ScaleOptions)
def command(ctx: click.Context, given: ScaleOptions) -> None:
    """Change the number of workers of a job: in its file, or by a ScaleOut or ScaleIn beside it.

    JOB is looked for in PATHs, here if none is given. The number in its file changes where its kind
    is elastic. For a TrainingJob or ElasticJob, with --pods or with an overlay, and where the job
    has intents already, one file is added that counts after all others. What render would refuse is
    refused before anything is written.
    """
    from etcompile.scaling import chosen, in_place, proposal, written

    wish = _wish(given)
    _check(given)
    job, paths = given.job, given.paths or (".",)
    wanted = options(given)
    found, problems = chosen(job, paths, wanted, given.kind)
    made = None
    if found is not None:
        made, problems = proposal(found, wish, wanted, said=_said(given))
        if made is not None and _is_in_place(given, found):
            edited, more = in_place(found, made)
            if given.in_place or edited is not None:
                made, problems = edited, [*problems, *more]
    if made is None or refuses(problems, given):
        tell(problems, given)
        if talks(given):
            click.echo("nothing was written", err=True)
        ctx.exit(REFUSED)
    # Before anything is written: its options may be wrong.
    rollout = _rollout(ctx, made) if given.applies else None
    if given.dry_run:
        write(made.text)
    else:
        problems += written(made, paths)
    tell(problems, given)
    if refuses(problems, given):
        ctx.exit(REFUSED)
    if talks(given):
        for line in _summary(job, made, dry_run=given.dry_run is not None):
            click.echo(line, err=True)
    if rollout is not None:
        with rollout:
            if made.go and found is not None:
                why = f"{len(made.go)} of its workers are about to go"
                _ask_for_checkpoint(given, given.namespace or found.job.namespace, why)
            rollout.command.invoke(rollout)


def _is_in_place(given: ScaleOptions, found: "Chosen") -> bool:
    """Whether to change the number in the job's file: unasked, only where that alone counts.

    Not of a kind whose operator scales by documents of their own.
    """
    if given.in_place is not None:
        return given.in_place
    kind = frontends.find(found.job.api_version, found.job.kind)
    scalers = kind.operator.scalers if kind and kind.operator else ()
    return not (given.pods or given.overlays or scalers) and len(found.documents) == 1


def _ask_for_checkpoint(given: ScaleOptions, namespace: str | None, why: str) -> None:
    """Asks for a checkpoint before workers go, if the job that runs names a signal for that.

    Whatever stands in the way of it does not stand in the way of the rollout, which says itself
    what is wrong with the cluster.
    """
    from etcompile.cli.checkpoint import lines
    from etcompile.kubeapi import ClusterError
    from etcompile.operations import ImpossibleError, request_checkpoint
    from etcompile.status import NoSuchJobError

    try:
        with given.connection.connect(namespace) as cluster:
            request = request_checkpoint(cluster, given.job, why=why)
    except (ClusterError, ImpossibleError, NoSuchJobError):
        return
    if talks(given):
        for line in lines(request):
            click.echo(line, err=True)


def _wish(given: ScaleOptions) -> "Wish":
    from etcompile.intents.wishes import Wish

    ways = [*given.ways()]
    if len(ways) != 1:
        raise click.UsageError("say one of --to N, --add N, --remove N and --pods A,B")
    pods = tuple(name.strip() for name in (given.pods or "").split(",") if name.strip())
    if ways == ["pods"] and not pods:
        raise click.BadParameter("names no Pod", param_hint="--pods")
    return Wish(to=given.to, add=given.add, remove=given.remove, pods=pods)


def _check(given: ScaleOptions) -> None:
    if "-" in given.paths:
        raise click.UsageError("a file is written beside the job: name its folder, not -")
    if given.in_place and given.pods is not None:
        raise click.UsageError("--in-place changes a number, and --pods names Pods: use --remove N")
    if given.applies and given.dry_run:
        raise click.UsageError("--dry-run writes nothing: leave out --apply")
    if not given.applies:
        where = structs.asdict(given.connection)
        how = {"wait": given.wait, "timeout": given.timeout, "drain": given.drain}
        how["set"] = given.set_name
        refuse_without("--apply", **where, **how)


def _said(given: ScaleOptions) -> str:
    ((way, value),) = given.ways().items()
    return f"etcompile scale {shlex.quote(given.job)} --{way} {shlex.quote(str(value))}"


def _summary(job: str, made: "Proposal", *, dry_run: bool) -> "list[str]":
    if made.path is None:
        return [f"{job}: already has {made.before} workers: nothing to do"]
    verb = "would write" if dry_run else "wrote"
    lines = [
        f"{verb} {made.path}: {made.title}",
        f"{job}: {made.before} -> {made.after} workers",
    ]
    for sign, pods in (("+", made.come), ("-", made.go)):
        if pods:
            more = f" and {len(pods) - _NAMES} more" if len(pods) > _NAMES else ""
            lines.append(f"  {sign} {', '.join(pods[:_NAMES])}{more}")
    return lines


def _rollout(ctx: click.Context, made: "Proposal") -> click.Context:
    """`etcompile apply` of the job's files, with the same options."""
    new = [str(made.path)] if made.path and not made.replaces else []
    files = [*made.files, *new]
    from etcompile.cli.apply import command as target

    known = {param.name: param for param in target.params}
    # Without it a worker that the job no longer declares stays.
    words = ["--prune"] if made.go else []
    for option in ctx.command.params:
        name = option.name or ""
        own = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if name not in known or not own or not isinstance(option, click.Option):
            continue
        value = ctx.params[name]
        if option.is_flag:
            words.append(option.opts[-1])
            continue
        for word in value if option.multiple else (value,):
            words += [option.opts[-1], str(word)]
    return target.make_context("apply", [*words, "--", *files], parent=ctx.parent)
