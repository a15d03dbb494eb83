"""Write down what a cluster has (`etcompile capacity`), and run `--capacity` of other commands."""

from typing import TYPE_CHECKING

import click

from etcompile import emit
from etcompile.cli.command_line import HELP, Command, Group
from etcompile.cli.options import Connection, connects, reports
from etcompile.cli.reporting import Reporting, notices, write

if TYPE_CHECKING:
    from etcompile.capacity.snapshot import Snapshot
    from etcompile.compiler.configured import Configured
    from etcompile.compiler.pipeline import Compilation
    from etcompile.operations.cluster_capacity import JobCapacity


def capacity_of(
    compilation: "Compilation", configured: "Configured"
) -> "tuple[list[JobCapacity], Snapshot | None]":
    from etcompile.operations import cluster_capacity

    shot, name = None, configured.values["capacity"] or ""
    if name.partition(":")[0] == "cluster":
        connection = Connection(context=name.partition(":")[2] or None)
        with connection.connect() as cluster:
            shot, _ = cluster_capacity.read_cluster(cluster)
    elif name:
        shot = cluster_capacity.read_file(name)
    pairs = (price.partition("=") for price in configured.values["price"])
    prices = {name: float(price) for name, _, price in pairs}
    return cluster_capacity.job_capacities(compilation, shot, prices), shot


@click.group("capacity", cls=Group, context_settings=HELP)
def command() -> None:
    """Write down what a cluster has, for check --capacity."""


@command.command("snapshot", cls=Command, context_settings=HELP)
@connects
@reports()
def _snapshot(reporting: Reporting, connection: Connection) -> None:
    """Write a snapshot of a cluster's capacity to standard output.

    It has groups of equal nodes, sums of what runs on them, quotas and queues. It names no Pods,
    images or nodes, so that Git can hold it.

    Exit codes: 0 written, 6 the cluster cannot be reached or does not show its nodes and Pods.
    """
    from etcompile.capacity.snapshot import to_document
    from etcompile.operations.cluster_capacity import read_cluster

    with connection.connect() as cluster:
        shot, unread = read_cluster(cluster, is_portable=True)
    if unread and notices(reporting):
        click.echo(f"left out, because you may not list them: {', '.join(unread)}", err=True)
    write(emit.to_yaml(to_document(shot)))
