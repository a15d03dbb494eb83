"""`etcompile kinds`: what can be compiled, by API group."""

import click

from etcompile import frontends
from etcompile.cli.usage import Command


@click.command("kinds", cls=Command)
def command() -> None:
    """List the kinds that can be compiled."""
    group = None
    width = max(len(kind.name) for kind in frontends.kinds())
    for kind in frontends.kinds():
        if kind.api_version != group:
            group = kind.api_version
            click.echo(group)
        click.echo(f"  {kind.name:<{width}}  {kind.summary}")
    click.echo("Every other Kubernetes object among the inputs passes through, checked.")
