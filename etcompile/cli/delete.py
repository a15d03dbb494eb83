"""`etcompile delete`: removes jobs from a cluster, and says what it leaves."""

import gc
import signal
import sys
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from etcompile import emit
from etcompile.cli import completing
from etcompile.cli.apply import REFUSED, UNREACHED
from etcompile.cli.cluster_options import Duration, cluster_options
from etcompile.cli.options import colored, options, refuses, setting_options, tell
from etcompile.compiler import compile  # noqa: A004

if TYPE_CHECKING:
    from etcompile.cli.rolling import Done
    from etcompile.cluster import Cluster


@click.command("delete")
@click.argument("paths", metavar="[PATH...]", nargs=-1, shell_complete=completing.files)
@click.option("--job", "names", metavar="NAME", multiple=True, help="A job, by name.")
@click.option(
    "--dry-run", is_flag=True, help="Delete nothing: show what would go, and what would stay."
)
@click.option("--adopt", is_flag=True, help="Delete also what other tools look after.")
@click.option(
    "--timeout",
    metavar="T",
    type=Duration(),
    default="15m",
    show_default=True,
    help="Give up after 90s, 10m, 1h30m; 0 for never.",
)
@cluster_options
@setting_options
@click.pass_context
def command(
    ctx: click.Context, /, paths: tuple[str, ...], names: tuple[str, ...], **given: Any
) -> None:
    """Remove jobs from a cluster: those of PATHs, or those of these names.

    What belongs to a job is what is in its inventory, and what carries its label and was made by
    etcompile. Launchers go first, then the other Pods, then what they need; each is waited for.
    Claims and Secrets that etcompile has not made are left, and named.

    Exit codes are those of apply.
    """
    from etcompile.cli.progress import progress
    from etcompile.cluster import ClusterError, connect

    if bool(paths) == bool(names):
        raise click.UsageError("name files, or jobs with --job NAME")
    gc.enable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    jobs: list[tuple[str | None, str]] = [(given["namespace"], name) for name in names]
    others: list[Any] = []
    if paths:
        compilation = compile(paths, replace(options(given), without_keys=True))
        if refuses(compilation.diagnostics, strict=given["strict"]):
            tell(compilation.diagnostics, given)
            ctx.exit(REFUSED)
        jobs = [(group.namespace, group.name) for group in compilation.groups if group.name]
        others = [one for group in compilation.groups if not group.name for one in group.objects]
    shown = progress(
        given["output"], quiet=given["quiet"], color=colored(given["color"], sys.stdout)
    )
    try:
        with connect(
            given["context"], given["namespace"], given["kubeconfig"], notice=shown.repeat
        ) as cluster:
            done = _deleted(cluster, jobs, {**given, "paths": paths}, shown)
    except ClusterError as error:
        tell([error.diagnostic], given)
        ctx.exit(UNREACHED)
    tell(done.diagnostics, given)
    if given["form"] == "text" and not given["quiet"]:
        from etcompile.plan.step import reference

        for value in others:
            click.echo(f"left: {reference(value)} (it belongs to no job)", err=True)
    ctx.exit(done.code)


def _deleted(
    cluster: "Cluster", jobs: list[tuple[str | None, str]], given: dict[str, Any], shown: Any
) -> "Done":
    from etcompile.cli.rolling import Done, Facts, refused_steps, rolled_out
    from etcompile.cluster.rollout import Choices
    from etcompile.cluster.rollout.belongings import belongings
    from etcompile.diagnostics import diagnose
    from etcompile.plan.claims import inventory
    from etcompile.plan.removing import removal
    from etcompile.plan.rights import Rights
    from etcompile.plan.step import reference

    found = []
    missing = []
    members: dict[str, list[Any]] = {}
    for namespace, name in jobs:
        where = namespace or cluster.namespace
        title = f"{where}/{name}"
        mine = [(title, value) for value in belongings(cluster, name, where)]
        found += mine
        members[title] = [reference(value) for _, value in mine if inventory(value)]
        if not mine and not given["paths"]:
            advice = f"etcompile status -n {where}"
            missing.append(diagnose("ET8005", None, job=name, where=where, advice=advice))
    if missing:
        return Done(REFUSED, tuple(missing))
    plan = removal(
        found, emit.wave, adopt=given["adopt"], context=cluster.context or cluster.server
    )
    if given["dry_run"]:
        from etcompile.plan.show.text import text

        color = colored(given["color"], sys.stdout)
        for line in text(plan, emit.to_yaml, color=color):
            click.echo(line, color=True)
    elif given["form"] == "text" and not given["quiet"]:
        for step in plan.steps:
            if step.action == "unmanaged":
                click.echo(f"left: {step.ref} ({', '.join(step.reasons)})", err=True)
    if (refused := refused_steps(plan)) is not None or given["dry_run"]:
        return refused or Done(0)
    stays = {step.ref for step in plan.steps if step.action == "unmanaged"}
    kept = {title: [ref for ref in refs if ref in stays] for title, refs in members.items()}
    choices = Choices("none", given["timeout"] or None, None, given["concurrency"])
    rights = Rights(adopt=given["adopt"], prune=True)
    return rolled_out(cluster, plan, rights, choices, Facts(kept=kept), shown, removes=True)
