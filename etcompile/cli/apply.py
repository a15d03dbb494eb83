"""`etcompile apply`: job specifications, or a plan, to what a cluster holds."""

import gc
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click
from msgspec import structs

from etcompile import emit
from etcompile.cli.cluster_options import (
    ClusterOptions,
    Duration,
    RightsOptions,
    cluster_options,
    rights,
    rights_options,
)
from etcompile.cli.consent import consent_option
from etcompile.cli.job_sets import set_option
from etcompile.cli.options import (
    CompileOptions,
    TalkOptions,
    colored,
    compile_options,
    explicit,
    options,
    refuses,
    tell,
)
from etcompile.cli.sections import SectionedCommand
from etcompile.cli.structs import takes
from etcompile.cli.suggestion import Choice
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.load import access

if TYPE_CHECKING:
    from etcompile.cli.progress import Progress
    from etcompile.cli.rolling import Done
    from etcompile.k8s.objects import Object
    from etcompile.kubeapi import Cluster
    from etcompile.plan.document import PlanError
    from etcompile.plan.step import Plan

REFUSED = 7
"""Exit code: the input is refused."""
UNREACHED = 6
"""Exit code: the cluster, or the way to it."""
INTERRUPTED = 130
"""Exit code: somebody ended it before there was a rollout."""
CHANGED = 4
"""Exit code: somebody else's object, or another world than the plan's."""
_GIVEN_TO_DIFF = frozenset(
    {
        *("allow_plain_secrets", "cluster_domain", "dlrover_version", "gang", "gang_scheduler"),
        *(
            "ignore_differences",
            "ignore_managed_by",
            "init_image",
            "kubectl_image",
            "kubernetes_version",
            "overlays",
        ),
        *("profiles", "prune", "replace", "replace_data", "run", "secret", "services"),
        *("set_name", "targets", "templates"),
    }
)
"""Options that decide what a plan does, and can change nothing of one that is made."""


class ApplyOptions(CompileOptions, frozen=True, kw_only=True):
    """The options of `etcompile apply`."""

    dry_run: Literal["server", "client"] | None
    rights: RightsOptions
    set_name: str | None
    yes: bool
    wait: Literal["ready", "complete", "none"]
    timeout: float | None
    drain: float | None
    cluster: ClusterOptions


