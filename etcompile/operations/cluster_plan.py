"""A compilation and a cluster to a proposal: what `diff` shows, and `apply` and `delete` do."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from msgspec import structs

from etcompile.compiler import Compilation
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun
from etcompile.diagnostics import Diagnostic, RefusedError, Severity, codes, diagnose
from etcompile.exitcodes import CONFLICT, INPUT
from etcompile.k8s.names import is_label
from etcompile.k8s.objects import Object, is_true, status_of
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import STORED_JOB, hosts_name, status_name
from etcompile.model.run_identity import is_only_another_run
from etcompile.model.run_record import read_record
from etcompile.operations.declarations import declarations
from etcompile.plan import applysets
from etcompile.plan.applysets import (
    SET,
    SOURCE,
    belonging,
    of_other_set,
    orphan_job,
    other_repository,
    other_set,
)
from etcompile.plan.owners import is_member, names_of_config, other_job, run_of
from etcompile.plan.planner import ADOPT, PRUNE, Watched, plan
from etcompile.plan.quotas import within_quotas
from etcompile.plan.removal import EMPTY_INVENTORY, removal
from etcompile.plan.schedule import ring
from etcompile.plan.scope import Rights, targeted, unknown_targets
from etcompile.plan.step import (
    IDLE,
    REMOVES,
    JobSet,
    ObjectKey,
    ObjectRef,
    Reason,
    Remedy,
    Step,
    deletion,
    reference,
    unmanaged,
)
from etcompile.rollout.dryrun import DryRun
from etcompile.rollout.inventory import members_left, seen_version
from etcompile.rollout.live import (
    Live,
    Orphan,
    belongings,
    cluster_identity,
    inventory_of,
    is_covered,
    live_object,
    orphans,
    parents,
    pods_of,
)
from etcompile.rollout.machine.messages import Key, Proposal
from etcompile.rollout.machine.reasons import ObjectState, has_rule, object_state
from etcompile.several import several
from etcompile.status import AnotherJobError, NoSuchJobError, find_job
from etcompile.status.job_status import is_config


class ImpossibleError(RefusedError):
    """There is nothing to propose."""

    def __init__(self, diagnostics: Sequence[Diagnostic], code: int = INPUT) -> None:
        super().__init__(diagnostics, code)


def impossible(code: str, **facts: object) -> ImpossibleError:
    """The error for a request that one diagnostic refuses."""
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


def _named_or_left(cluster: Cluster, word: str, namespace: str | None) -> str:
    """As `named_job`, and the name of a job of which only the ConfigMap may be gone."""
    try:
        return named_job(cluster, word, namespace)
    except ImpossibleError as error:
        name = word.rpartition("/")[2]
        if isinstance(error.__cause__, NoSuchJobError) and is_label(name):
            return name
        raise


def acyclic(proposal: Proposal) -> Proposal:
    """The proposal, whose objects do not wait for each other.

    Raises:
        ImpossibleError: they do.
    """
    if cycle := ring(proposal.plan.steps):
        deadlock = diagnose(codes.DEADLOCK, None, ring=cycle)
        raise ImpossibleError((*proposal.diagnostics, deadlock))
    return proposal


def note(value: Object, seen: dict[Key, ObjectState]) -> None:
    """Notes how far a live object is, if its kind has a rule for that."""
    if has_rule(value["kind"]):
        ref = reference(value)
        seen[ref.api_version, ref.kind, ref.namespace, ref.name] = object_state(value)


class _Inventories:
    """The ApplySets of the jobs of a compilation.

    Attributes:
        ids: Their ids by job, also of those that are still to be created.
        parents: By job, the parents of those that exist.
        runs: By job, the spec hashes of the runs that it declares.
        watched: By job, what a watcher has written.
    """

    def __init__(self, compilation: Compilation, live: Live) -> None:
        jobs = {group.title: group for group in compilation.groups if group.name}
        refs = {
            title: applysets.parent(group.name or "", group.namespace or live.namespace)
            for title, group in jobs.items()
        }
        self.ids = {title: applysets.applyset_id(ref) for title, ref in refs.items()}
        names = {
            title: (
                structs.replace(refs[title], name=status_name(group.name or "")),
                structs.replace(refs[title], name=hosts_name(group.name or ""))
                if group.listed
                else None,
            )
            for title, group in jobs.items()
        }
        written = filter(None, itertools.chain.from_iterable(names.values()))
        maps = live.get([*refs.values(), *written])
        existing = {reference(value).key: value for value in maps}
        self.runs = {title: frozenset(map(run_of, group.objects)) for title, group in jobs.items()}
        self.watched = {}
        for title, own in names.items():
            status, hosts = (existing.get(ref.key) if ref else None for ref in own)
            record = read_record((status or {}).get("data") or {})
            is_over = record is not None and record.ended and record.run in self.runs[title]
            self.watched[title] = Watched(hosts, record if is_over else None)
        self.parents = {
            title: existing[ref.key]
            for title, ref in refs.items()
            if ref.key in existing and applysets.is_parent(existing[ref.key], ref)
        }


def apply_proposal(
    compilation: Compilation,
    cluster: Cluster,
    rights: Rights | None = None,
    *,
    job_set: JobSet | None = None,
    targets: Sequence[str] = (),
) -> Proposal:
    """What makes a cluster what was compiled: `apply` does it, `diff` shows it.

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
    problems = [
        problem for problem in compilation.diagnostics if problem.severity is Severity.ERROR
    ]
    problems = problems or [
        diagnose(codes.NO_NAME_TO_APPLY, None, object=reference(value))
        for value in compilation.in_order()
        if not value["metadata"].get("name")
    ]
    if problems:
        raise ImpossibleError(problems)
    rights, targets = rights or Rights(), several(targets)
    live = Live(cluster)
    sets = _Inventories(compilation, live)
    now = cluster.now()
    versions = {title: seen_version(sets.parents.get(title), now) for title in sets.ids if title}
    server = DryRun(cluster)
    beyond: dict[ObjectKey, Object] = {}
    seen: dict[Key, ObjectState] = {}
    proposed = plan(
        declarations(compilation, sets.ids, generated=True),
        _once(live, sets, compilation, seen, beyond),
        rights,
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
        ask=server.ask,
        read_pods=partial(pods_of, cluster),
        watched=sets.watched,
        now=now,
    )
    steps = [*proposed.steps]
    if not rights.adopt:
        steps += (
            of_other_set(reference(parent), title, other)
            for title, parent in sets.parents.items()
            if title is not None and (other := other_set(parent, job_set))
        )
        steps += _operated(compilation, cluster, problems)
    members: dict[str, tuple[ObjectRef, ...]] = {}
    if job_set is not None and job_set.whole:
        names = [(group.namespace, group.name) for group in compilation.groups if group.name]
        # A document that is left to its own controller is not gone.
        names += [(document.namespace, document.name or "") for document in compilation.skipped]
        jobs = {(namespace or live.namespace, name) for namespace, name in names}
        left = orphans(cluster, job_set, jobs, [live.namespace, *(where for where, _ in jobs)])
        for orphan in left if not rights.adopt else ():
            if origin := other_repository(orphan.inventory, job_set):
                words = f"its job is from {origin}, another repository of the name {job_set.owner}"
                steps.append(unmanaged(deletion(orphan.inventory), words, ADOPT))
                left = [other for other in left if other is not orphan]
        # Those that act come first, in either part.
        steps += _orphaned(cluster, left, rights, job_set)
        steps.sort(key=lambda step: step.action in IDLE)
        members = {
            orphan.title: tuple(reference(value) for value in orphan.objects if is_member(value))
            for orphan in left
        }
        problems += _moved(sets, job_set, jobs, cluster, rights)
        job_set = structs.replace(job_set, orphans=tuple(members))
        beyond |= {reference(value).key: value for orphan in left for value in orphan.objects}
        versions |= {orphan.title: seen_version(orphan.inventory, now) for orphan in left}
    problems += _only_renamed(steps)
    with suppress(ClusterError):  # a user may not be allowed to read the version
        declared = compilation.settings.kubernetes_version
        if compilation.declares_version and not cluster.version().startswith(f"v{declared}."):
            facts = {"declared": declared, "server": cluster.version()}
            problems.append(diagnose(codes.SERVER_VERSION, None, **facts))
    proposed = structs.replace(
        proposed, steps=tuple(steps), cluster=cluster_identity(cluster), job_set=job_set
    )
    replaced = [step.ref for step in proposed.steps if step.action == "replace"]
    ending = {reference(value).key: value for value in live.get(replaced)}
    proposed = within_quotas(proposed, beyond | ending, partial(quotas, cluster))
    if server.denied:
        where = cluster.context or cluster.server
        facts = {"cluster": where, "problem": server.denied}
        problems.insert(0, diagnose(codes.ADMISSION_NOT_ASKED, None, **facts))
    if unknown := unknown_targets(proposed, targets):
        raise ImpossibleError(unknown)
    proposed = targeted(proposed, targets)
    # What the ApplySets of orphans still have once the plan is done.
    removed = {step.ref for step in proposed.steps if step.action in REMOVES}
    orphaned = {job: [ref for ref in refs if ref not in removed] for job, refs in members.items()}
    secrets = [value for value in compilation.in_order() if value["kind"] == "Secret"]
    return acyclic(
        Proposal(
            plan=proposed,
            rights=rights,
            secrets={reference(value): value for value in secrets},
            deciding={group.title: group.deciding for group in compilation.groups if group.title},
            runs={job: runs for job, runs in sets.runs.items() if job},
            ended={job: of.ended for job, of in sets.watched.items() if job and of.ended},
            seen=seen,
            remaining={**members_left(proposed), **orphaned},
            accepted=frozenset(server.accepted),
            versions=versions,
            diagnostics=tuple(problems),
        )
    )


