"""Delete jobs from a cluster, and report what is left (`etcompile delete`)."""

import itertools
import os
import re
import time

import click
from msgspec import structs

from etcompile.cli.command_line import converted, option, subcommand
from etcompile.cli.configured import CompilingCommand, job_set
from etcompile.cli.options import (
    OPTIONAL_PATHS,
    SET_NAME,
    CompileOptions,
    compiler_options,
    duration,
)
from etcompile.cli.reporting import compiled, notices
from etcompile.cli.rollouts import GIVE_UP, RolloutOptions, Session
from etcompile.exitcodes import INPUT
from etcompile.plan.step import reference

_JOB_NAME = re.compile(r"((po|pods?|\w+jobs?)(\.[\w.]+)?/)?[a-z0-9-]+", re.IGNORECASE)
"""Matches what is the name of a job, rather than a missing path."""


class _Options(CompileOptions, frozen=True, kw_only=True):
    paths: tuple[str, ...] = OPTIONAL_PATHS
    names: tuple[str, ...] = option("--job", metavar="NAME", help="Name of a job. May be repeated.")
    adopt: bool = option(help="Also delete what another tool or set manages.")
    set_name: str | None = SET_NAME
    timeout: float = option(
        metavar="T", type=str, callback=converted(duration), default="15m", help=GIVE_UP
    )
    cluster: RolloutOptions


@subcommand("delete", _Options, cls=CompilingCommand, flags=("concurrency",))
def command(ctx: click.Context, options: _Options) -> None:
    """Delete jobs from a cluster: the jobs of PATHs, or those named with --job.

    An object belongs to a job if it is in the job's inventory, or if it has the job's label and
    etcompile created it. Launchers are deleted first, then the other Pods, then what they used.
    PersistentVolumeClaims, and Secrets that etcompile did not create, are kept and listed.

    The exit codes are those of apply.
    """
    from etcompile.operations.cluster_plan import delete_proposal
    from etcompile.rollout import StepEvent

    session = Session(ctx, options, options.cluster)
    with session.concluded():
        if bool(options.paths) == bool(options.names):
            raise click.UsageError("name files, or jobs with --job NAME")
        for path in options.paths:
            if not os.path.lexists(path) and _JOB_NAME.fullmatch(path):
                problem = f"there is no file '{path}': to delete the job, use --job {path}"
                raise click.UsageError(problem)
        compilation = None
        if options.paths:
            chosen = structs.replace(compiler_options(options), without_keys=True)
            compilation = compiled(options.paths, chosen, options)
            if not compilation.ok:
                session.leave(INPUT, compilation.findings)

        def report_absent(namespace: str, job: str) -> None:
            if notices(options):
                words = f"there is nothing of the job {job} in the namespace {namespace}"
                click.echo(words, err=True)

        with options.cluster.connect(options.namespace, notice=session.shown.repeat) as cluster:
            proposal = delete_proposal(
                cluster,
                [(options.namespace, name) for name in options.names],
                compilation,
                adopt=options.adopt,
                job_set=job_set(options.paths, options.set_name) if options.paths else None,
                absent=report_absent,
            )
            for step in () if options.cluster.dry_run else proposal.plan.steps:
                if step.action != "unmanaged":
                    continue
                reason, now = ", ".join(step.reasons), time.time()
                if options.cluster.output == "json":
                    event = StepEvent(step.ref, step.action, "kept", reason, step.job, now)
                    session.shown.tell(event)
                elif notices(options):
                    click.echo(f"kept: {step.ref} ({reason})", err=True)
            result = session.carry_out(cluster, proposal, "none", options.timeout)
        if compilation is not None and notices(options):
            loose = (group.objects for group in compilation.groups if not group.name)
            for value in itertools.chain.from_iterable(loose):
                click.echo(f"kept: {reference(value)} (it belongs to no job)", err=True)
        session.leave(result.code, result.diagnostics)
