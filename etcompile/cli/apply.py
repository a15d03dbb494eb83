"""`etcompile apply`: job specifications, or a plan, to what a cluster holds."""

from pathlib import Path
from typing import Literal

import click
from msgspec import structs

from etcompile.cli.cluster_options import (
    ClusterOptions,
    Duration,
    RightsOptions,
    cluster_options,
    job_set,
    rights,
    rights_options,
    set_option,
)
from etcompile.cli.configured import CompilingCommand
from etcompile.cli.options import (
    CompileOptions,
    SettingOptions,
    TalkOptions,
    compile_options,
    explicit,
    file_only,
    options,
    refuses,
    tell,
)
from etcompile.cli.rollouts import (
    Session,
    WaitOptions,
    consent_option,
    dry_run_option,
    limit,
    wait_options,
)
from etcompile.cli.structs import takes
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.exitcodes import INPUT
from etcompile.load import access
from etcompile.plan.step import Plan

_GIVEN_TO_DIFF = (
    {*SettingOptions.__struct_fields__, *RightsOptions.__struct_fields__, "set_name"}
    - {*TalkOptions.__struct_fields__}
    - {"namespace", "adopt", "take_ownership"}
)
"""Options that decide what a plan does, and can change nothing of one that is made."""


class ApplyOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile apply`."""

    dry_run: Literal["server", "client"] | None
    rights: RightsOptions
    set_name: str | None
    yes: bool
    waiting: WaitOptions
    drain: float | None
    cluster: ClusterOptions


@click.command("apply", cls=CompilingCommand)
@file_only("run")
@compile_options
@dry_run_option
@rights_options
@set_option
@consent_option
@wait_options(
    "Wait until everything is ready, until the jobs have completed, or only where the order"
    " requires it."
)
@click.option(
    "--drain",
    metavar="T",
    type=Duration(),
    help="How long to wait between removing a worker from the host list and deleting its Pod."
    "  [default: 90s]",
)
@cluster_options
@takes(ApplyOptions)
def command(ctx: click.Context, given: ApplyOptions) -> None:
    """Create or update the objects of jobs in a cluster, in the order that training needs.

    PATH is as for render, or one plan.json that `etcompile diff --plan` wrote. It is applied only
    if its objects have not changed since.

    Exit codes: 0 applied and ready; 2 usage error; 3 not ready in time; 4 conflict with another
    field manager; 5 an object must be replaced, and --replace was not given; 6 the API server
    cannot be reached or refuses; 7 invalid input; 70 an error in etcompile itself; 130 interrupted.
    With 4, 5 and 7 nothing was changed. Run the command again to continue where an earlier run
    ended.
    """
    from etcompile.operations.planner import apply_proposal
    from etcompile.operations.saved import saved_plan, saved_proposal
    from etcompile.rollout import Choices

    session = Session(ctx, given, given.cluster.output)
    with session.concluded():
        context, namespace = given.cluster.context or None, given.namespace or None
        wanted: Plan | Compilation
        if (file := _plan_file(given.paths)) is not None:
            _refuse_what_diff_takes(given)
            wanted = saved_plan(file, context=context, namespace=namespace)
            context, namespace = context or wanted.context, namespace or wanted.namespace
        else:
            wanted = _compiled(session, given)
        where = structs.replace(given.cluster, context=context)
        with where.connect(namespace, session.shown.repeat) as cluster:
            may = rights(given.rights)
            if isinstance(wanted, Plan):
                proposal = saved_proposal(wanted, cluster, file or "", may)
            else:
                proposal = apply_proposal(
                    wanted,
                    cluster,
                    may,
                    job_set=job_set(given.paths, given.set_name, prune=given.rights.prune),
                    targets=given.rights.targets,
                )
            timeout, concurrency = limit(given.waiting), given.cluster.concurrency
            choices = Choices(given.waiting.wait, timeout, given.drain, concurrency)
            result = session.carry_out(
                cluster, proposal, choices, dry_run=given.dry_run, yes=given.yes
            )
        session.leave(result.code, (*proposal.diagnostics, *result.diagnostics))


def _compiled(session: Session, given: ApplyOptions) -> Compilation:
    """What the paths compile to; ends the command if it cannot be applied."""
    from etcompile.operations.planner import nameless

    compilation = compile(given.paths, options(given))
    said = compilation.findings
    refused = refuses(said, given)
    problems = [] if refused else nameless(compilation)
    if refused or problems:
        session.leave(INPUT, (*said, *problems))
    if given.form == "text":
        tell(said, given)
    else:
        session.said = said  # a form for machines is one document, at the end
    return compilation


def _plan_file(paths: tuple[str, ...]) -> str | None:
    """The one path if it is a plan's."""
    if len(paths) == 1 and paths[0].endswith(".json") and Path(paths[0]).is_file():
        from etcompile.plan.document import is_plan

        try:
            data = access.content(paths[0])
        except OSError:
            return None
        if is_plan(data):
            return paths[0]
    return None


def _refuse_what_diff_takes(given: ApplyOptions) -> None:
    """Refuses what a plan cannot be asked any more."""
    if given.waiting.wait == "complete":
        raise click.UsageError(
            "a plan does not say what completes a run: give the job files instead"
        )
    if names := sorted(_GIVEN_TO_DIFF & explicit()):
        called = {
            parameter.name: "--config"
            if getattr(parameter, "hidden", False)
            else parameter.opts[-1]
            for parameter in click.get_current_context().command.params
        }
        words = ", ".join(sorted({called[name] for name in names}))
        raise click.UsageError(f"a plan is made already: give {words} to etcompile diff instead")