def _once(
    live: Live,
    sets: _Inventories,
    compilation: Compilation,
    seen: dict[Key, ObjectState],
    beyond: dict[ObjectKey, Object],
) -> Iterator[Object]:
    """The live objects: those of the desired names, and members of the inventories beyond.

    While they pass, it notes how far the first are, and collects the others.
    """
    refs: list[ObjectRef] = []
    for value in compilation.in_order():
        refs.append(reference(value))
        # A job of another kind may have the name, and its ConfigMap another one.
        refs += [structs.replace(refs[-1], name=name) for name in names_of_config(value)]
    refs += [reference(value) for group in compilation.groups for value in group.generated]
    refs = [ref for ref in dict.fromkeys(refs) if ref.name]
    for value in live.get(refs):
        note(value, seen)
        yield value
    declared = {ref.key_in(live.namespace) for ref in refs}
    for parent in sets.parents.values():
        for value in live.members(parent):
            ref = reference(value)
            if ref.key_in(live.namespace) not in declared:
                beyond[ref.key] = value
                yield value


def _moved(
    sets: _Inventories,
    job_set: JobSet,
    declared: Collection[tuple[str, str]],
    cluster: Cluster,
    rights: Rights,
) -> Iterator[Diagnostic]:
    """A warning for jobs that leave another set, with those that stay in it unobserved."""
    sources: dict[str, str] = {}
    for parent in sets.parents.values():
        labels, annotations = belonging(parent)
        if rights.adopt or not other_set(parent, job_set):
            sources[labels.get(SET, job_set.id)] = annotations.get(SOURCE, "")
    sources.pop(job_set.id, None)
    places = [cluster.namespace, *(where for where, _ in declared)]
    for label, source in sources.items():
        jobs = [
            orphan_job(parent, declared)
            for parent in parents(cluster, label, places)
            if is_covered(parent, places)
        ]
        left = ", ".join("/".join(job) for job in sorted(filter(None, jobs))) or "none"
        yield diagnose(codes.SET_CHANGED, None, former=source, set=job_set.source, jobs=left)


