"""Run a job of the cluster again, with new Pods (`etcompile restart`)."""

import click

from etcompile.cli.command_line import HELP, SectionedCommand
from etcompile.cli.options import (
    JOB,
    LIVE_NAMESPACE,
    ChangeOptions,
    changes_cluster,
    reports,
    setting,
    timeout,
    wait,
)
from etcompile.cli.reporting import Reporting
from etcompile.cli.rollouts import Session, Wait


@click.command("restart", cls=SectionedCommand, context_settings=HELP)
@JOB
@LIVE_NAMESPACE
@click.option("--adopt", is_flag=True, help="Also restart Pods that other people or tools manage.")
@wait("Wait until all Pods are ready, until the job has completed, or not at all.")
@timeout()
@setting("concurrency")
@changes_cluster
@reports()
@click.pass_context
def command(
    ctx: click.Context,
    job: str,
    namespace: str | None,
    reporting: Reporting,
    adopt: bool,
    wait: Wait,
    timeout: float | None,
    concurrency: int,
    cluster: ChangeOptions,
) -> None:
    """Run a job again, whether it is running, has failed or has succeeded: replace all its Pods.

    The job is taken from the cluster, as its last apply left it; no file is read. restart deletes
    the Pods, launchers first, and the watcher's record of the run. When all Pods are gone, it
    creates them again. What the run has not saved is lost.

    The exit codes are those of apply.
    """
    from etcompile.operations.running_jobs import restart_proposal

    session = Session(ctx, reporting, cluster, concurrency)
    with session.concluded():
        with cluster.connect(namespace, notice=session.shown.repeat) as connected:
            proposal = restart_proposal(connected, job, adopt=adopt)
            result = session.carry_out(connected, proposal, wait, timeout)
        session.leave(result.code, result.diagnostics)
