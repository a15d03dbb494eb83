"""A compilation and a cluster to a proposal: what `diff` shows and `apply` does."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import structs

from etcompile import emit
from etcompile.compiler import Compilation
from etcompile.diagnostics import Diagnostic, Severity, codes, diagnose
from etcompile.exitcodes import INPUT
from etcompile.k8s.conditions import is_true
from etcompile.k8s.objects import Object, status_of
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import STORED_JOB
from etcompile.model.run import is_only_another_run
from etcompile.operations.declarations import declarations, job_title
from etcompile.operations.proposal import ImpossibleError, Proposal, Result
from etcompile.plan import applysets
from etcompile.plan.applysets import SET, SOURCE, belonging, of_other_set, orphan_job, other_set
from etcompile.plan.classes import PRUNE
from etcompile.plan.owners import config_of_others, is_member
from etcompile.plan.planner import plan
from etcompile.plan.quotas import Read, within_quotas
from etcompile.plan.removal import EMPTY_INVENTORY, removal
from etcompile.plan.schedule import ring
from etcompile.plan.scope import Rights, targeted, unknown_targets
from etcompile.plan.step import (
    IDLE,
    REMOVES,
    JobSet,
    ObjectKey,
    ObjectRef,
    Plan,
    Reason,
    Remedy,
    Step,
    deletion,
    reference,
)
from etcompile.rollout.inventory import members_left
from etcompile.rollout.lease import seen_version
from etcompile.rollout.live import (
    Live,
    Orphan,
    cluster_identity,
    is_covered,
    orphans,
    parents,
    pods_of,
)
from etcompile.rollout.machine.reasons import ObjectState, has_rule, object_state
from etcompile.rollout.machine.targets import Key
from etcompile.rollout.preflight.dryrun import DryRun, under_another_name
from etcompile.rollout.refusals import quota_of


class _Inventories:
    """The ApplySets of the jobs of a compilation, as far as the cluster has them.

    Args:
        compilation: What was compiled.
        live: The cluster.
    """

    def __init__(self, compilation: Compilation, live: Live) -> None:
        self.ids: dict[str | None, str] = {}
        """Of the sets that are there."""
        self.wanted: dict[str | None, str] = {}
        """Of all, also those that are still to be made."""
        self.parents: dict[str | None, Object] = {}
        """The parents of those, by job."""
        parents: dict[ObjectKey, tuple[ObjectRef, str | None]] = {}
        for group in compilation.groups:
            if group.name:
                ref = applysets.parent(group.name, group.namespace or live.namespace)
                title = job_title(group.namespace, group.name)
                parents[ref.key] = ref, title
                self.wanted[title] = applysets.applyset_id(ref)
        for found in live.get([ref for ref, _ in parents.values()]):
            ref, title = parents[reference(found).key]
            if applysets.is_parent(found, ref):
                self.ids[title] = applysets.applyset_id(ref)
                self.parents[title] = found

    def members(self, live: Live) -> Iterator[Object]:
        """The objects of the sets."""
        for found in self.parents.values():
            kinds, namespaces = applysets.members(found)
            label = found["metadata"]["labels"][applysets.INVENTORY_ID]
            yield from live.labelled(kinds, namespaces, {applysets.PART_OF: label})


def apply_proposal(
    compilation: Compilation,
    cluster: Cluster,
    rights: Rights | None = None,
    *,
    job_set: JobSet | None = None,
    targets: Sequence[str] = (),
) -> Proposal:
    """What makes a cluster what was compiled. Nothing is written.

    Args:
        compilation: What was compiled.
        cluster: The cluster, which is only read.
        rights: What may be done; if None, nothing is replaced, taken over or deleted.
        job_set: The set of jobs that was compiled (`operations.job_set`): those of its jobs that
            are not declared any more are pruned, or named.
        targets: Limit it to these objects: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME`.

    Raises:
        ClusterError: the cluster cannot be read.
        ImpossibleError: the compilation has errors, an object has no name, a target is no object
            of the plan, or objects wait for each other.
    """
    if not compilation.ok or (problems := nameless(compilation)):
        errors = [
            diagnostic
            for diagnostic in compilation.diagnostics
            if diagnostic.severity is Severity.ERROR
        ]
        raise ImpossibleError(Result(INPUT, tuple(errors or problems)))
    return acyclic(_proposal(compilation, cluster, rights or Rights(), job_set, targets))


def _proposal(
    compilation: Compilation,
    cluster: Cluster,
    rights: Rights,
    job_set: JobSet | None,
    targets: Sequence[str] = (),
    *,
    new_sets: bool = True,
) -> Proposal:
    live = Live(cluster)
    sets = _Inventories(compilation, live)
    now = cluster.now()
    versions = {title: seen_version(sets.parents.get(title), now) for title in sets.wanted if title}
    declared = declarations(compilation, sets.wanted if new_sets else sets.ids, generated=True)
    references = [reference(value) for value in compilation.in_order()]
    references += [reference(value) for group in compilation.groups for value in group.generated]
    # A job of another kind may have the name, and its ConfigMap another one.
    references += [
        structs.replace(reference(value), name=name)
        for value in compilation.in_order()
        if (name := config_of_others(value))
    ]
    server = DryRun(cluster)
    beyond: dict[ObjectKey, Object] = {}
    seen: dict[Key, ObjectState] = {}
    made = plan(
        declared,
        _once(live, sets, references, seen, beyond),
        emit.wave,
        rights,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
        ask=server.ask,
        read_pods=partial(pods_of, cluster),
    )
    problems: list[Diagnostic] = []
    if not rights.adopt:
        others = (
            of_other_set(reference(parent), title, other)
            for title, parent in sets.parents.items()
            if title is not None and (other := other_set(parent, job_set))
        )
        operated = _operated(compilation, cluster, problems)
        made = structs.replace(made, steps=(*made.steps, *others, *operated))
    members: dict[str, tuple[ObjectRef, ...]] = {}
    if job_set is not None and job_set.whole:
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
        steps = _orphaned(cluster, left, rights, job_set)
        acting = [step for step in made.steps if step.action not in IDLE]
        idle = [step for step in made.steps if step.action in IDLE]
        gone = [step for step in steps if step.action not in IDLE]
        stays = [step for step in steps if step.action in IDLE]
        members = {
            orphan.title: tuple(reference(value) for value in orphan.objects if is_member(value))
            for orphan in left
        }
        made = structs.replace(made, steps=(*acting, *gone, *idle, *stays))
        problems += _moved(sets, job_set, jobs, cluster, rights)
        job_set = structs.replace(job_set, orphans=tuple(members))
        beyond |= {reference(value).key: value for orphan in left for value in orphan.objects}
        versions |= {orphan.title: seen_version(orphan.inventory, now) for orphan in left}
    problems += _only_renamed(made.steps)
    made = structs.replace(made, cluster=cluster_identity(cluster), job_set=job_set)
    made = within_quotas(made, beyond, _quotas(cluster))
    if server.denied:
        where = cluster.context or cluster.server
        facts = {"cluster": where, "problem": server.denied}
        problems.insert(0, diagnose(codes.ADMISSION_NOT_ASKED, None, **facts))
    if unknown := unknown_targets(made, targets):
        raise ImpossibleError(Result(INPUT, tuple(unknown)))
    made = targeted(made, targets)
    return Proposal(
        plan=made,
        rights=rights,
        secrets={
            reference(value): value for value in compilation.in_order() if value["kind"] == "Secret"
        },
        deciding={
            title: group.deciding
            for group in compilation.groups
            if (title := job_title(group.namespace, group.name))
        },
        seen=seen,
        kept=_members_left(members, made),
        job_set=job_set,
        orphans=frozenset(members),
        accepted=frozenset(server.accepted),
        versions=versions,
        diagnostics=tuple(problems),
    )


def live_comparison(
    compilation: Compilation, cluster: Cluster, rights: Rights, *, job_set: JobSet | None = None
) -> Proposal:
    """What `apply_proposal` would propose, to look at; without inventories that are not there yet.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    return _proposal(compilation, cluster, rights, job_set, new_sets=False)


def _moved(
    sets: _Inventories,
    job_set: JobSet,
    declared: Collection[tuple[str, str]],
    cluster: Cluster,
    rights: Rights,
) -> Iterator[Diagnostic]:
    """That jobs leave another set, with those that stay in it and that nobody looks for now."""
    former: dict[str, str] = {}
    for parent in sets.parents.values():
        labels, annotations = belonging(parent)
        if rights.adopt or not other_set(parent, job_set):
            former[labels.get(SET, job_set.id)] = annotations.get(SOURCE, "")
    former.pop(job_set.id, None)
    places = [cluster.namespace, *(where for where, _ in declared)]
    for label, source in former.items():
        there = (parent for parent in parents(cluster, label, places) if is_covered(parent, places))
        found = [orphan_job(parent, declared) for parent in there]
        left = ", ".join("/".join(job) for job in sorted(filter(None, found))) or "none"
        yield diagnose(codes.SET_CHANGED, None, former=source, set=job_set.source, jobs=left)


def _only_renamed(steps: Iterable[Step]) -> Iterator[Diagnostic]:
    """A warning for jobs whose Pods get new names and are otherwise what they were."""
    found = [
        str(step.job)
        for step in steps
        for change in step.changes
        if change.steps == ("data", STORED_JOB)
        and is_only_another_run(str(change.before), str(change.after))
    ]
    if found:
        yield diagnose(codes.ONLY_ANOTHER_RUN, None, jobs=", ".join(found))


def _operated(
    compilation: Compilation, cluster: Cluster, problems: list[Diagnostic]
) -> Iterator[Step]:
    """The refusals of jobs that an operator in the cluster runs under the same name."""
    unread: set[str] = set()
    for group in compilation.groups:
        if group.origin is None:
            continue
        data = group.origin.source.data
        if any(value["kind"] == data["kind"] for value in group.objects):
            continue  # the job's own Pods want it there, and no operator runs it
        try:
            resource = cluster.served(data["apiVersion"].rpartition("/")[0], data["kind"])
            if resource is None:
                continue
            where = group.namespace or cluster.namespace
            live = cluster.get(resource, group.name or "", where)
        except ClusterError as error:
            if error.status != 403:
                raise
            if data["kind"] not in unread:
                unread.add(data["kind"])
                facts = {"kind": data["kind"], "problem": str(error)}
                problems.append(diagnose(codes.OPERATOR_UNREAD, None, **facts))
            continue
        if live is None or _has_ended(live):
            continue
        ref = ObjectRef(resource.api_version, resource.kind, where, group.name or "")
        title = job_title(group.namespace, group.name)
        why = Reason(
            f"the cluster has a {resource.kind} of this name, whose operator would run the same"
            " job: `etcompile migrate` hands it over",
            Remedy("adopt", "delete it, or give --adopt when its operator no longer runs it"),
        )
        yield Step("conflict", ref, (why,), job=title, needs="adopt")


def _has_ended(live: Object) -> bool:
    """Whether an operator starts no more Pods of a job: it has succeeded or failed."""
    status = status_of(live)
    ends = ("Succeeded", "Failed", "Complete")
    return status.get("phase") in ends or any(is_true(status, end) for end in ends)


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


def _orphaned(
    cluster: Cluster, left: Sequence[Orphan], rights: Rights, job_set: JobSet
) -> tuple[Step, ...]:
    """What to do about the objects of jobs that are not declared any more."""
    found = [(orphan.title, value) for orphan in left for value in orphan.objects]
    reason = f"its job is no longer in {job_set.source}"
    titles = {orphan.title for orphan in left}
    steps = removal(
        found,
        emit.wave,
        adopt=rights.adopt,
        applied=titles,
        reason=reason,
        namespace=cluster.namespace,
        read_pods=partial(pods_of, cluster) if rights.prune else None,
    ).steps
    # An apply that was killed may have deleted the members and not the inventory.
    empty = [orphan.inventory for orphan in left if not orphan.objects]
    steps = (*steps, *(deletion(inventory, EMPTY_INVENTORY) for inventory in empty))
    if rights.prune:
        return tuple(_unmanaged(step, step.why) if step.needs else step for step in steps)
    # Without order: nothing happens to them.
    return tuple(
        step if step.action == "unmanaged" else _unmanaged(step, (Reason(reason, PRUNE),))
        for step in steps
        if step.action != "wait"
    )


def _unmanaged(step: Step, why: tuple[Reason, ...]) -> Step:
    return structs.replace(step, action="unmanaged", why=why, needs=None, after=())


def _members_left(
    members: Mapping[str, tuple[ObjectRef, ...]], plan: Plan
) -> dict[str, list[ObjectRef]]:
    """The members of each job's ApplySet that are not declared and that a plan leaves alone."""
    removed = {step.ref for step in plan.steps if step.action in REMOVES}
    orphaned = {job: [ref for ref in refs if ref not in removed] for job, refs in members.items()}
    return {**members_left(plan), **orphaned}


def _once(
    live: Live,
    sets: _Inventories,
    references: list[ObjectRef],
    seen: dict[Key, ObjectState],
    beyond: dict[ObjectKey, Object],
) -> Iterator[Object]:
    """The live objects: those of the desired names, and members of the inventories beyond.

    Notes how far the first are, while they pass.
    """
    named = [ref for ref in references if ref.name]
    for value in live.get(named):
        note(value, seen)
        yield value
    declared = {ref.key_in(live.namespace) for ref in named}
    for value in sets.members(live):
        ref = reference(value)
        if ref.key_in(live.namespace) not in declared:
            beyond[ref.key] = value
            yield value


def nameless(compilation: Compilation) -> list[Diagnostic]:
    """An error for each object that has no name to apply it by."""
    return [
        diagnose(codes.NO_NAME_TO_APPLY, None, object=reference(value))
        for value in compilation.in_order()
        if not value["metadata"].get("name")
    ]


def acyclic(proposal: Proposal) -> Proposal:
    """The proposal, whose objects do not wait for each other.

    Raises:
        ImpossibleError: they do.
    """
    if told := ring(proposal.plan.steps):
        deadlock = diagnose(codes.DEADLOCK, None, ring=told)
        raise ImpossibleError(Result(INPUT, (*proposal.diagnostics, deadlock)))
    return proposal


def note(value: Object, seen: dict[Key, ObjectState]) -> None:
    """Notes how far a live object is."""
    if has_rule(value["kind"]):
        ref = reference(value)
        seen[value["apiVersion"], ref.kind, ref.namespace or "", ref.name] = object_state(value)
