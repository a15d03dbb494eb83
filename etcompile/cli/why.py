"""Show why a job failed, or what it waits for (`etcompile why`)."""

import json
from typing import Literal

import click

from etcompile.cli.command_line import option, subcommand
from etcompile.cli.options import JOB, LIVE_NAMESPACE, Connection, ReportOptions
from etcompile.cli.reporting import write


class _Options(ReportOptions, frozen=True, kw_only=True):
    job: str = JOB
    namespace: str | None = LIVE_NAMESPACE
    connection: Connection
    lines: int = option(
        default=20,
        metavar="N",
        type=click.IntRange(min=0),
        help="Number of last log lines to show of the first failure.",
    )
    output: Literal["text", "json", "markdown", "html"] = option(
        "-o",
        default="text",
        help="Text for a terminal, JSON for scripts, Markdown for an issue, or an HTML page.",
    )


@subcommand("why", _Options)
def command(_ctx: click.Context, options: _Options) -> None:
    """Show why a job failed, or what keeps it from starting, and what to do.

    Shows the first failure of each attempt, since the other Pods usually fail because of it. The
    watcher records failures before it deletes Pods; without a watcher, only the Pods that still
    exist are read. Nothing is written.

    Exit codes: 0 whatever the state of the job is, 2 no such job, 6 the cluster cannot be reached
    or refuses.
    """
    from etcompile.diagnostics.redaction import shown_value
    from etcompile.k8s.pods import unscheduled
    from etcompile.status import explanation_text as texts
    from etcompile.status import seen
    from etcompile.status.documents import explanation_value
    from etcompile.status.explanations import explanations
    from etcompile.status.reader import with_logs
    from etcompile.status.text import clock

    with options.connection.connect(options.namespace) as cluster:
        view = seen(cluster, options.job, cluster.namespace)
        pods = (value for value in view.objects.values() if value["kind"] == "Pod")
        waiting = [p for p in pods if (unscheduled(p) or {}).get("reason") == "Unschedulable"]
        reasons = explanations(view.objects.values(), None, view.watchers, view.services)
        reasons = [with_logs(cluster, view, why) for why in reasons]
        capacity = ""
        if waiting and options.output == "text":
            from etcompile.operations.cluster_capacity import waits_for

            capacity = waits_for(cluster, waiting)
    forms = {
        "text": texts.explanation_text,
        "markdown": texts.explanation_markdown,
        "html": texts.explanation_page,
    }
    for why in reasons:
        if options.output == "json":
            write(json.dumps(shown_value(explanation_value(why)), indent=2) + "\n")
        else:
            write(forms[options.output](why, clock(), lines=options.lines))
    if capacity:
        write(f"\nnodes: {capacity}\n")
