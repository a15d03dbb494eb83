"""`etcompile apply`: job specifications, or a plan, to what a cluster holds."""

import gc
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from etcompile import emit
from etcompile.cli.cluster_options import Duration, cluster_options
from etcompile.cli.options import colored, compile_options, options, refuses, tell
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, diagnose

if TYPE_CHECKING:
    from etcompile.cli.rolling import Done
    from etcompile.cluster import Cluster
    from etcompile.plan.rights import Rights
    from etcompile.plan.step import Object, Plan

REFUSED = 7
"""Exit code: the input is refused."""
UNREACHED = 6
"""Exit code: the cluster, or the way to it."""
CHANGED = 4
"""Exit code: somebody else's object, or another world than the plan's."""


@click.command("apply")
@compile_options
@click.option(
    "--dry-run",
    type=click.Choice(["server", "client"]),
    help="Write nothing: show the plan; server also has the API server judge every object.",
)
@click.option(
    "--prune/--no-prune", default=False, show_default=True, help="Delete what left the files."
)
@click.option("--replace", is_flag=True, help="Delete and remake what cannot be changed.")
@click.option("--adopt", is_flag=True, help="Take over what other tools look after.")
@click.option(
    "--take-ownership",
    metavar="MANAGER",
    multiple=True,
    help="Change fields that this field manager owns; may be repeated.",
)
@click.option(
    "--wait",
    type=click.Choice(["ready", "complete", "none"]),
    default="ready",
    show_default=True,
    help="Wait until all is ready, until the run has ended, or only where the order needs it.",
)
@click.option(
    "--timeout",
    metavar="T",
    type=Duration(),
    help="Give up after 90s, 10m, 1h30m; 0 for never.  [default: 15m; never with --wait complete]",
)
@click.option(
    "--drain",
    metavar="T",
    type=Duration(),
    help="How long a worker that left the host list may go on before it is deleted."
    "  [default: 90s]",
)
@cluster_options
@click.pass_context
def command(ctx: click.Context, /, paths: tuple[str, ...], **given: Any) -> None:
    """Make a cluster hold what job specifications compile to, in the order that training needs.

    PATH is as for render; or one plan.json that `etcompile diff -o` wrote, which is done only if
    the objects in it are still as they were then.

    Exit codes: 0 done and ready; 2 usage; 3 not ready in time; 4 a conflict with somebody else;
    5 an object must be replaced, and --replace is not given; 6 the API server or the way to it;
    7 refused input; 130 interrupted. With 4, 5 and 7 nothing was changed. Running it again goes on
    where an earlier run ended.
    """
    from etcompile.cluster import ClusterError, connect

    gc.enable()  # a rollout may take days
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan_file = _plan_file(paths)
    compilation = None
    approved = None
    said: tuple[Diagnostic, ...] = ()
    if plan_file is not None:
        approved, problems = _read(plan_file, given)
        if problems:
            tell(problems, given)
            ctx.exit(REFUSED)
    else:
        compilation = compile(paths, options(given))
        said = compilation.diagnostics
        problems = [] if refuses(said, strict=given["strict"]) else _nameless(compilation)
        if problems or refuses(said, strict=given["strict"]):
            tell((*said, *problems), given)
            ctx.exit(REFUSED)
        if given["form"] == "text":
            tell(said, given)  # a form for machines is one document, at the end
            said = ()
    from etcompile.cli.progress import progress

    shown = progress(
        given["output"], quiet=given["quiet"], color=colored(given["color"], sys.stdout)
    )
    try:
        context = given["context"] or (approved.context if approved else None)
        with connect(
            context, given["namespace"], given["kubeconfig"], notice=shown.repeat
        ) as cluster:
            if compilation is not None:
                done = _applied(compilation, cluster, given, shown)
            else:
                assert approved is not None  # noqa: S101 - one of the two is given
                done = _approved(approved, plan_file or "", cluster, given, shown)
    except ClusterError as error:
        tell((*said, error.diagnostic), given)
        ctx.exit(UNREACHED)
    tell((*said, *done.diagnostics), given)
    ctx.exit(done.code)