def _only_renamed(steps: Iterable[Step]) -> Iterator[Diagnostic]:
    """A warning for jobs whose Pods get new names and are otherwise what they were."""
    jobs = ", ".join(
        str(step.job)
        for step in steps
        for change in step.changes
        if change.steps == ("data", STORED_JOB)
        and is_only_another_run(str(change.before), str(change.after))
    )
    if jobs:
        yield diagnose(codes.ONLY_ANOTHER_RUN, None, jobs=jobs)


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
        where = group.namespace or cluster.namespace
        try:
            resource = cluster.served(data["apiVersion"].rpartition("/")[0], data["kind"])
            if resource is None:
                continue
            live = cluster.get(resource, group.name or "", where)
        except ClusterError as error:
            if error.status != 403:
                raise
            if data["kind"] not in unread:
                unread.add(data["kind"])
                facts = {"kind": data["kind"], "problem": str(error)}
                problems.append(diagnose(codes.OPERATOR_UNREAD, None, **facts))
            continue
        if live is None:
            continue
        status, ends = status_of(live), ("Succeeded", "Failed", "Complete")
        if status.get("phase") in ends or any(is_true(status, end) for end in ends):
            continue  # its operator starts no more Pods
        ref = ObjectRef(resource.api_version, resource.kind, where, group.name or "")
        why = Reason(
            f"the cluster has a {resource.kind} of this name, whose operator would run the same"
            " job",
            Remedy(
                "adopt",
                f"etcompile migrate --from-cluster {resource.kind}/{group.name} -n {where} says how"
                " to hand it over; give --adopt once no operator runs it",
            ),
        )
        yield Step("conflict", ref, (why,), job=group.title, needs="adopt")


