"""`etcompile delete`: removes jobs from a cluster, and says what it leaves."""

import time
from typing import Literal

import click
from msgspec import structs

from etcompile.cli import completing
from etcompile.cli.cluster_options import (
    ClusterOptions,
    Duration,
    cluster_options,
    job_set,
    set_option,
)
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import (
    CompileOptions,
    file_setting_options,
    options,
    paths_argument,
    refuses,
    talks,
)
from etcompile.cli.rollouts import TIMEOUT, Session, consent_option, dry_run_option
from etcompile.cli.structs import takes
from etcompile.compiler import compile  # noqa: A004
from etcompile.exitcodes import INPUT
from etcompile.plan.step import Plan, reference


class DeleteOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile delete`."""

    names: tuple[str, ...]
    dry_run: Literal["client", "server"] | None
    adopt: bool
    set_name: str | None
    yes: bool
    timeout: float
    cluster: ClusterOptions


@click.command("delete", cls=CompilingCommand)
@paths_argument(required=False)
@click.option(
    "--job",
    "names",
    metavar="NAME",
    multiple=True,
    help="Name of a job. May be repeated.",
    shell_complete=completing.jobs,
)
@dry_run_option
@click.option("--adopt", is_flag=True, help="Also delete what another tool or set manages.")
@set_option
@consent_option
@click.option(
    "--timeout",
    metavar="T",
    type=Duration(),
    default="15m",
    show_default=True,
    help=TIMEOUT,
)
@cluster_options
@file_setting_options
@takes(DeleteOptions)
def command(ctx: click.Context, given: DeleteOptions) -> None:
    """Delete jobs from a cluster: the jobs of PATHs, or those named with --job.

    An object belongs to a job if it is in the job's inventory, or if it has the job's label and
    etcompile created it. Launchers are deleted first, then the other Pods, then what they used.
    PersistentVolumeClaims, and Secrets that etcompile did not create, are kept and listed.

    The exit codes are those of apply.
    """
    from etcompile.operations.deletion import delete_proposal
    from etcompile.operations.proposal import ImpossibleError
    from etcompile.rollout import Choices

    session = Session(ctx, given, given.cluster.output)
    with session.concluded():
        if bool(given.paths) == bool(given.names):
            raise click.UsageError("name files, or jobs with --job NAME")
        compilation = None
        if given.paths:
            compilation = compile(given.paths, structs.replace(options(given), without_keys=True))
            if refuses(compilation.diagnostics, given):
                session.leave(INPUT, compilation.findings)
        try:
            with given.cluster.connect(given.namespace, session.shown.repeat) as cluster:
                proposal = delete_proposal(
                    cluster,
                    [(given.namespace, name) for name in given.names],
                    compilation,
                    adopt=given.adopt,
                    job_set=job_set(given.paths, given.set_name),
                    absent=_tell_absent if talks(given) else None,
                )
                if not given.dry_run:
                    _tell_kept(proposal.plan, session, given)
                concurrency = given.cluster.concurrency
                choices = Choices("none", given.timeout or None, concurrency=concurrency)
                result = session.carry_out(
                    cluster, proposal, choices, dry_run=given.dry_run, yes=given.yes
                )
        except ImpossibleError as error:
            result = error.result
        if compilation is not None and talks(given):
            loose = [
                loose_object
                for group in compilation.groups
                if not group.name
                for loose_object in group.objects
            ]
            for value in loose:
                click.echo(f"kept: {reference(value)} (it belongs to no job)", err=True)
        session.leave(result.code, result.diagnostics)


def _tell_absent(namespace: str, job: str) -> None:
    click.echo(f"there is nothing of the job {job} in the namespace {namespace}", err=True)


def _tell_kept(plan: Plan, session: Session, given: DeleteOptions) -> None:
    """Names what a deletion leaves: for people among the diagnostics, for programs as events."""
    from etcompile.rollout import StepEvent

    for step in plan.steps:
        if step.action != "unmanaged":
            continue
        reason = ", ".join(step.reasons)
        if given.cluster.output == "json":
            session.shown.tell(
                StepEvent(step.ref, step.action, "kept", reason, step.job, time.time())
            )
        elif talks(given):
            click.echo(f"kept: {step.ref} ({reason})", err=True)
