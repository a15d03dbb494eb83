"""Apply job specifications, or a plan, to a cluster (`etcompile apply`)."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource
from msgspec import structs

from etcompile.cli.command_line import HELP, CompilingCommand
from etcompile.cli.options import (
    PATHS,
    ChangeOptions,
    RightsOptions,
    changes_cluster,
    compiles,
    job_set,
    takes_rights,
    timeout,
    wait,
)
from etcompile.cli.reporting import Reporting, compiled, refuses, report
from etcompile.cli.rollouts import Session, Wait
from etcompile.exitcodes import INPUT
from etcompile.load import access
from etcompile.plan.step import Plan

if TYPE_CHECKING:
    from etcompile.compiler.configured import Configured
    from etcompile.compiler.pipeline import Compilation

_OF_APPLY = frozenset(
    {"output-format", "color", "quiet", "strict", "ignore", "namespace", "concurrency"}
    | {"take-ownership", "drain"}
)
"""Settings that also apply to a plan of `diff`."""
_OF_DIFF = ("environment", "prune", "replace", "replace_data", "targets")
"""Parameters that a plan has decided."""


@click.command("apply", cls=CompilingCommand, context_settings=HELP)
@PATHS
@compiles("namespace", "overlay", "run", "quiet")
@takes_rights
@wait(
    "Wait until everything is ready, until the jobs have completed, or only where the order"
    " requires it."
)
@timeout()
@changes_cluster
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    configured: "Configured",
    reporting: Reporting,
    rights: RightsOptions,
    wait: Wait,
    timeout: float | None,
    cluster: ChangeOptions,
) -> None:
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

    session = Session(ctx, reporting, cluster, configured.values["concurrency"])
    with session.concluded():
        context, namespace = cluster.context or None, configured.values["namespace"]
        declared: Plan | Compilation
        if (file := _plan_file(paths)) is not None:
            _refuse_options_of_diff(ctx, configured, wait)
            declared = saved_plan(file, context=context, namespace=namespace)
            context, namespace = context or declared.context, namespace or declared.namespace
        else:
            compilation = declared = compiled(paths, configured.options, reporting)
            findings = compilation.findings
            if refuses(findings, reporting):
                session.leave(INPUT, findings)
            if reporting.form == "text":
                report(findings, reporting)
            else:
                session.unreported = findings  # JSON and SARIF are one document, at the end
        where = structs.replace(cluster, context=context)
        with where.connect(namespace, notice=session.shown.repeat) as connected:
            allowed = rights.rights(configured)
            if isinstance(declared, Plan):
                proposal = saved_proposal(declared, connected, file or "", allowed)
            else:
                jobs = job_set(configured, paths, prune=rights.prune)
                proposal = apply_proposal(
                    declared, connected, allowed, job_set=jobs, targets=rights.targets
                )
            result = session.carry_out(connected, proposal, wait, timeout, allowed.drain)
        session.leave(result.code, (*proposal.diagnostics, *result.diagnostics))


def _plan_file(paths: tuple[str, ...]) -> str | None:
    if len(paths) == 1 and paths[0].endswith(".json") and Path(paths[0]).is_file():
        from etcompile.plan.plan_file import is_plan

        with contextlib.suppress(OSError):
            return paths[0] if is_plan(access.content(paths[0])) else None
    return None


def _refuse_options_of_diff(ctx: click.Context, configured: "Configured", wait: Wait) -> None:
    if wait == "complete":
        raise click.UsageError(
            "a plan does not say what completes a run: give the job files instead"
        )
    named = {
        param.name: param.opts[-1]
        for param in ctx.command.params
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    }
    called = {named[name] for name in _OF_DIFF if name in named}
    for key in configured.overrides - _OF_APPLY:
        called.add(f"--{key}" if key in named else f"--config {key}")
    if called:
        words = ", ".join(sorted(called))
        raise click.UsageError(f"a plan is made already: give {words} to etcompile diff instead")
