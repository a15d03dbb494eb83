"""Turn a job that an operator runs into files for Git, and a hand-over (`etcompile migrate`)."""

from pathlib import Path
from typing import Any

import click

from etcompile.cli.command_line import HELP, Command, refuse_without
from etcompile.cli.options import OPTIONAL_PATHS, Connection, connects, reports
from etcompile.cli.reporting import Reporting, notices, refuses, report, write
from etcompile.diagnostics import RefusedError
from etcompile.exitcodes import REFUSED


@click.command("migrate", cls=Command, context_settings=HELP)
@OPTIONAL_PATHS
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
    metavar="KIND/NAME",
    help="Read the job, its scale intents and its objects from the cluster.",
)
@click.option("-n", "--namespace", metavar="NS", help="Namespace of the job.")
@click.option(
    "--to",
    type=click.Choice(["trainjob"]),
    help="Go the other way: write a PyTorchJob, JAXJob or XGBoostJob as a TrainJob and its"
    " TrainingRuntime, and report what does not carry over.",
)
@connects
@reports("ignore")
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    reporting: Reporting,
    output: Path | None,
    from_cluster: str | None,
    namespace: str | None,
    to: str | None,
    connection: Connection,
) -> None:
    """Take a job over from its operator.

    PATH is the output of `kubectl get ... -o yaml`, or - for standard input: the custom resource
    with its status, its ScaleOuts and ScaleIns, and those objects of its operator that you want to
    compare. Nothing in the cluster is changed.

    With --to trainjob nothing is taken over: PATH is a file of a repository, and the result is for
    Kubeflow Trainer, or for etcompile.

    Without -d the spec goes to standard output and the instructions to standard error.
    """
    from etcompile.compiler import load
    from etcompile.compiler.choices import Options
    from etcompile.integrations.migrate import migrated, written

    if bool(paths) == bool(from_cluster):
        raise click.UsageError("name files, or a job with --from-cluster KIND/NAME")
    if not from_cluster:
        refuse_without("--from-cluster", "context", "kubeconfig")
    compiling = Options(namespace=None if from_cluster else namespace, output=output)
    inputs: list[Any] = [*paths]
    if from_cluster:
        inputs = _from_cluster(connection, namespace, from_cluster)
    loaded = load.loaded(inputs, compiling, None)
    if refuses(loaded.diagnostics, reporting):
        raise RefusedError(loaded.diagnostics)
    if to is not None:
        from etcompile.integrations.migrate.to_trainjob import to_trainjobs

        result = to_trainjobs(loaded.documents, compiling)
    else:
        result = migrated(loaded.documents, compiling)
    problems = [*loaded.diagnostics, *result.diagnostics]
    if result.files and output is not None and not refuses(problems, reporting):
        problems += written(output, result.files)
    report(problems, reporting)
    if refuses(problems, reporting):
        ctx.exit(REFUSED)
    if output is None:
        specs = [text for name, text in result.files.items() if name.endswith(".yaml")]
        write("---\n".join(specs))
        if "HANDOVER.md" in result.files:
            click.echo(result.files["HANDOVER.md"], err=True)
    elif notices(reporting):
        read = "; read HANDOVER.md" if "HANDOVER.md" in result.files else ""
        click.echo(f"{output}: {', '.join(result.files)}{read}", err=True)


def _from_cluster(connection: Connection, namespace: str | None, named: str) -> list[Any]:
    from etcompile.integrations.migrate.live_jobs import UnknownKindError, job_of
    from etcompile.kubeapi import ClusterError
    from etcompile.load import from_values

    try:
        with connection.connect(namespace) as cluster:
            where = f"cluster {cluster.context or cluster.server}"
            read = from_values(job_of(cluster, named), file=where)
            if read.diagnostics:
                raise RefusedError(read.diagnostics)
            return [*read.documents]
    except UnknownKindError as error:
        raise click.BadParameter(str(error), param_hint="--from-cluster") from None
    except ClusterError as error:
        raise RefusedError(error.diagnostics) from None
