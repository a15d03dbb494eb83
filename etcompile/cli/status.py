"""Show the status of jobs in the cluster (`etcompile status`)."""

import itertools
import json
import sys
from typing import TYPE_CHECKING, Literal

import click

from etcompile.cli.command_line import argument, option, subcommand
from etcompile.cli.options import LIVE_NAMESPACE, Connection, ReportOptions
from etcompile.cli.reporting import colored, write
from etcompile.exitcodes import FAILED

if TYPE_CHECKING:
    from etcompile.kubeapi import Cluster
    from etcompile.status import JobStatus, Seen


class _Options(ReportOptions, frozen=True, kw_only=True):
    job: str | None = argument("[JOB]")
    namespace: str | None = LIVE_NAMESPACE
    all_namespaces: bool = option("-A", help="Show the jobs of all namespaces.")
    connection: Connection
    watch: bool = option(
        "-w",
        help="Keep watching: print a line for each change. With JOB, stop when it has succeeded or"
        " failed.",
    )
    output: Literal["text", "json"] = option(
        "-o",
        default="text",
        help="Text for people, or JSON for scripts; with --watch one JSON object per change.",
    )


@subcommand("status", _Options)
def command(ctx: click.Context, options: _Options) -> None:
    """Show the state of one job in the cluster, or of all jobs, and why it is not running.

    The watcher records the phase. If none runs, status derives the phase from the Pods by the job's
    own success rule, and says so.

    Exit codes: 0 whatever the phase is, 2 no such job, 6 the cluster cannot be reached or refuses.
    With --watch JOB: 0 it succeeded, 1 it failed or was deleted.
    """
    from etcompile.diagnostics.redaction import shown_value
    from etcompile.status import documents, seen

    if options.all_namespaces and options.namespace:
        raise click.UsageError("--namespace and --all-namespaces cannot be combined")
    with options.connection.connect(options.namespace) as cluster:
        namespace = None if options.all_namespaces else cluster.namespace
        view = seen(cluster, options.job, namespace)
        if options.watch:
            ctx.exit(_watched(cluster, view, options))
        jobs = view.statuses()
    if options.output == "json":
        values = [shown_value(documents.job_value(status)) for status in jobs]
        value = values[0] if view.job and len(values) == 1 else {"jobs": values}
        write(json.dumps(value, indent=2) + "\n")
    elif jobs:
        write(_text(view, jobs, color=colored(options.color, sys.stdout)))
    elif not options.quiet:
        where = f"namespace {view.namespace}" if view.namespace else "any namespace"
        click.echo(f"no jobs in {where}", err=True)


def _watched(cluster: "Cluster", view: "Seen", options: _Options) -> int:
    """Write a line for each change until the job has ended; return the exit code."""
    from msgspec import to_builtins

    from etcompile.cli.main import reader_is_gone
    from etcompile.diagnostics.redaction import shown, shown_value
    from etcompile.status import ENDED, follow
    from etcompile.status.text import changes, clock, reason_lines, together

    before: list[JobStatus] = []
    if options.output == "text":
        before = view.statuses()
        write(_text(view, before, color=colored(options.color, sys.stdout)) + "\n")
    for update in itertools.chain([view], follow(cluster, view)):
        jobs, at = update.statuses(), clock()
        changed = [*changes(before, jobs)]
        for change in changed if options.output == "json" else together(changed):
            if options.output == "json":
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
    if options.output == "text" and not options.quiet:
        for line in itertools.chain.from_iterable(reason_lines(job.not_ready) for job in jobs):
            click.echo(f"not ready: {line}", err=True)
    return FAILED if any(job.phase == "Failed" for job in jobs) else 0


def _text(view: "Seen", jobs: "list[JobStatus]", *, color: bool) -> str:
    from etcompile.status.text import clock, job_text, jobs_text

    if view.job is None:
        return jobs_text(jobs, clock(), color=color)
    return "\n".join(job_text(job, clock(), color=color) for job in jobs)
