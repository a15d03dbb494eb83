"""Apply job specifications, or a plan, to a cluster (`etcompile apply`)."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec import structs

from etcompile.cli.command_line import converted, long_name, option, subcommand
from etcompile.cli.configured import CompilingCommand, job_set
from etcompile.cli.options import (
    SET_NAME,
    CompileOptions,
    RightsOptions,
    SettingOptions,
    compiler_options,
    duration,
    explicit,
)
from etcompile.cli.reporting import compiled, refuses, report
from etcompile.cli.rollouts import TIMEOUT, RolloutOptions, Session, Wait
from etcompile.exitcodes import INPUT
from etcompile.load import access
from etcompile.plan.step import Plan

if TYPE_CHECKING:
    from etcompile.compiler import Compilation

_OF_APPLY = {"form", "color", "quiet", "strict", "ignore", "namespace", "adopt", "take_ownership"}
"""Options of compiling and of rights that also apply to a plan of `diff`."""


class _Options(CompileOptions, frozen=True, kw_only=True):
    rights: RightsOptions
    set_name: str | None = SET_NAME
    wait: Wait = option(
        default="ready",
        help="Wait until everything is ready, until the jobs have completed, or only where the"
        " order requires it.",
    )
    timeout: float | None = TIMEOUT
    drain: float | None = option(
        metavar="T",
        type=str,
        callback=converted(duration),
        help="How long to wait between removing a worker from the host list and deleting its Pod."
        "  [default: 90s]",
    )
    cluster: RolloutOptions


@subcommand("apply", _Options, cls=CompilingCommand, flags=("run",))
def command(ctx: click.Context, options: _Options) -> None:
    """Create or update the objects of jobs in a cluster, in the order that training needs.

    PATH is as for render, or one plan.json that `etcompile diff --plan` wrote. It is applied only
    if its objects have not changed since.

    Exit codes: 0 applied and ready; 2 usage error; 3 not ready in time; 4 conflict with another
    field manager; 5 an object must be replaced, and --replace was not given; 6 the API server
    cannot be reached or refuses; 7 invalid input; 70 an error in etcompile itself; 130 interrupted.
    With 4, 5 and 7 nothing was changed. Run the command again to continue where an earlier run
    ended.
    """
    from etcompile.operations.cluster_plan import apply_proposal
    from etcompile.operations.saved import saved_plan, saved_proposal

    session = Session(ctx, options, options.cluster)
    with session.concluded():
        context, namespace = options.cluster.context or None, options.namespace or None
        declared: Plan | Compilation
        if (file := _plan_file(options.paths)) is not None:
            _refuse_options_of_diff(ctx, options)
            declared = saved_plan(file, context=context, namespace=namespace)
            context, namespace = context or declared.context, namespace or declared.namespace
        else:
            compilation = declared = compiled(options.paths, compiler_options(options), options)
            findings = compilation.findings
            if refuses(findings, options):
                session.leave(INPUT, findings)
            if options.form == "text":
                report(findings, options)
            else:
                session.unreported = findings  # JSON and SARIF are one document, at the end
        where = structs.replace(options.cluster, context=context)
        with where.connect(namespace, notice=session.shown.repeat) as cluster:
            rights = structs.replace(options.rights.rights(), drain=options.drain)
            if isinstance(declared, Plan):
                proposal = saved_proposal(declared, cluster, file or "", rights)
            else:
                proposal = apply_proposal(
                    declared,
                    cluster,
                    rights,
                    job_set=job_set(options.paths, options.set_name, prune=options.rights.prune),
                    targets=options.rights.targets,
                )
            result = session.carry_out(
                cluster, proposal, options.wait, options.timeout, options.drain
            )
        session.leave(result.code, (*proposal.diagnostics, *result.diagnostics))


def _plan_file(paths: tuple[str, ...]) -> str | None:
    if len(paths) == 1 and paths[0].endswith(".json") and Path(paths[0]).is_file():
        from etcompile.plan.plan_file import is_plan

        with contextlib.suppress(OSError):
            return paths[0] if is_plan(access.content(paths[0])) else None
    return None


def _refuse_options_of_diff(ctx: click.Context, options: _Options) -> None:
    if options.wait == "complete":
        raise click.UsageError(
            "a plan does not say what completes a run: give the job files instead"
        )
    decided = {*SettingOptions.__struct_fields__, *RightsOptions.__struct_fields__, "set_name"}
    names = (decided - _OF_APPLY) & explicit()
    called = {
        "--config" if getattr(param, "hidden", False) else f"--{long_name(param)}"
        for param in ctx.command.params
        if param.name in names
    }
    if called:
        words = ", ".join(sorted(called))
        raise click.UsageError(f"a plan is made already: give {words} to etcompile diff instead")
