"""Ask the commands of a running job for a checkpoint (`etcompile checkpoint`)."""

import json

import click
from msgspec import structs

from etcompile.cli.command_line import HELP, SectionedCommand
from etcompile.cli.options import (
    JOB,
    LIVE_NAMESPACE,
    PROGRESS,
    Connection,
    connects,
    reports,
    setting,
)
from etcompile.cli.reporting import Reporting, counted, notices, write


@click.command("checkpoint", cls=SectionedCommand, context_settings=HELP)
@JOB
@LIVE_NAMESPACE
@PROGRESS
@setting("concurrency")
@connects
@reports()
def command(
    job: str,
    namespace: str | None,
    reporting: Reporting,
    output: str,
    concurrency: int,
    connection: Connection,
) -> None:
    """Ask all commands of a job at the same time to write a checkpoint.

    Sends the signal that the annotation etcompile.dev/checkpoint-signal names to all processes of
    the job that handle it. Nothing is restarted, and no watcher is needed. The command does not
    wait for the checkpoint: only your program knows when it is written.

    Exit codes: 0 the signal was sent, 2 usage error, 6 the cluster cannot be reached or refuses,
    7 there is no such job, it names no signal, or none of its commands is running.
    """
    from etcompile.naming import some
    from etcompile.operations import request_checkpoint

    with connection.connect(namespace) as cluster:
        request = request_checkpoint(cluster, job, concurrency=concurrency)
    if output == "json":
        value = structs.asdict(request)
        value["notRunning"] = value.pop("not_running")
        write(json.dumps(value) + "\n")
    elif notices(reporting) and request.earlier:
        ago = f"{request.ago:.0f} s ago"
        write(f"{request.job}: was asked {ago}, and is not asked again: {request.earlier}\n")
    elif notices(reporting):
        count = counted(len(request.pods), "Pod")
        write(f"{request.job}: {count} asked for a checkpoint, by signal {request.signal}\n")
        if request.not_running:
            names = some(request.not_running)
            write(f"not asked, because their commands do not run: {names}\n")
