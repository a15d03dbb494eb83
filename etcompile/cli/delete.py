"""Delete jobs from a cluster, and report what is left (`etcompile delete`)."""

import itertools
import os
import re
import time
from typing import TYPE_CHECKING

import click
from msgspec import structs

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import (
    OPTIONAL_PATHS,
    ChangeOptions,
    changes_cluster,
    compiles,
    job_set,
    timeout,
)
from etcompile.cli.reporting import Reporting, compiled, notices
from etcompile.cli.rollouts import Session
from etcompile.exitcodes import INPUT
from etcompile.plan.step import reference

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured

_JOB_NAME = re.compile(r"((po|pods?|\w+jobs?)(\.[\w.]+)?/)?[a-z0-9-]+", re.IGNORECASE)
"""Matches what is the name of a job, rather than a missing path."""


@click.command("delete", cls=CompilingCommand, context_settings=HELP)
@OPTIONAL_PATHS
@compiles("namespace", "overlay", "concurrency", "output-format", "quiet")
@click.option(
    "--job", "names", multiple=True, metavar="NAME", help="Name of a job. May be repeated."
)
@click.option("--adopt", is_flag=True, help="Also delete what another tool or set manages.")
@timeout("15m")
@changes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    configured: "Configured",
    reporting: Reporting,
    names: tuple[str, ...],
    adopt: bool,
    timeout: float,
    cluster: ChangeOptions,
) -> None:
    """Delete jobs from a cluster: the jobs of PATHs, or those named with --job.

    An object belongs to a job if it is in the job's inventory, or if it has the job's label and
    etcompile created it. Launchers are deleted first, then the other Pods, then what they used.
    PersistentVolumeClaims, and Secrets that etcompile did not create, are kept and listed.

    The exit codes are those of apply.
    """
    from etcompile.operations.cluster_plan import delete_proposal
    from etcompile.rollout.machine.messages import StepEvent

    session = Session(ctx, reporting, cluster, configured.values["concurrency"])
    with session.concluded():
        if bool(paths) == bool(names):
            raise click.UsageError("name files, or jobs with --job NAME")
        for path in paths:
            if not os.path.lexists(path) and _JOB_NAME.fullmatch(path):
                problem = f"there is no file '{path}': to delete the job, use --job {path}"
                raise click.UsageError(problem)
        compilation = None
        if paths:
            chosen = structs.replace(configured.options, without_keys=True)
            compilation = compiled(paths, chosen, reporting)
            if not compilation.ok:
                session.leave(INPUT, compilation.findings)

        def report_absent(namespace: str, job: str) -> None:
            if notices(reporting):
                words = f"there is nothing of the job {job} in the namespace {namespace}"
                click.echo(words, err=True)

        namespace = configured.values["namespace"]
        with cluster.connect(namespace, notice=session.shown.repeat) as connected:
            proposal = delete_proposal(
                connected,
                [(namespace, name) for name in names],
                compilation,
                adopt=adopt,
                job_set=job_set(configured, paths) if paths else None,
                absent=report_absent,
            )
            for step in () if cluster.dry_run else proposal.plan.steps:
                if step.action != "unmanaged":
                    continue
                reason, now = ", ".join(step.reasons), time.time()
                if cluster.output == "json":
                    event = StepEvent(step.ref, step.action, "kept", reason, step.job, now)
                    session.shown.tell(event)
                elif notices(reporting):
                    click.echo(f"kept: {step.ref} ({reason})", err=True)
            result = session.carry_out(connected, proposal, "none", timeout)
        if compilation is not None and notices(reporting):
            loose = (group.objects for group in compilation.groups if not group.name)
            for value in itertools.chain.from_iterable(loose):
                click.echo(f"kept: {reference(value)} (it belongs to no job)", err=True)
        session.leave(result.code, result.diagnostics)