def _unread_keys(cluster: Cluster, title: str, values: Iterable[Any]) -> Iterator[Step]:
    """Yield a step that names the generated key pair of a job, if the user may not read it."""
    for config in values:
        ssh = None
        with suppress(StoredJobError):
            ssh = StoredRun(config).job.credentials if is_config(config) else None
        if ssh is not None and ssh.owned:
            ref = ObjectRef("v1", "Secret", config["metadata"]["namespace"], ssh.secret)
            try:
                live_object(cluster, ref, metadata_only=True)
            except ClusterError as error:
                if error.status != 403:
                    raise
                words = "you are not allowed to read secrets: if it exists, it is left"
                yield unmanaged(Step("unmanaged", ref, job=title), words)


def quotas(cluster: Cluster, namespace: str) -> Sequence[Object]:
    """Return the ResourceQuotas of a namespace; none where they may not be read."""
    try:
        return cluster.list(cluster.resource("v1", "ResourceQuota"), namespace).items
    except ClusterError as error:
        if error.status not in (403, 404):
            raise
        return []


def _orphaned(
    cluster: Cluster, left: Sequence[Orphan], rights: Rights, job_set: JobSet
) -> list[Step]:
    """What to do about the objects of jobs that are not declared any more."""
    reason = f"its job is no longer in {job_set.source}"
    steps = removal(
        [(orphan.title, value) for orphan in left for value in orphan.objects],
        adopt=rights.adopt,
        applied={orphan.title for orphan in left},
        reason=reason,
        namespace=cluster.namespace,
        read_pods=partial(pods_of, cluster) if rights.prune else None,
    ).steps
    # An apply that was killed may have deleted the members and not the inventory.
    empty = [orphan.inventory for orphan in left if not orphan.objects]
    steps = (*steps, *(deletion(inventory, EMPTY_INVENTORY) for inventory in empty))
    for orphan in left:
        steps += tuple(_unread_keys(cluster, orphan.title, orphan.objects))
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
    """What deletes jobs, all they consist of, and nothing else. Nothing is written.

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
    pairs = [(None, job) if isinstance(job, str) else job for job in several(jobs)]
    named = [(where, _named_or_left(cluster, word, where)) for where, word in pairs]
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
        extra += _unread_keys(cluster, title, (value for _, value in mine))
        live += mine
        members[title] = [reference(value) for _, value in mine if is_member(value)]
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
    proposed = removal(
        live,
        adopt=adopt,
        applied=applied,
        declared={reference(value).key_in(cluster.namespace) for value in compiled},
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
        read_pods=partial(pods_of, cluster),
    )
    proposed = structs.replace(proposed, steps=(*proposed.steps, *extra))
    stays = {step.ref for step in proposed.steps if step.action == "unmanaged"}
    return Proposal(
        plan=proposed,
        rights=Rights(adopt=adopt, prune=True),
        remaining={title: [ref for ref in refs if ref in stays] for title, refs in members.items()},
        versions=versions,
    )
