"""`etcompile migrate`: a job that an operator runs to files for Git, and how to hand it over."""

from pathlib import Path
from typing import Any

import click

from etcompile.cli import completing
from etcompile.cli.cluster_options import Connection, connection_options_of
from etcompile.cli.options import (
    TalkOptions,
    paths_argument,
    refuses,
    talk_options,
    talks,
    tell,
    write,
)
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Choice
from etcompile.cli.usage import Command
from etcompile.exitcodes import REFUSED


class MigrateOptions(TalkOptions, frozen=True, kw_only=True):
    """The options of `etcompile migrate`."""

    paths: tuple[str, ...]
    output: Path | None
    named: str | None
    namespace: str | None
    connection: Connection
    to: str | None


@click.command("migrate", cls=Command)
@paths_argument(required=False)
@click.option(
    "-d",
    "--output-dir",
    "output",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write NAME.yaml, overlay.yaml if one is needed, and HANDOVER.md.",
)
@click.option(
    "--from-cluster",
    "named",
    metavar="KIND/NAME",
    help="Read the job, its scale intents and its objects from the cluster.",
)
@click.option(
    "-n",
    "--namespace",
    metavar="NS",
    help="Namespace of the job.",
    shell_complete=completing.namespaces,
)
@click.option(
    "--to",
    type=Choice(["trainjob"]),
    help="Go the other way: write a PyTorchJob, JAXJob or XGBoostJob as a TrainJob and its"
    " TrainingRuntime, and tell what does not carry over.",
)
@connection_options_of("--from-cluster")
@talk_options
@takes(MigrateOptions)
def command(ctx: click.Context, given: MigrateOptions) -> None:
    """Take a job over from its operator.

    PATH is what `kubectl get ... -o yaml` printed, or - for standard input: the custom resource
    with its status, its ScaleOuts and ScaleIns, and the objects that were made of it, as far as
    they are to be compared. Nothing in the cluster is changed.

    With --to trainjob nothing is taken over: PATH is a file of a repository, and what is written
    is for Kubeflow Trainer, or for etcompile.

    Without -d the spec goes to standard output and the instructions to standard error.
    """
    from etcompile import stages
    from etcompile.compiler import Options
    from etcompile.integrations.migrate import migrated, written

    output = given.output
    if bool(given.paths) == bool(given.named):
        raise click.UsageError("name files, or a job with --from-cluster KIND/NAME")
    if not given.named and (given.connection.context or given.connection.kubeconfig):
        raise click.UsageError("--context and --kubeconfig need --from-cluster")
    options = Options(namespace=None if given.named else given.namespace, output=output)
    inputs: list[Any] = [*given.paths]
    if given.named:
        inputs, problems = _from_cluster(given, given.named)
        if problems:
            tell(problems, given)
            ctx.exit(REFUSED)
    loaded = stages.loaded(inputs, options, None)
    if refuses(loaded.diagnostics, given):
        tell(loaded.diagnostics, given)
        ctx.exit(REFUSED)
    if given.to is not None:
        from etcompile.integrations.migrate.to_trainjob import to_trainjobs

        result = to_trainjobs(loaded.documents, options)
    else:
        result = migrated(loaded.documents, options)
    problems = [*loaded.diagnostics, *result.diagnostics]
    if result.files and output is not None and not refuses(problems, given):
        problems += written(output, result.files)
    tell(problems, given)
    if refuses(problems, given):
        ctx.exit(REFUSED)
    if output is None:
        specs = [text for name, text in result.files.items() if name.endswith(".yaml")]
        write("---\n".join(specs))
        if "HANDOVER.md" in result.files:
            click.echo(result.files["HANDOVER.md"], err=True)
    elif talks(given):
        read = "; read HANDOVER.md" if "HANDOVER.md" in result.files else ""
        click.echo(f"{output}: {', '.join(result.files)}{read}", err=True)


def _from_cluster(given: MigrateOptions, named: str) -> tuple[list[Any], list[Any]]:
    """The documents of a job in a cluster, and what is wrong."""
    from etcompile.integrations.migrate.reader import UnknownKindError, job_of
    from etcompile.kubeapi import ClusterError
    from etcompile.load import from_values

    try:
        with given.connection.connect(given.namespace) as cluster:
            where = f"cluster {cluster.context or cluster.server}"
            read = from_values(job_of(cluster, named), file=where)
            return [*read.documents], [*read.diagnostics]
    except UnknownKindError as error:
        raise click.BadParameter(str(error), param_hint="--from-cluster") from None
    except ClusterError as error:
        return [], [error.diagnostic]
