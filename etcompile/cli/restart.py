"""`etcompile restart`: runs a job of the cluster again, with new Pods."""

from typing import Literal

import click

from etcompile.cli import completing
from etcompile.cli.cluster_options import ClusterOptions, cluster_options, namespace_option
from etcompile.cli.options import TalkOptions, talk_options
from etcompile.cli.rollouts import (
    Session,
    WaitOptions,
    consent_option,
    dry_run_option,
    limit,
    wait_options,
)
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes
from etcompile.exitcodes import INPUT


class RestartOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile restart`."""

    job: str
    namespace: str | None
    dry_run: Literal["server", "client"] | None
    adopt: bool
    yes: bool
    waiting: WaitOptions
    cluster: ClusterOptions


@click.command("restart", cls=SectionedCommand)
@click.argument("job", metavar="JOB", shell_complete=completing.jobs)
@namespace_option
@dry_run_option
@click.option(
    "--adopt", is_flag=True, help="Also restart Pods that other people or tools look after."
)
@consent_option
@wait_options("Wait until all Pods are ready, until the job has completed, or not at all.")
@cluster_options
@talk_options
@takes(RestartOptions)
def command(ctx: click.Context, given: RestartOptions) -> None:
    """Run a job again, whether it runs, has failed or has succeeded: all its Pods are replaced.

    The Pods are those that the job in the cluster declares, as its last apply left it; no file is
    read. They are deleted, launchers first, with what the watcher wrote down of the run; when all
    are gone they are created anew. What a run has not saved is lost.

    The exit codes are those of apply.
    """
    from etcompile.cli.status import unknown_job
    from etcompile.operations.restart import restart_proposal
    from etcompile.rollout import Choices
    from etcompile.status import NoSuchJobError

    session = Session(ctx, given, given.cluster.output)
    with session.concluded():
        try:
            with given.cluster.connect(given.namespace, session.shown.repeat) as cluster:
                proposal = restart_proposal(cluster, given.job, adopt=given.adopt)
                timeout, concurrency = limit(given.waiting), given.cluster.concurrency
                choices = Choices(given.waiting.wait, timeout, concurrency=concurrency)
                result = session.carry_out(
                    cluster, proposal, choices, dry_run=given.dry_run, yes=given.yes
                )
        except NoSuchJobError as error:
            session.leave(INPUT, [unknown_job(error)])
        session.leave(result.code, result.diagnostics)
