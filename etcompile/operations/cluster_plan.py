"""Propose what makes a cluster what was compiled, or what deletes jobs."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from msgspec import structs

from etcompile.compiler.pipeline import Compilation
from etcompile.diagnostics import Diagnostic, RefusedError, Severity, codes, diagnose
from etcompile.exitcodes import CONFLICT, INPUT
from etcompile.k8s.names import is_label
from etcompile.k8s.objects import Object
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.errors import if_allowed
from etcompile.model.protocol import STORED_JOB
from etcompile.model.run_identity import is_only_another_run
from etcompile.operations.cluster_state import read_live, unread_keys
from etcompile.plan.applysets import of_other_set, other_repository, other_set
from etcompile.plan.deletion import EMPTY_INVENTORY, removable, removal
from etcompile.plan.mounts import endangered
from etcompile.plan.owners import is_member, names_of_config, other_job
from etcompile.plan.planner import ADOPT, PRUNE, arranged, decided
from etcompile.plan.quotas import filled, within_quotas
from etcompile.plan.schedule import Draft, ring
from etcompile.plan.scope import Rights, targeted, unknown_targets
from etcompile.plan.step import (
    IDLE,
    REMOVES,
    JobSet,
    ObjectRef,
    Plan,
    Step,
    deletion,
    reference,
    unmanaged,
)
from etcompile.rollout.dryrun import DryRun
from etcompile.rollout.inventory import seen_version
from etcompile.rollout.live import Orphan, belongings, cluster_identity, inventory_of, pods_of
from etcompile.rollout.machine.messages import Proposal, ProposedJob
from etcompile.several import several
from etcompile.status import AnotherJobError, NoSuchJobError, find_job


class ImpossibleError(RefusedError):
    """There is nothing to propose."""

    def __init__(self, diagnostics: Sequence[Diagnostic], code: int = INPUT) -> None:
        super().__init__(diagnostics, code)


def impossible(code: str, **facts: object) -> ImpossibleError:
    return ImpossibleError([diagnose(code, None, **facts)])


def named_job(cluster: Cluster, word: str, namespace: str | None = None) -> str:
    """Return the name of the job that a word names (`status.find_job`).

    Raises:
        ImpossibleError: it names none.
    """
    try:
        return find_job(cluster, word, namespace or cluster.namespace).name
    except (NoSuchJobError, AnotherJobError) as error:
        raise ImpossibleError(error.diagnostics) from error


def acyclic(proposal: Proposal) -> Proposal:
    """Return the proposal, if its objects do not wait for each other.

    Raises:
        ImpossibleError: they do.
    """
    if cycle := ring(proposal.plan.steps):
        deadlock = diagnose(codes.DEADLOCK, None, ring=cycle)
        raise ImpossibleError((*proposal.diagnostics, deadlock))
    return proposal


def apply_proposal(
    compilation: Compilation,
    cluster: Cluster,
    rights: Rights | None = None,
    *,
    job_set: JobSet | None = None,
    targets: Sequence[str] = (),
) -> Proposal:
    """Propose what makes a cluster what was compiled: `apply` does it, `diff` shows it.

    Args:
        rights: What may be done; if None, nothing is replaced, taken over or deleted.
        job_set: The set of jobs that was compiled (`operations.job_set`): those of its jobs that
            are not declared any more are pruned, or named.
        targets: Limit it to these objects: `NAME`, `KIND/NAME` or `NAMESPACE/KIND/NAME`.

    Raises:
        ClusterError: the cluster cannot be read.
        ImpossibleError: the compilation has errors, an object has no name, a target is no object
            of the plan, or objects wait for each other.
    """
    refused = [each for each in compilation.diagnostics if each.severity is Severity.ERROR]
    if refused := refused or [
        diagnose(codes.NO_NAME_TO_APPLY, None, object=reference(value))
        for value in compilation.in_order()
        if not value["metadata"].get("name")
    ]:
        raise ImpossibleError(refused)
    rights, targets = rights or Rights(), several(targets)
    snapshot = read_live(compilation, cluster, rights, job_set)
    matching = snapshot.matching
    differences = [*matching.differences.values()]
    server = DryRun(cluster)
    answers = server.ask(differences)
    drafts = decided(matching, answers, snapshot.watched, snapshot.now)
    steps = [*arranged(matching, drafts, users(cluster, drafts)), *snapshot.refused]
    live = {key: each.live for key, each in matching.differences.items()} | matching.undeclared
    left: list[Orphan] = []
    if job_set is not None and job_set.complete:
        for orphan in snapshot.orphans:
            origin = "" if rights.adopt else other_repository(orphan.inventory, job_set)
            if origin:  # a repository that only has the name of this one
                words = f"its job is from {origin}, another repository of the name {job_set.owner}"
                steps.append(unmanaged(deletion(orphan.inventory), words, ADOPT))
            else:
                left.append(orphan)
                live |= {reference(value).key: value for value in orphan.objects}
        # Those that act come first, in either part.
        steps += _orphaned(cluster, left, rights, job_set)
        steps.sort(key=lambda step: step.action in IDLE)
        job_set = structs.replace(job_set, orphans=tuple(orphan.title for orphan in left))
    where = cluster.context or cluster.server
    proposed = Plan(
        tuple(steps),
        context=where,
        namespace=cluster.namespace,
        cluster=cluster_identity(cluster),
        job_set=job_set,
    )
    proposed = within_quotas(proposed, live, quotas(cluster, proposed))
    if unknown := unknown_targets(proposed, targets):
        raise ImpossibleError(unknown)
    proposed = targeted(proposed, targets)
    diagnostics = [*snapshot.diagnostics]
    if server.denied:
        facts = {"cluster": where, "problem": server.denied}
        diagnostics.insert(0, diagnose(codes.ADMISSION_NOT_ASKED, None, **facts))
    if renamed := [
        str(step.job)
        for step in steps
        for change in step.changes
        if change.steps == ("data", STORED_JOB)
        and is_only_another_run(str(change.before), str(change.after))
    ]:
        diagnostics.append(diagnose(codes.ONLY_ANOTHER_RUN, None, jobs=", ".join(renamed)))
    with suppress(ClusterError):  # a user may not be allowed to read the version
        declared = compilation.settings.kubernetes_version
        if compilation.declares_version and not cluster.version().startswith(f"v{declared}."):
            facts = {"declared": declared, "server": cluster.version()}
            diagnostics.append(diagnose(codes.SERVER_VERSION, None, **facts))
    jobs = {**snapshot.jobs}
    removed = {step.ref for step in proposed.steps if step.action in REMOVES}
    for orphan in left:
        remaining = [ref for ref in members_of(orphan.objects) if ref not in removed]
        jobs[orphan.title] = structs.replace(jobs[orphan.title], remaining=remaining)
    return acyclic(
        Proposal(
            plan=proposed,
            rights=rights,
            jobs=jobs,
            secrets={
                reference(value): value
                for value in compilation.in_order()
                if value["kind"] == "Secret"
            },
            states=snapshot.states,
            accepted=frozenset(
                difference.ref
                for difference, answer in zip(differences, answers, strict=True)
                if answer and answer.accepted
            ),
            diagnostics=tuple(diagnostics),
        )
    )


def users(cluster: Cluster, drafts: Iterable[Draft]) -> dict[str, list[Object]]:
    """Return the Pods that may use what drafts destroy, by namespace."""
    return {
        namespace: [*pods_of(cluster, namespace)]
        for namespace in endangered(drafts, cluster.namespace)
    }


def members_of(values: Iterable[Object]) -> list[ObjectRef]:
    return [reference(value) for value in values if is_member(value)]


def quotas(cluster: Cluster, plan: Plan) -> dict[str, Sequence[Object]]:
    result: dict[str, Sequence[Object]] = {}
    for namespace in filled(plan):
        result[namespace] = ()
        with if_allowed():
            resource = cluster.resource("v1", "ResourceQuota")
            result[namespace] = cluster.list(resource, namespace).items
    return result


def _orphaned(
    cluster: Cluster, left: Sequence[Orphan], rights: Rights, job_set: JobSet
) -> list[Step]:
    reason = f"its job is no longer in {job_set.source}"
    drafts = removable(
        [(orphan.title, value) for orphan in left for value in orphan.objects],
        adopt=rights.adopt,
        applied={orphan.title for orphan in left},
        reason=reason,
    )
    pods = users(cluster, drafts) if rights.prune else {}
    steps = removal(drafts, pods, cluster.namespace)
    # An apply that was killed may have deleted the members and not the inventory.
    empty = [orphan.inventory for orphan in left if not orphan.objects]
    steps = (*steps, *(deletion(inventory, EMPTY_INVENTORY) for inventory in empty))
    for orphan in left:
        steps += tuple(unread_keys(cluster, orphan.title, orphan.objects))
    if rights.prune:
        refused = {"action": "unmanaged", "needs": None, "after": ()}
        return [structs.replace(step, **refused) if step.needs else step for step in steps]
    # Without order: nothing happens to them.
    return [
        step if step.action == "unmanaged" else unmanaged(step, reason, PRUNE)
        for step in steps
        if step.action != "wait"
    ]


# Deletion -----------------------------------------------------------------------------------------


def delete_proposal(
    cluster: Cluster,
    jobs: Sequence[str | tuple[str | None, str]] = (),
    compilation: Compilation | None = None,
    *,
    adopt: bool = False,
    job_set: JobSet | None = None,
    absent: Callable[[str, str], None] | None = None,
) -> Proposal:
    """Propose what deletes jobs with all their objects, and nothing else.

    Args:
        jobs: The name of each, or its namespace and its name; a name as `status.find_job` takes it,
            in the default namespace if none.
        compilation: Jobs as they are declared, in place of their names.
        adopt: Also delete objects that another tool manages, and jobs of another set.
        job_set: The set of jobs that the compilation is of (`operations.job_set`).
        absent: Called with namespace and name of the declared jobs of which there is nothing.

    Returns:
        The proposal; what is not deleted is in its plan as `unmanaged`.

    Raises:
        ClusterError: the cluster cannot be read.
        ImpossibleError: there is no such job, or one of another kind has the name of one of them.
    """
    groups = compilation.groups if compilation else ()
    compiled = [value for group in groups if group.name for value in group.objects]
    named: list[tuple[str | None, str]] = []
    for job in several(jobs):
        where, word = (None, job) if isinstance(job, str) else job
        try:
            named.append((where, named_job(cluster, word, where)))
        except ImpossibleError as error:
            # Perhaps only its ConfigMap is gone.
            name = word.rpartition("/")[2]
            if not (isinstance(error.__cause__, NoSuchJobError) and is_label(name)):
                raise
            named.append((where, name))
    named += [(group.namespace, group.name) for group in groups if group.name]
    live: list[tuple[str, Object]] = []
    unknown: list[Diagnostic] = []
    members: dict[str, list[ObjectRef]] = {}
    applied: set[str] = set()
    versions: dict[str, str] = {}
    extra: list[Step] = []
    for namespace, name in named:
        where = namespace or cluster.namespace
        title = f"{where}/{name}"
        parent = inventory_of(cluster, name, where)
        versions[title] = seen_version(parent, cluster.now())
        mine = [(title, value) for value in belongings(cluster, name, where)]
        extra += unread_keys(cluster, title, (value for _, value in mine))
        live += mine
        members[title] = members_of(value for _, value in mine)
        if parent is not None:
            if compilation and not adopt and (other := other_set(parent, job_set)):
                extra.append(of_other_set(reference(parent), title, other))
            applied.add(title)
            if not mine:  # the watcher has removed the rest (ttlSecondsAfterFinished), or somebody
                extra.append(deletion(parent, EMPTY_INVENTORY))
        elif not mine and compilation is None:
            facts = {"job": name, "where": where, "advice": f"etcompile status -n {where}"}
            unknown.append(diagnose(codes.NO_SUCH_JOB_IN_CLUSTER, None, **facts))
        elif not mine and absent is not None:
            absent(where, name)
    if unknown:
        raise ImpossibleError(unknown)
    maps = {
        (ref.namespace or cluster.namespace, name): value
        for value in compiled
        for ref in [reference(value)]
        for name in names_of_config(value)
    }
    foreign: list[Diagnostic] = []
    for _, value in live:
        ref = reference(value)
        declared = maps.get((ref.namespace, ref.name)) if ref.kind == "ConfigMap" else None
        if declared is not None and (other := other_job(declared, value)):
            problem = f"it belongs to the {other}, which is not the job of the files"
            advice = f"etcompile delete --job {other.split()[-1]} deletes that one"
            facts = {"problem": problem, "advice": advice}
            foreign.append(diagnose(codes.FOREIGN_OBJECT, None, object=ref, **facts))
    if foreign:
        raise ImpossibleError(foreign, CONFLICT)
    drafts = removable(
        live,
        adopt=adopt,
        applied=applied,
        declared={reference(value).key_in(cluster.namespace) for value in compiled},
    )
    steps = (*removal(drafts, users(cluster, drafts), cluster.namespace), *extra)
    stays = {step.ref for step in steps if step.action == "unmanaged"}
    return Proposal(
        plan=Plan(steps, context=cluster.context or cluster.server),
        rights=Rights(adopt=adopt, prune=True),
        jobs={
            title: ProposedJob(
                remaining=[ref for ref in refs if ref in stays], version=versions[title]
            )
            for title, refs in members.items()
        },
    )
