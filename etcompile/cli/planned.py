"""A compilation and a cluster to a plan: what `diff` shows and `apply` does."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile import emit
from etcompile.cli.declarations import Inventories, declarations
from etcompile.cluster import Cluster
from etcompile.cluster.live import Live
from etcompile.compiler import Compilation
from etcompile.diagnostics import Diagnostic, diagnose
from etcompile.plan.classes import matched
from etcompile.plan.live import LiveObjects
from etcompile.plan.planning import plan
from etcompile.plan.rights import Rights
from etcompile.plan.step import Object, ObjectRef, Plan, Step, reference


def planned(
    compilation: Compilation,
    cluster: Cluster,
    rights: Rights,
    *,
    founds: bool = False,
    look: Callable[[Object], None] | None = None,
) -> Plan:
    """The plan that makes a cluster what was compiled.

    Args:
        compilation: What was compiled.
        cluster: The cluster.
        rights: What may be done.
        founds: Also make the jobs' inventories that are not there yet: to apply, and not only
            to look, at objects that a sync tool may have in its own.
        look: Is shown each live object, once.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    live = Live(cluster)
    sets = Inventories(compilation, live)
    declared = declarations(compilation, sets.wanted if founds else sets.ids, generated=True)
    references = [reference(value) for value in compilation.in_order()]
    references += [reference(value) for group in compilation.groups for value in group.generated]
    return plan(
        declared,
        _once(live, sets, references, look or (lambda _: None)),
        emit.wave,
        rights,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
    )


def _once(
    live: LiveObjects,
    sets: Inventories,
    references: list[ObjectRef],
    look: Callable[[Object], None],
) -> Iterator[Object]:
    """The live objects: those of the desired names, and members of the inventories beyond."""
    named = [ref for ref in references if ref.name]
    for value in live.get(named):
        look(value)
        yield value
    seen = {_key(ref, live.namespace) for ref in named}
    for value in sets.members(live, {ref.api_version for ref in named}):
        if _key(reference(value), live.namespace) not in seen:
            yield value


def changed_world(
    approved: Plan, cluster: Cluster, file: str, look: Callable[[Object], None]
) -> list[Diagnostic]:
    """Why a plan that was made earlier must not be done any more: it would do something else now.

    Args:
        approved: The plan.
        cluster: The cluster.
        file: The plan's name.
        look: Is shown each live object, once.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    live: dict[tuple[str, ...], Object] = {}
    steps = [step for step in approved.steps if step.action not in ("wait", "unmanaged")]
    for value in Live(cluster).get([step.ref for step in steps]):
        look(value)
        live[_key(reference(value), cluster.namespace)] = value
    gone = {step.ref for step in approved.steps if step.until == "gone"}
    found = []
    for step in steps:
        now = live.get(_key(step.ref, cluster.namespace))
        if step.ref in gone:
            continue  # one that was going when the plan was made, and may be gone by now
        if problem := _difference(step, now):
            found.append(diagnose("ET8009", None, plan=file, object=step.ref, problem=problem))
    return found


_ANYTHING = Rights(replace=True, adopt=True, prune=True, take_ownership=frozenset("*"))


def _difference(step: Step, now: Object | None) -> str | None:
    if now is None:
        return None if step.uid is None else "it is not there any more"
    uid = now["metadata"].get("uid")
    if step.uid is None:
        return "it exists now"
    if uid != step.uid:
        return "another one has its name now"
    version = now["metadata"].get("resourceVersion")
    if step.action in ("unchanged", "delete") or version == step.resource_version:
        return None
    if step.manifest is None:
        return "it has changed"
    # What a status or a node changed is no matter; the step must still be this one.
    label = _label(step)
    again = matched(step.manifest, now, step.ref, _ANYTHING, label, frozenset({label or ""}))
    if (again.action, _fields(again)) == (step.action, _fields(step)):
        return None
    return f"it has changed, and this would be another {step.action}"


def _label(step: Step) -> str | None:
    """The ApplySet that a step puts its object into."""
    for change in step.changes:
        if change.steps == ("metadata", "labels", "applyset.kubernetes.io/part-of"):
            return str(change.after)
    return None


def _fields(step: Step) -> list[tuple[Any, ...]]:
    return sorted((one.path, one.how, str(one.before), str(one.after)) for one in step.changes)


def secrets(compilation: Compilation) -> Mapping[ObjectRef, Object]:
    """The Secrets with values among what was compiled: no plan carries them."""
    return {
        reference(value): value for value in compilation.in_order() if value["kind"] == "Secret"
    }


def _key(ref: ObjectRef, namespace: str) -> tuple[str, ...]:
    return ref.group, ref.kind, ref.namespace or namespace, ref.name
