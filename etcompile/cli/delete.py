"""`etcompile delete`: removes jobs from a cluster, and says what it leaves."""

import gc
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import structs

from etcompile import emit
from etcompile.cli import completing
from etcompile.cli.apply import REFUSED, UNREACHED, concluded, show
from etcompile.cli.cluster_options import ClusterOptions, Duration, cluster_options
from etcompile.cli.consent import consent_option
from etcompile.cli.options import CompileOptions, colored, options, refuses, setting_options
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes
from etcompile.compiler import compile  # noqa: A004
from etcompile.diagnostics import codes

if TYPE_CHECKING:
    from etcompile.cli.rolling import Done
    from etcompile.diagnostics import Diagnostic
    from etcompile.kubeapi import Cluster
    from etcompile.plan.step import Plan, Step


class DeleteOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile delete`."""

    names: tuple[str, ...]
    dry_run: bool
    adopt: bool
    yes: bool
    timeout: float
    cluster: ClusterOptions


@click.command("delete", cls=SectionedCommand)
@click.argument("paths", metavar="[PATH...]", nargs=-1, shell_complete=completing.files)
@click.option(
    "--job", "names", metavar="NAME", multiple=True, help="Name of a job. May be repeated."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Delete nothing. Show what would be deleted and what would be kept.",
)
@click.option("--adopt", is_flag=True, help="Also delete objects that another tool manages.")
@consent_option
@click.option(
    "--timeout",
    metavar="T",
    type=Duration(),
    default="15m",
    show_default=True,
    help="Give up after this time, such as 90s, 10m or 1h30m; 0 means never.",
)
@cluster_options
@setting_options
@takes(DeleteOptions)
def command(ctx: click.Context, given: DeleteOptions) -> None:
    """Delete jobs from a cluster: the jobs of PATHs, or those named with --job.

    An object belongs to a job if it is in the job's inventory, or if it has the job's label and
    etcompile created it. Launchers are deleted first, then the other Pods, then what they used.
    PersistentVolumeClaims, and Secrets that etcompile did not create, are kept and listed.

    The exit codes are those of apply.
    """
    from etcompile.cli.progress import progress
    from etcompile.kubeapi import ClusterError

    if bool(given.paths) == bool(given.names):
        raise click.UsageError("name files, or jobs with --job NAME")
    gc.enable()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shown = progress(
        given.cluster.output, quiet=given.quiet, color=colored(given.color, sys.stdout)
    )
    jobs: list[tuple[str | None, str]] = [(given.namespace, name) for name in given.names]
    compiled: list[Any] = []
    others: list[Any] = []
    with concluded(ctx, shown, given) as leave:
        if given.paths:
            compilation = compile(given.paths, structs.replace(options(given), without_keys=True))
            if refuses(compilation.diagnostics, given):
                leave(REFUSED, compilation.findings)
            jobs = [(group.namespace, group.name) for group in compilation.groups if group.name]
            for group in compilation.groups:
                (compiled if group.name else others).extend(group.objects)
        try:
            with given.cluster.connect(given.namespace, shown.repeat) as cluster:
                done = _deleted(cluster, jobs, compiled, others, given, shown)
        except ClusterError as error:
            leave(UNREACHED, [error.diagnostic])
        if given.form == "text" and not given.quiet:
            from etcompile.plan.step import reference

            for value in others:
                click.echo(f"kept: {reference(value)} (it belongs to no job)", err=True)
        leave(done.code, done.diagnostics)


def _deleted(
    cluster: "Cluster",
    jobs: list[tuple[str | None, str]],
    compiled: list[Any],
    others_of_files: list[Any],
    given: DeleteOptions,
    shown: Any,
) -> "Done":
    from etcompile.cli.consent import consents
    from etcompile.cli.rolling import Done, Facts, refused_steps, rolled_out
    from etcompile.diagnostics import diagnose
    from etcompile.plan.claims import is_member
    from etcompile.plan.removing import removal
    from etcompile.plan.rights import Rights
    from etcompile.plan.step import deletion, reference
    from etcompile.rollout import Choices
    from etcompile.rollout.belongings import belongings, inventory_of
    from etcompile.rollout.outcome import CONFLICT, INTERRUPTED

    found = []
    missing = []
    members: dict[str, list[Any]] = {}
    applied = set()
    empty: list[Step] = []
    for namespace, name in jobs:
        where = namespace or cluster.namespace
        title = f"{where}/{name}"
        mine = [(title, value) for value in belongings(cluster, name, where)]
        found += mine
        parent = inventory_of(cluster, name, where)
        if parent is not None:
            applied.add(title)
            if not mine:  # the watcher has removed the rest (ttlSecondsAfterFinished), or somebody
                empty.append(deletion(parent, "nothing of the job is left in this inventory"))
        members[title] = [reference(value) for _, value in mine if is_member(value)]
        if parent is None and not mine and not given.paths:
            advice = f"etcompile status -n {where}"
            missing.append(
                diagnose(codes.NO_SUCH_JOB_IN_CLUSTER, None, job=name, where=where, advice=advice)
            )
        elif parent is None and not mine and given.form == "text" and not given.quiet:
            click.echo(f"there is nothing of the job {name} in the namespace {where}", err=True)
    if missing:
        return Done(REFUSED, tuple(missing))
    if others := _others(compiled, (value for _, value in found), cluster.namespace):
        return Done(CONFLICT, tuple(others))
    plan = removal(
        found,
        emit.wave,
        adopt=given.adopt,
        applied=applied,
        context=cluster.context or cluster.server,
    )
    used = _used(cluster, [*(value for _, value in found), *compiled], plan, others_of_files)
    plan = structs.replace(plan, steps=(*plan.steps, *empty, *used))
    if given.dry_run:
        show(plan, given.cluster.output, given)
    else:
        _tell_kept(plan, given, shown)
    if (refused := refused_steps(plan)) is not None or given.dry_run:
        return refused or Done(0)
    if not consents(plan, yes=given.yes):
        return Done(INTERRUPTED, (diagnose(codes.NOT_CONFIRMED, None),))
    stays = {step.ref for step in plan.steps if step.action == "unmanaged"}
    kept = {title: [ref for ref in refs if ref in stays] for title, refs in members.items()}
    choices = Choices("none", given.timeout or None, None, given.cluster.concurrency)
    rights = Rights(adopt=given.adopt, prune=True)
    return rolled_out(cluster, plan, rights, choices, Facts(kept=kept), shown)


def _used(
    cluster: "Cluster", values: list[Any], plan: "Plan", others: list[Any]
) -> Iterator["Step"]:
    """What the jobs used and leave behind, as far as it is there."""
    from etcompile.kubeapi import ClusterError
    from etcompile.plan.removing import left_beside, named_by
    from etcompile.plan.step import reference

    known = {(step.ref.kind, step.ref.namespace, step.ref.name) for step in plan.steps}
    known |= {
        (ref.kind, ref.namespace or cluster.namespace, ref.name) for ref in map(reference, others)
    }
    for ref in named_by(values, cluster.namespace):
        if (ref.kind, ref.namespace, ref.name) in known:
            continue
        resource = cluster.resource(ref.api_version, ref.kind)
        try:
            live = cluster.get(resource, ref.name, ref.namespace, metadata_only=True)
        except ClusterError as error:
            if error.status != 403:
                raise
            continue  # who may not read it cannot be told of it
        if live is not None:
            yield left_beside({**live, "apiVersion": ref.api_version, "kind": ref.kind}, None)


def _tell_kept(plan: "Plan", given: DeleteOptions, shown: Any) -> None:
    """Names what a deletion leaves: for people among the diagnostics, for programs as events."""
    from etcompile.rollout import Happening

    for step in plan.steps:
        if step.action != "unmanaged":
            continue
        reason = ", ".join(step.reasons)
        if given.cluster.output == "json":
            shown.tell(Happening(step.ref, step.action, "kept", reason, step.job, time.time()))
        elif given.form == "text" and not given.quiet:
            click.echo(f"kept: {step.ref} ({reason})", err=True)


def _others(compiled: list[Any], found: Iterable[Any], namespace: str) -> list["Diagnostic"]:
    """An error for each job of the files whose name a job of another kind has in the cluster."""
    from etcompile.diagnostics import diagnose
    from etcompile.plan.claims import other_job
    from etcompile.plan.step import reference

    maps = {
        (ref.namespace or namespace, ref.name): value
        for value in compiled
        if value["kind"] == "ConfigMap"
        for ref in [reference(value)]
    }
    problems = []
    for live in found:
        ref = reference(live)
        declared = maps.get((ref.namespace, ref.name)) if ref.kind == "ConfigMap" else None
        if declared is not None and (other := other_job(declared, live)):
            problem = f"it belongs to the {other}, which is not the job of the files"
            advice = f"etcompile delete --job {other.split()[-1]} deletes that one"
            problems.append(
                diagnose(codes.FOREIGN_OBJECT, None, object=ref, problem=problem, advice=advice)
            )
    return problems
