"""List the kinds that can be compiled, and the shipped runtimes (`etcompile kinds`)."""

import json

import click

from etcompile import emit, frontends
from etcompile.cli.command_line import HELP, Command, did_you_mean
from etcompile.cli.options import chooses_output


@click.command("kinds", cls=Command, context_settings=HELP)
@click.option(
    "--runtime",
    metavar="NAME",
    help="Print a runtime that Trainer ships, as YAML that you can copy and edit.",
)
@chooses_output("A table, or a list for scripts.", "text", "json")
def command(runtime: str | None, output: str) -> None:
    """List the kinds that can be compiled, and the runtimes that TrainJobs need no file for."""
    from etcompile.compiler.runtime_merge import shipped
    from etcompile.frontends.trainer.runtimes import NOT_COMPILED, TRAINER_VERSION

    if runtime is not None:
        runtimes = {document.name or "": document for document in shipped()}
        if runtime in NOT_COMPILED:
            problem = f"'{runtime}' is not compiled: {NOT_COMPILED[runtime]}"
            raise click.BadParameter(problem, param_hint="--runtime")
        if runtime not in runtimes:
            near = did_you_mean(runtime, runtimes) or f" It ships {', '.join(runtimes)}"
            problem = f"Trainer {TRAINER_VERSION} ships no runtime '{runtime}'.{near}"
            raise click.BadParameter(problem, param_hint="--runtime")
        click.echo(f"# As Kubeflow Trainer {TRAINER_VERSION} ships it. A file of the input, or of")
        click.echo("# the setting runtimes, counts before the shipped one of its name.")
        click.echo(emit.to_yaml(runtimes[runtime].data), nl=False)
        return
    if output == "json":
        kinds = [
            {"apiVersion": kind.api_version, "kind": kind.name, "summary": kind.summary}
            for kind in frontends.kinds()
        ]
        named = [{"name": document.name} for document in shipped()]
        named += [{"name": name, "refused": why} for name, why in NOT_COMPILED.items()]
        click.echo(json.dumps({"kinds": kinds, "runtimes": named}, indent=2))
        return
    group = None
    width = max(len(kind.name) for kind in frontends.kinds())
    for kind in frontends.kinds():
        if kind.api_version != group:
            group = kind.api_version
            click.echo(group)
        click.echo(f"  {kind.name:<{width}}  {kind.summary}")
    click.echo(f"Runtimes that TrainJobs may name without a file, as of Trainer {TRAINER_VERSION}:")
    for document in shipped():
        click.echo(f"  {document.name}")
    for name, reason in NOT_COMPILED.items():
        click.echo(f"  {name}, refused: {reason}")
    click.echo("Every other Kubernetes object among the inputs passes through, checked.")
