"""`etcompile checkpoint`: asks the commands of a job that runs for a checkpoint."""

import json
from typing import TYPE_CHECKING

import click
from msgspec import structs

from etcompile.cli import completing
from etcompile.cli.cluster_options import ClusterOptions, cluster_options, namespace_option
from etcompile.cli.options import TalkOptions, talk_options, talks, tell, write
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes
from etcompile.exitcodes import CLUSTER, INPUT

if TYPE_CHECKING:
    from etcompile.operations import CheckpointRequest


class CheckpointOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile checkpoint`."""

    job: str
    namespace: str | None
    cluster: ClusterOptions


@click.command("checkpoint", cls=SectionedCommand)
@click.argument("job", metavar="JOB", shell_complete=completing.jobs)
@namespace_option
@cluster_options
@talk_options
@takes(CheckpointOptions)
def command(ctx: click.Context, given: CheckpointOptions) -> None:
    """Ask all commands of a job at the same time to write a checkpoint.

    The processes of the job's Pods that handle it are sent the signal that the job names in
    etcompile.dev/checkpoint-signal. Nothing is restarted, and no watcher is needed. The command
    does not wait for the checkpoint: only your program knows when it is written.

    Exit codes: 0 they were asked, 2 usage, 6 the cluster cannot be reached or refuses, 7 there is
    no such job, it names no signal, or no command of it runs.
    """
    from etcompile.cli.status import unknown_job
    from etcompile.kubeapi import ClusterError
    from etcompile.operations import ImpossibleError, request_checkpoint
    from etcompile.status import NoSuchJobError

    try:
        with given.cluster.connect(given.namespace) as cluster:
            request = request_checkpoint(cluster, given.job, concurrency=given.cluster.concurrency)
    except NoSuchJobError as error:
        tell([unknown_job(error)], given)
        ctx.exit(INPUT)
    except ImpossibleError as error:
        tell(error.result.diagnostics, given)
        ctx.exit(error.result.code)
    except ClusterError as error:
        tell([error.diagnostic], given)
        ctx.exit(CLUSTER)
    if given.cluster.output == "json":
        write(json.dumps(_value(request)) + "\n")
    elif talks(given):
        write("".join(f"{line}\n" for line in lines(request)))


def lines(request: "CheckpointRequest") -> list[str]:
    """What came of a request, for people."""
    from etcompile.status.text import some

    if request.earlier:
        ago = f"{request.ago:.0f} s ago"
        return [f"{request.job}: was asked {ago}, and is not asked again: {request.earlier}"]
    count = f"{len(request.asked)} Pod{'s' if len(request.asked) != 1 else ''}"
    told = [f"{request.job}: {count} asked for a checkpoint, by signal {request.signal}"]
    if request.not_running:
        told.append(f"not asked, because their commands do not run: {some(request.not_running)}")
    return told


def _value(request: "CheckpointRequest") -> dict[str, object]:
    value = structs.asdict(request)
    value["notRunning"] = value.pop("not_running")
    return value
