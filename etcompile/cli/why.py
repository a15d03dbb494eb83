"""`etcompile why`: what a job died of first, or what keeps it from starting."""

import json
from typing import Literal

import click

from etcompile.cli import completing
from etcompile.cli.cluster_options import Connection, connection_options, namespace_option
from etcompile.cli.options import TalkOptions, talk_options, tell, write
from etcompile.cli.structs import output_option, takes
from etcompile.cli.usage import Command
from etcompile.exitcodes import CLUSTER, REFUSED


class WhyOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile why`."""

    job: str
    namespace: str | None
    connection: Connection
    lines: int
    output: Literal["text", "json", "markdown", "html"]


@click.command("why", cls=Command)
@click.argument("job", metavar="JOB", shell_complete=completing.jobs)
@namespace_option
@connection_options
@click.option(
    "--lines",
    metavar="N",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Number of last lines to show of what failed first.",
)
@output_option(
    "text",
    "json",
    "markdown",
    "html",
    help="For people, for scripts, to paste into an issue, or a page to send to somebody.",
)
@talk_options
@takes(WhyOptions)
def command(ctx: click.Context, given: WhyOptions) -> None:
    """Show what a job died of first, or what keeps it from starting, and what to do.

    Of an attempt that failed, all Pods died of the one that died first. The watcher keeps what
    each of them left to say before their Pods go; without it, the Pods that are still there tell
    what they can. Nothing is written.

    Exit codes: 0 it was told, whatever the job is, 2 no such job, 6 the cluster cannot be reached
    or refuses.
    """
    from etcompile.cli.status import unknown_job
    from etcompile.diagnostics.redaction import shown_value
    from etcompile.kubeapi import ClusterError
    from etcompile.status import NoSuchJobError, seen
    from etcompile.status.text import clock
    from etcompile.status.why import explanations
    from etcompile.status.why.documents import explanation_value
    from etcompile.status.why.text import explanation_markdown, explanation_text

    try:
        with given.connection.connect(given.namespace) as cluster:
            found = seen(cluster, given.job, cluster.namespace)
    except NoSuchJobError as error:
        tell([unknown_job(error)], given)
        ctx.exit(REFUSED)
    except ClusterError as error:
        tell([error.diagnostic], given)
        ctx.exit(CLUSTER)
    for why in explanations(found.objects.values(), found.events.values()):
        if given.output == "json":
            write(json.dumps(shown_value(explanation_value(why)), indent=2) + "\n")
        elif given.output == "markdown":
            write(explanation_markdown(why, clock(), lines=given.lines))
        elif given.output == "html":
            from etcompile.status.why.page import explanation_page

            write(explanation_page(why, clock(), lines=given.lines))
        else:
            write(explanation_text(why, clock(), lines=given.lines))
