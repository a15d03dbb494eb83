"""Jobs of a cluster to what is deleted of them, and what stays."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from msgspec import structs

from etcompile.compiler import Compilation
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.exitcodes import CONFLICT, INPUT
from etcompile.k8s.objects import Object
from etcompile.kubeapi import Cluster
from etcompile.operations.proposal import ImpossibleError, Result
from etcompile.plan.applysets import of_other_set, other_set
from etcompile.plan.owners import is_member, names_of_config, other_job
from etcompile.plan.removal import EMPTY_INVENTORY, removal
from etcompile.plan.scope import Rights
from etcompile.plan.step import JobSet, ObjectRef, Step, deletion, reference
from etcompile.rollout import Proposal
from etcompile.rollout.lease import seen_version
from etcompile.rollout.live import belongings, inventory_of, pods_of


def delete_proposal(
    cluster: Cluster,
    jobs: Sequence[tuple[str | None, str]] = (),
    compilation: Compilation | None = None,
    *,
    adopt: bool = False,
    job_set: JobSet | None = None,
    absent: Callable[[str, str], None] | None = None,
) -> Proposal:
    """What deletes jobs, all they consist of, and nothing else. Nothing is written.

    Args:
        jobs: Namespace and name of each; the default namespace if that is None.
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
    jobs = [*jobs, *((group.namespace, group.name) for group in groups if group.name)]
    live: list[tuple[str, Object]] = []
    unknown: list[Diagnostic] = []
    members: dict[str, list[ObjectRef]] = {}
    applied = set()
    versions: dict[str, str] = {}
    extra: list[Step] = []
    foreign: list[Step] = []
    for namespace, name in jobs:
        where = namespace or cluster.namespace
        title = f"{where}/{name}"
        parent = inventory_of(cluster, name, where)
        versions[title] = seen_version(parent, cluster.now())
        mine = [(title, value) for value in belongings(cluster, name, where)]
        live += mine
        members[title] = [reference(value) for _, value in mine if is_member(value)]
        if parent is not None:
            if compilation and not adopt and (other := other_set(parent, job_set)):
                foreign.append(of_other_set(reference(parent), title, other))
            applied.add(title)
            if not mine:  # the watcher has removed the rest (ttlSecondsAfterFinished), or somebody
                extra.append(deletion(parent, EMPTY_INVENTORY))
        elif not mine and compilation is None:
            facts = {"job": name, "where": where, "advice": f"etcompile status -n {where}"}
            unknown.append(diagnose(codes.NO_SUCH_JOB_IN_CLUSTER, None, **facts))
        elif not mine and absent is not None:
            absent(where, name)
    if unknown:
        raise ImpossibleError(Result(INPUT, tuple(unknown)))
    values = [value for _, value in live]
    if others := tuple(_others(compiled, values, cluster.namespace)):
        raise ImpossibleError(Result(CONFLICT, others))
    plan = removal(
        live,
        adopt=adopt,
        applied=applied,
        declared={reference(value).key_in(cluster.namespace) for value in compiled},
        context=cluster.context or cluster.server,
        namespace=cluster.namespace,
        read_pods=partial(pods_of, cluster),
    )
    plan = structs.replace(plan, steps=(*plan.steps, *extra, *foreign))
    stays = {step.ref for step in plan.steps if step.action == "unmanaged"}
    return Proposal(
        plan=plan,
        rights=Rights(adopt=adopt, prune=True),
        remaining={title: [ref for ref in refs if ref in stays] for title, refs in members.items()},
        versions=versions,
    )


def _others(
    compiled: Iterable[Object], live: Iterable[Object], namespace: str
) -> Iterator[Diagnostic]:
    """An error for each job of the files whose name a job of another kind has in the cluster."""
    maps = {
        (ref.namespace or namespace, name): value
        for value in compiled
        for ref in [reference(value)]
        for name in names_of_config(value)
    }
    for value in live:
        ref = reference(value)
        declared = maps.get((ref.namespace, ref.name)) if ref.kind == "ConfigMap" else None
        if declared is not None and (other := other_job(declared, value)):
            problem = f"it belongs to the {other}, which is not the job of the files"
            advice = f"etcompile delete --job {other.split()[-1]} deletes that one"
            yield diagnose(codes.FOREIGN_OBJECT, None, object=ref, problem=problem, advice=advice)
