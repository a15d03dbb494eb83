"""A compilation and a cluster to a plan: what `diff` shows and `apply` does."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from etcompile import emit
from etcompile.cli.declarations import Inventories, declarations
from etcompile.compiler import Compilation
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.objects import Object
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.plan.claims import is_member
from etcompile.plan.classes import PRUNES, matched
from etcompile.plan.live import LiveObjects
from etcompile.plan.planning import plan
from etcompile.plan.removing import removal
from etcompile.plan.rights import Rights
from etcompile.plan.room import Read, with_room
from etcompile.plan.sets import JobSet
from etcompile.plan.step import IDLE, REMOVES, ObjectRef, Plan, Step, reference
from etcompile.rollout.dryrun import DryRun, under_another_name
from etcompile.rollout.inventory import members_left
from etcompile.rollout.live import Live
from etcompile.rollout.orphans import Orphan, orphans
from etcompile.rollout.refusing import quota_of


class Planned(Struct, frozen=True):
    """A plan and what else a rollout has to know of it.

    Args:
        plan: The plan, with the objects of orphans at its end.
        members: By title of an orphan, the members of its ApplySet.
        job_set: The set of jobs that was compiled; None for single files.
        accepted: The objects whose planned update the API server has accepted in a dry run.
        diagnostics: What could not be asked.
    """

    plan: Plan
    members: Mapping[str, tuple[ObjectRef, ...]] = field(default_factory=dict)
    job_set: JobSet | None = None
    accepted: frozenset[ObjectRef] = frozenset()
    diagnostics: tuple[Diagnostic, ...] = ()


def planned(
    compilation: Compilation,
    cluster: Cluster,
    rights: Rights,
    *,
    job_set: JobSet | None = None,
    founds: bool = False,
    look: Callable[[Object], None] | None = None,
) -> Planned:
    """The plan that makes a cluster what was compiled.

    Args:
        compilation: What was compiled.
        cluster: The cluster.
        rights: What may be done.
        job_set: The set of jobs that was compiled: those of its jobs that are not declared any
            more are pruned, or named.
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
    server = DryRun(cluster)
    beyond: dict[tuple[str, str, str, str], Object] = {}
    made = plan(
        declared,
        _once(live, sets, references, look or (lambda _: None), beyond),
        emit.wave,
        rights,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
        ask=server.ask,
    )
    accepted, said = frozenset(server.accepted), _unasked(server, cluster)
    if job_set is None:
        made = with_room(made, beyond, _quotas(cluster))
        return Planned(made, accepted=accepted, diagnostics=said)
    jobs = {
        (group.namespace or live.namespace, group.name)
        for group in compilation.groups
        if group.name is not None
    }
    # Left to its own controller, but not gone.
    jobs |= {
        (document.namespace or live.namespace, document.name or "")
        for document in compilation.skipped
    }
    left = orphans(cluster, job_set, jobs, [live.namespace, *(where for where, _ in jobs)])
    steps = _orphaned(left, rights, job_set)
    acting = [step for step in made.steps if step.action not in IDLE]
    idle = [step for step in made.steps if step.action in IDLE]
    gone = [step for step in steps if step.action not in IDLE]
    kept = [step for step in steps if step.action in IDLE]
    members = {
        orphan.title: tuple(reference(value) for value in orphan.objects if is_member(value))
        for orphan in left
    }
    made = structs.replace(made, steps=(*acting, *gone, *idle, *kept))
    beyond |= {reference(value).key: value for orphan in left for value in orphan.objects}
    made = with_room(made, beyond, _quotas(cluster))
    return Planned(made, members, job_set, accepted, said)


def _quotas(cluster: Cluster) -> Read:
    """Reads the ResourceQuotas of a namespace; a full one if that is all that can be learned."""

    def read(namespace: str, wanted: Object) -> Sequence[Object]:
        try:
            return cluster.list(cluster.resource("v1", "ResourceQuota"), namespace).items
        except ClusterError as error:
            if error.status not in (403, 404):
                raise
        try:
            cluster.create(under_another_name(wanted), dry_run=True)
        except ClusterError as error:
            full = quota_of(error)
            return [full] if full is not None else []
        return []

    return read