@click.command("apply", cls=SectionedCommand)
@compile_options
@click.option(
    "--dry-run",
    type=Choice(["server", "client"]),
    help="Change nothing and show the plan. server also validates it with the API server.",
)
@rights_options
@set_option
@consent_option
@click.option(
    "--wait",
    type=Choice(["ready", "complete", "none"]),
    default="ready",
    show_default=True,
    help="Wait until everything is ready, until the jobs have completed, or only where the order"
    " requires it.",
)
@click.option(
    "--timeout",
    metavar="T",
    type=Duration(),
    help="Give up after this time, such as 90s, 10m or 1h30m; 0 means never.  [default: 15m;"
    " never with --wait complete]",
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

    PATH is as for render, or one plan.json that `etcompile diff -o` wrote. A plan is applied only
    if its objects have not changed since.

    Exit codes: 0 applied and ready; 2 usage error; 3 not ready in time; 4 conflict with another
    field manager; 5 an object must be replaced, and --replace was not given; 6 the API server
    cannot be reached or refuses; 7 invalid input; 130 interrupted. With 4, 5 and 7 nothing was
    changed. Run the command again to continue where an earlier run ended.
    """
    from etcompile.cli.progress import progress
    from etcompile.kubeapi import ClusterError

    gc.enable()  # a rollout may take days
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    shown = progress(
        given.cluster.output, quiet=given.quiet, color=colored(given.color, sys.stdout)
    )
    with concluded(ctx, shown, given) as leave:
        plan_file = _plan_file(given.paths)
        compilation = None
        approved = None
        said: tuple[Diagnostic, ...] = ()
        if plan_file is not None:
            approved, problems = _read(plan_file, given)
            if problems:
                leave(REFUSED, problems)
        else:
            compilation = compile(given.paths, options(given))
            said = compilation.findings
            problems = [] if refuses(said, given) else _nameless(compilation)
            if problems or refuses(said, given):
                leave(REFUSED, (*said, *problems))
            if given.form == "text":
                tell(said, given)  # a form for machines is one document, at the end
                said = ()
        try:
            context = given.cluster.context or (approved.context if approved else None)
            namespace = given.namespace or (approved.namespace if approved else None)
            where = structs.replace(given.cluster, context=context)
            with where.connect(namespace, shown.repeat) as cluster:
                if compilation is not None:
                    done = _applied(compilation, cluster, given, shown)
                else:
                    assert approved is not None  # noqa: S101 - one of the two is given
                    done = _approved(approved, plan_file or "", cluster, given, shown)
        except ClusterError as error:
            leave(UNREACHED, (*said, error.diagnostic))
        leave(done.code, (*said, *done.diagnostics))


@contextmanager
def concluded(
    ctx: click.Context, shown: "Progress", given: TalkOptions
) -> Iterator[Callable[[int, Sequence[Diagnostic]], NoReturn]]:
    """Lets a command end with an exit code and what it has to say, told to programs as well.

    Args:
        ctx: The command's context.
        shown: Shows its rollout.
        given: The command line's options.

    Yields:
        What ends the command: `leave(code, diagnostics)`.
    """

    def leave(code: int, diagnostics: Sequence[Diagnostic]) -> NoReturn:
        shown.conclude(code, diagnostics)
        tell(diagnostics, given)
        ctx.exit(code)

    try:
        yield leave
    except KeyboardInterrupt:
        shown.conclude(INTERRUPTED, ())
        raise


def _applied(
    compilation: Compilation, cluster: "Cluster", given: ApplyOptions, shown: Any
) -> "Done":
    from etcompile.cli.declarations import job_title
    from etcompile.cli.job_sets import job_set
    from etcompile.cli.planned import kept, planned, secrets
    from etcompile.cli.rolling import Done, Facts
    from etcompile.cli.targets import not_found
    from etcompile.plan.targeting import targeted

    seen: dict[Any, Any] = {}
    found = planned(
        compilation,
        cluster,
        rights(given.rights),
        job_set=job_set(given.paths, given.set_name, cluster.namespace),
        founds=True,
        look=_looker(seen),
    )
    if problems := not_found(found.plan, given.rights.targets):
        return Done(REFUSED, tuple(problems))
    made = targeted(found.plan, given.rights.targets)
    titles = [job_title(group.namespace, group.name) for group in compilation.groups]
    facts = Facts(
        secrets=secrets(compilation),
        deciding={
            title: group.deciding
            for title, group in zip(titles, compilation.groups, strict=True)
            if title
        },
        seen=seen,
        kept=kept(found, made),
        job_set=found.job_set,
        orphans=frozenset(found.members),
        accepted=found.accepted,
    )
    done = _done(made, cluster, facts, given, shown)
    return Done(done.code, (*found.diagnostics, *done.diagnostics))


def _approved(
    approved: "Plan", file: str, cluster: "Cluster", given: ApplyOptions, shown: Any
) -> "Done":
    from etcompile.cli.planned import changed_world
    from etcompile.cli.rolling import Done, Facts

    seen: dict[Any, Any] = {}
    if problems := changed_world(approved, cluster, file, _looker(seen)):
        return Done(CHANGED, tuple(problems))
    return _done(approved, cluster, Facts(seen=seen), given, shown)


def _done(
    made: "Plan",
    cluster: "Cluster",
    facts: Any,
    given: ApplyOptions,
    shown: Any,
) -> "Done":
    from etcompile.cli.consent import consents
    from etcompile.cli.rolling import Done, refused_steps, rolled_out
    from etcompile.plan.classes import PRUNES
    from etcompile.plan.turns import ring
    from etcompile.rollout import Choices

    if told := ring(made.steps):
        return Done(REFUSED, (diagnose(codes.DEADLOCK, None, ring=told),))
    dry_run = given.dry_run
    if dry_run:
        show(made, given.cluster.output, given)
    refused = refused_steps(made)
    if refused is not None or dry_run == "client":
        return refused or Done(0)
    timeout = given.timeout
    if timeout is None and given.wait != "complete":
        timeout = 900.0
    choices = Choices(given.wait, timeout or None, given.drain, given.cluster.concurrency)
    if not dry_run and not consents(made, yes=given.yes):
        return Done(INTERRUPTED, (diagnose(codes.NOT_CONFIRMED, None),))
    may = rights(given.rights)
    done = rolled_out(cluster, made, may, choices, facts, shown, dry_run=dry_run == "server")
    left = [step for step in made.steps if step.action == "unmanaged"]
    could = [step for step in left if any(PRUNES in reason for reason in step.reasons)]
    if could and not given.quiet and given.cluster.output == "text" and given.form == "text":
        count = f"{len(could)} object{'s are' if len(could) > 1 else ' is'}"
        click.echo(f"{count} no longer in the files, and kept: --prune deletes them", err=True)
    return done


def show(made: "Plan", output: str, given: TalkOptions) -> None:
    """Writes the plan, as `diff` does."""
    if output == "json":
        import json

        from etcompile.plan.document import plan_value

        text = json.dumps(plan_value(made, whole=False), ensure_ascii=False) + "\n"
    else:
        from etcompile.plan.show.text import text as lines

        color = colored(given.color, sys.stdout)
        text = "".join(f"{line}\n" for line in lines(made, emit.to_yaml, color=color))
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.flush()


def _looker(seen: dict[Any, Any]) -> Any:
    """Notes how far live objects are, while they pass."""
    from etcompile.rollout.reasons import has_rule, standing

    def look(value: "Object") -> None:
        if has_rule(value["kind"]):
            metadata = value["metadata"]
            namespace = metadata.get("namespace") or ""
            key = (value["apiVersion"], value["kind"], namespace, metadata["name"])
            seen[key] = standing(value)

    return look


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


def _read(file: str, given: ApplyOptions) -> tuple["Plan | None", list[Diagnostic]]:
    """The plan of a file, or why it cannot be done as it was asked for."""
    from etcompile.plan.document import PlanError, read_plan

    if given.wait == "complete":
        raise click.UsageError(
            "a plan does not say what completes a run: give the job files instead"
        )
    if names := sorted(_GIVEN_TO_DIFF & explicit()):
        called = {one.name: one.opts[-1] for one in click.get_current_context().command.params}
        words = ", ".join(sorted(called[name] for name in names))
        raise click.UsageError(f"a plan is made already: give {words} to etcompile diff instead")
    try:
        data = access.content(file)
        found = read_plan(data)
    except OSError as error:
        return None, [
            diagnose(codes.UNUSABLE_PLAN, Location(file), plan=file, problem=error, advice="")
        ]
    except PlanError as error:
        return None, [
            diagnose(codes.UNUSABLE_PLAN, place, plan=file, problem=one.text, advice="")
            for one, place in zip(error.problems, _places(file, data, error), strict=True)
        ]
    context, namespace = given.cluster.context, given.namespace
    problem = advice = ""
    if found.against != "cluster":
        problem = f"it was made against {found.against}, and not against a cluster"
    elif context and found.context and context != found.context:
        problem = f"it was made for the context {found.context}, and not for {context}"
        advice = f"leave out --context, or make a plan: etcompile diff --context {context}"
    elif namespace and found.namespace and namespace != found.namespace:
        problem = f"it was made for the namespace {found.namespace}, not for {namespace}"
        advice = "leave out --namespace, or make the plan with it"
    if problem:
        place = Location(file, 1)
        return None, [
            diagnose(codes.UNUSABLE_PLAN, place, plan=file, problem=problem, advice=advice)
        ]
    return found, []


def _places(file: str, data: bytes, error: "PlanError") -> Iterator[Location]:
    """Where the problems of a plan's file stand in it."""
    from etcompile.load import parse

    documents = parse(data, file=file).documents
    for problem in error.problems:
        if problem.byte is not None:
            before = data.rstrip()[: problem.byte].decode(errors="replace")
            line = before.count("\n") + 1
            yield Location(file, line, len(before) - before.rfind("\n"))
        elif documents:
            yield documents[0].locate(problem.path)
        else:
            yield Location(file, 1)


def _nameless(compilation: Compilation) -> list[Diagnostic]:
    from etcompile.plan.step import reference

    return [
        diagnose(codes.NO_NAME_TO_APPLY, None, object=reference(value))
        for value in compilation.in_order()
        if not value["metadata"].get("name")
    ]
