"""Run a job of the cluster again, with new Pods (`etcompile restart`)."""

import click

from etcompile.cli.command_line import SectionedCommand, option, subcommand
from etcompile.cli.options import JOB, LIVE_NAMESPACE, ReportOptions
from etcompile.cli.rollouts import TIMEOUT, RolloutOptions, Session, Wait


class _Options(ReportOptions, frozen=True, kw_only=True):
    job: str = JOB
    namespace: str | None = LIVE_NAMESPACE
    adopt: bool = option(help="Also restart Pods that other people or tools manage.")
    wait: Wait = option(
        default="ready",
        help="Wait until all Pods are ready, until the job has completed, or not at all.",
    )
    timeout: float | None = TIMEOUT
    cluster: RolloutOptions


@subcommand("restart", _Options, cls=SectionedCommand)
def command(ctx: click.Context, options: _Options) -> None:
    """Run a job again, whether it is running, has failed or has succeeded: replace all its Pods.

    The job is taken from the cluster, as its last apply left it; no file is read. restart deletes
    the Pods, launchers first, and the watcher's record of the run. When all Pods are gone, it
    creates them again. What the run has not saved is lost.

    The exit codes are those of apply.
    """
    from etcompile.operations.running_jobs import restart_proposal

    session = Session(ctx, options, options.cluster)
    with session.concluded():
        with options.cluster.connect(options.namespace, notice=session.shown.repeat) as cluster:
            proposal = restart_proposal(cluster, options.job, adopt=options.adopt)
            result = session.carry_out(cluster, proposal, options.wait, options.timeout)
        session.leave(result.code, result.diagnostics)