def _unasked(server: DryRun, cluster: Cluster) -> tuple[Diagnostic, ...]:
    """That the API server was not asked which differences are some."""
    if not server.denied:
        return ()
    where = cluster.context or cluster.server
    return (diagnose(codes.ADMISSION_NOT_ASKED, None, cluster=where, problem=server.denied),)


def _orphaned(left: Sequence[Orphan], rights: Rights, job_set: JobSet) -> tuple[Step, ...]:
    """What to do about the objects of jobs that are not declared any more."""
    found = [(orphan.title, value) for orphan in left for value in orphan.objects]
    reason = f"its job is no longer in {job_set.source}"
    titles = {orphan.title for orphan in left}
    steps = removal(found, emit.wave, adopt=rights.adopt, applied=titles, reason=reason).steps
    if rights.prune:
        return tuple(_unmanaged(step, step.reasons) if step.needs else step for step in steps)
    # Without order: nothing happens to them.
    return tuple(
        step if step.action == "unmanaged" else _unmanaged(step, (f"{reason}; {PRUNES}",))
        for step in steps
        if step.action != "wait"
    )


def _unmanaged(step: Step, reasons: tuple[str, ...]) -> Step:
    return structs.replace(step, action="unmanaged", reasons=reasons, needs=None, after=())


def kept(found: Planned, plan: Plan) -> dict[str, list[ObjectRef]]:
    """The members of each job's ApplySet that are not declared and that a plan leaves alone.

    Args:
        found: What was planned.
        plan: What of it is done.
    """
    removed = {step.ref for step in plan.steps if step.action in REMOVES}
    orphaned = {
        job: [ref for ref in members if ref not in removed]
        for job, members in found.members.items()
    }
    return {**members_left(plan), **orphaned}


def _once(
    live: LiveObjects,
    sets: Inventories,
    references: list[ObjectRef],
    look: Callable[[Object], None],
    beyond: dict[tuple[str, str, str, str], Object],
) -> Iterator[Object]:
    """The live objects: those of the desired names, and members of the inventories beyond."""
    named = [ref for ref in references if ref.name]
    for value in live.get(named):
        look(value)
        yield value
    seen = {_key(ref, live.namespace) for ref in named}
    for value in sets.members(live):
        ref = reference(value)
        if _key(ref, live.namespace) not in seen:
            beyond[ref.key] = value
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
    server = DryRun(cluster)
    for step in steps:
        now = live.get(_key(step.ref, cluster.namespace))
        if step.ref in gone:
            continue  # one that was going when the plan was made, and may be gone by now
        if problem := _difference(step, now, server):
            found.append(
                diagnose(codes.CHANGED_WORLD, None, plan=file, object=step.ref, problem=problem)
            )
    return found


_ANYTHING = Rights(replace=True, adopt=True, prune=True, take_ownership=frozenset("*"))


def _difference(step: Step, now: Object | None, server: DryRun) -> str | None:
    if now is None:
        return None if step.uid is None else "it no longer exists"
    uid = now["metadata"].get("uid")
    if step.uid is None:
        return "it exists now"
    if uid != step.uid:
        return "another object has its name now"
    version = now["metadata"].get("resourceVersion")
    if step.action in ("unchanged", *REMOVES) or version == step.resource_version:
        return None
    if step.manifest is None:
        return "it has changed"
    # What a status or a node changed is no matter; the step must still be this one.
    label = _label(step)
    again = matched(
        step.manifest, now, step.ref, _ANYTHING, label, frozenset({label or ""}), server.ask
    )
    if (again.action, _fields(again)) == (step.action, _fields(step)):
        return None
    return f"it has changed, and the same {step.action} would do something else now"


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
