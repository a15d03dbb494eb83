"""Show the status of jobs in the cluster (`etcompile status`)."""

import itertools
import json
import sys
from typing import TYPE_CHECKING

import click

from etcompile.cli.command_line import HELP, Command
from etcompile.cli.options import LIVE_NAMESPACE, Connection, chooses_output, connects, reports
from etcompile.cli.reporting import Reporting, colored, write
from etcompile.exitcodes import FAILED

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster
    from etcompile.status import JobStatus, Seen


@click.command("status", cls=Command, context_settings=HELP)
@click.argument("job", metavar="[JOB]", required=False)
@LIVE_NAMESPACE
@click.option("-A", "--all-namespaces", is_flag=True, help="Show the jobs of all namespaces.")
@connects
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Keep watching: print a line for each change. With JOB, stop when it has succeeded or"
    " failed.",
)
@chooses_output(
    "Text for people, or JSON for scripts; with --watch one JSON object per change.",
    *("text", "json"),
)
@reports()
@click.pass_context
def command(
    ctx: click.Context,
    job: str | None,
    namespace: str | None,
    reporting: Reporting,
    all_namespaces: bool,
    connection: Connection,
    watch: bool,
    output: str,
) -> None:
    """Show the state of one job in the cluster, or of all jobs, and why it is not running.

    The watcher records the phase. If none runs, status derives the phase from the Pods by the job's
    own success rule, and says so.

    Exit codes: 0 whatever the phase is, 2 no such job, 6 the cluster cannot be reached or refuses.
    With --watch JOB: 0 it succeeded, 1 it failed or was deleted.
    """
    from etcompile.diagnostics.redaction import shown_value
    from etcompile.status import documents, seen

    if all_namespaces and namespace:
        raise click.UsageError("--namespace and --all-namespaces cannot be combined")
    with connection.connect(namespace) as cluster:
        view = seen(cluster, job, None if all_namespaces else cluster.namespace)
        if watch:
            ctx.exit(_watched(cluster, view, output, reporting))
        jobs = view.statuses()
    if output == "json":
        values = [shown_value(documents.job_value(status)) for status in jobs]
        value = values[0] if view.job and len(values) == 1 else {"jobs": values}
        write(json.dumps(value, indent=2) + "\n")
    elif jobs:
        write(_text(view, jobs, color=colored(reporting.color, sys.stdout)))
    elif not reporting.quiet:
        where = f"namespace {view.namespace}" if view.namespace else "any namespace"
        click.echo(f"no jobs in {where}", err=True)


def _watched(cluster: "Cluster", view: "Seen", output: str, reporting: Reporting) -> int:
    """Write a line for each change until the job has ended; return the exit code."""
    from msgspec import to_builtins

    from etcompile.cli.main import reader_is_gone
    from etcompile.diagnostics.redaction import shown, shown_value
    from etcompile.status import ENDED, follow
    from etcompile.status.text import changes, clock, reason_lines, together

    before: list[JobStatus] = []
    if output == "text":
        before = view.statuses()
        write(_text(view, before, color=colored(reporting.color, sys.stdout)) + "\n")
    # For people once a second: Pods that are alike share a line.
    updates = follow(cluster, view, 1.0) if output == "text" else follow(cluster, view)
    for update in itertools.chain([view], updates):
        jobs, at = update.statuses(), clock()
        changed = [*changes(before, jobs)]
        for change in changed if output == "json" else together(changed):
            if output == "json":
                value = {"ts": at.isoformat(timespec="milliseconds")} | to_builtins(change)
                write(json.dumps(shown_value(value)) + "\n")
            else:
                write(f"{at.astimezone():%H:%M:%S} {shown(str(change))}\n")
        has_ended = view.job is not None and all(job.phase in ENDED for job in jobs)
        if has_ended or reader_is_gone():
            break
        before = jobs
    jobs = view.statuses()
    if view.job is not None and not jobs:
        click.echo(f"{view.job} was deleted", err=True)
        return FAILED
    if output == "text" and not reporting.quiet:
        for line in itertools.chain.from_iterable(reason_lines(job.not_ready) for job in jobs):
            click.echo(f"not ready: {line}", err=True)
    return FAILED if any(job.phase == "Failed" for job in jobs) else 0


def _text(view: "Seen", jobs: "list[JobStatus]", *, color: bool) -> str:
    from etcompile.status.text import clock, job_text, jobs_text

    if view.job is None:
        return jobs_text(jobs, clock(), color=color)
    return "\n".join(job_text(job, clock(), color=color) for job in jobs)
