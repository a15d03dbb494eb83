"""Show why a job failed, or what it waits for (`etcompile why`)."""

import json

import click

from etcompile.cli.command_line import HELP, Command
from etcompile.cli.options import JOB, LIVE_NAMESPACE, Connection, chooses_output, connects, reports
from etcompile.cli.reporting import Reporting, write


@click.command("why", cls=Command, context_settings=HELP)
@JOB
@LIVE_NAMESPACE
@connects
@click.option(
    "--lines",
    default=20,
    show_default=True,
    metavar="N",
    type=click.IntRange(min=0),
    help="Number of last log lines to show of the first failure.",
)
@chooses_output(
    "Text for a terminal, JSON for scripts, Markdown for an issue, or an HTML page.",
    *("text", "json", "markdown", "html"),
)
@reports()
def command(
    job: str,
    namespace: str | None,
    reporting: Reporting,  # noqa: ARG001 - it reports refusals
    connection: Connection,
    lines: int,
    output: str,
) -> None:
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

    with connection.connect(namespace) as cluster:
        view = seen(cluster, job, cluster.namespace)
        pods = (value for value in view.objects.values() if value["kind"] == "Pod")
        waiting = [p for p in pods if (unscheduled(p) or {}).get("reason") == "Unschedulable"]
        reasons = explanations(view.objects.values(), None, view.watchers, view.services)
        reasons = [with_logs(cluster, view, why) for why in reasons]
        capacity = ""
        if waiting and output == "text":
            from etcompile.operations.cluster_capacity import waits_for

            capacity = waits_for(cluster, waiting)
    forms = {
        "text": texts.explanation_text,
        "markdown": texts.explanation_markdown,
        "html": texts.explanation_page,
    }
    for why in reasons:
        if output == "json":
            write(json.dumps(shown_value(explanation_value(why)), indent=2) + "\n")
        else:
            write(forms[output](why, clock(), lines=lines))
    if capacity:
        write(f"\nnodes: {capacity}\n")
