"""Ask the commands of a running job for a checkpoint (`etcompile checkpoint`)."""

import json

import click
from msgspec import structs

from etcompile.cli.command_line import SectionedCommand, subcommand
from etcompile.cli.options import JOB, LIVE_NAMESPACE, ClusterOptions, ReportOptions
from etcompile.cli.reporting import counted, notices, write


class _Options(ReportOptions, frozen=True, kw_only=True):
    job: str = JOB
    namespace: str | None = LIVE_NAMESPACE
    cluster: ClusterOptions


@subcommand("checkpoint", _Options, cls=SectionedCommand)
def command(_ctx: click.Context, options: _Options) -> None:
    """Ask all commands of a job at the same time to write a checkpoint.

    Sends the signal that the annotation etcompile.dev/checkpoint-signal names to all processes of
    the job that handle it. Nothing is restarted, and no watcher is needed. The command does not
    wait for the checkpoint: only your program knows when it is written.

    Exit codes: 0 the signal was sent, 2 usage error, 6 the cluster cannot be reached or refuses,
    7 there is no such job, it names no signal, or none of its commands is running.
    """
    from etcompile.naming import some
    from etcompile.operations import request_checkpoint

    concurrency = options.cluster.concurrency
    with options.cluster.connect(options.namespace) as cluster:
        request = request_checkpoint(cluster, options.job, concurrency=concurrency)
    if options.cluster.output == "json":
        value = structs.asdict(request)
        value["notRunning"] = value.pop("not_running")
        write(json.dumps(value) + "\n")
    elif notices(options) and request.earlier:
        ago = f"{request.ago:.0f} s ago"
        write(f"{request.job}: was asked {ago}, and is not asked again: {request.earlier}\n")
    elif notices(options):
        count = counted(len(request.pods), "Pod")
        write(f"{request.job}: {count} asked for a checkpoint, by signal {request.signal}\n")
        if request.not_running:
            names = some(request.not_running)
            write(f"not asked, because their commands do not run: {names}\n")