def _applied(
    compilation: Compilation, cluster: "Cluster", given: dict[str, Any], shown: Any
) -> "Done":
    from etcompile.cli.declarations import job_title
    from etcompile.cli.planned import planned, secrets
    from etcompile.cli.rolling import Facts

    rights = _rights(given)
    seen: dict[Any, Any] = {}
    made = planned(compilation, cluster, rights, founds=True, look=_looker(seen))
    titles = [job_title(group.namespace, group.name) for group in compilation.groups]
    facts = Facts(
        secrets=secrets(compilation),
        deciding={
            title: group.deciding
            for title, group in zip(titles, compilation.groups, strict=True)
            if title
        },
        seen=seen,
    )
    return _done(made, cluster, rights, facts, given, shown)


def _approved(
    approved: "Plan", file: str, cluster: "Cluster", given: dict[str, Any], shown: Any
) -> "Done":
    from etcompile.cli.planned import changed_world
    from etcompile.cli.rolling import Done, Facts

    seen: dict[Any, Any] = {}
    if problems := changed_world(approved, cluster, file, _looker(seen)):
        return Done(CHANGED, tuple(problems))
    return _done(approved, cluster, _rights(given), Facts(seen=seen), given, shown)


def _done(
    made: "Plan",
    cluster: "Cluster",
    rights: "Rights",
    facts: Any,
    given: dict[str, Any],
    shown: Any,
) -> "Done":
    from etcompile.cli.rolling import Done, refused_steps, rolled_out
    from etcompile.cluster.rollout import Choices
    from etcompile.plan.turns import ring

    if told := ring(made.steps):
        return Done(REFUSED, (diagnose("ET7001", None, ring=told),))
    dry_run = given["dry_run"]
    if dry_run:
        _show(made, given)
    refused = refused_steps(made)
    if refused is not None or dry_run == "client":
        return refused or Done(0)
    timeout = given["timeout"]
    if timeout is None and given["wait"] != "complete":
        timeout = 900.0
    choices = Choices(given["wait"], timeout or None, given["drain"], given["concurrency"])
    done = rolled_out(cluster, made, rights, choices, facts, shown, dry_run=dry_run == "server")
    left = [step for step in made.steps if step.action == "unmanaged"]
    could = [step for step in left if any("--prune" in reason for reason in step.reasons)]
    if could and not given["quiet"] and given["output"] == "text" and given["form"] == "text":
        count = f"{len(could)} object{'s are' if len(could) > 1 else ' is'}"
        click.echo(f"{count} no longer declared, and left: --prune deletes them", err=True)
    return done


def _show(made: "Plan", given: dict[str, Any]) -> None:
    """Writes the plan, as `diff` does."""
    if given["output"] == "json":
        import json

        from etcompile.plan.document import plan_value

        text = json.dumps(plan_value(made, whole=False), ensure_ascii=False) + "\n"
    else:
        from etcompile.plan.show.text import text as lines

        color = colored(given["color"], sys.stdout)
        text = "".join(f"{line}\n" for line in lines(made, emit.to_yaml, color=color))
    sys.stdout.buffer.write(text.encode(errors="replace"))
    sys.stdout.flush()


def _rights(given: dict[str, Any]) -> "Rights":
    from etcompile.plan.rights import Rights

    return Rights(
        replace=given["replace"],
        adopt=given["adopt"],
        prune=given["prune"],
        take_ownership=frozenset(given["take_ownership"]),
    )


def _looker(seen: dict[Any, Any]) -> Any:
    """Notes how far live objects are, while they pass."""
    from etcompile.cluster.rollout.reasons import has_rule, standing

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
        try:
            head = Path(paths[0]).read_bytes()
        except OSError:
            return None
        if b'"steps"' in head and b'"digest"' in head:
            return paths[0]
    return None


def _read(file: str, given: dict[str, Any]) -> tuple["Plan | None", list[Diagnostic]]:
    from etcompile.plan.document import PlanError, read_plan

    if given["wait"] == "complete":
        raise click.UsageError("a plan does not say what completes a run: name its files")
    try:
        found = read_plan(Path(file).read_bytes())
    except (PlanError, OSError) as error:
        return None, [diagnose("ET8010", None, plan=file, problem=error)]
    if found.against != "cluster":
        problem = f"it was made against {found.against}, and not against a cluster"
        return None, [diagnose("ET8010", None, plan=file, problem=problem)]
    return found, []


def _nameless(compilation: Compilation) -> list[Diagnostic]:
    from etcompile.plan.step import reference

    return [
        diagnose("ET8011", None, object=reference(value))
        for value in compilation.in_order()
        if not value["metadata"].get("name")
    ]
