"""Read what a cluster has of compiled jobs, before anything about them is decided.

Everything is read here that a plan needs for certain. What only some plans need, the Pods that use
an object and quotas, is read once it is known which (`etcompile.operations.cluster_plan`).
"""

import itertools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct, structs

from etcompile.compiler.pipeline import Compilation
from etcompile.compiler.stored import StoredJobError
from etcompile.compiler.stored_run import StoredRun
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.objects import is_true, status_of
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import hosts_name, status_name
from etcompile.model.run_record import read_record
from etcompile.operations.declarations import declarations
from etcompile.plan import applysets
from etcompile.plan.applysets import SET, SOURCE, belonging, of_other_set, other_set
from etcompile.plan.matches import Matches
from etcompile.plan.owners import run_of
from etcompile.plan.planner import Watched
from etcompile.plan.scope import Rights
from etcompile.plan.step import JobSet, ObjectRef, Reason, Remedy, Step, reference, unmanaged
from etcompile.rollout.inventory import seen_version
from etcompile.rollout.live import (
    Live,
    Orphan,
    live_object,
    orphans,
    undeclared_jobs,
)
from etcompile.rollout.machine.messages import ProposedJob
from etcompile.rollout.machine.reasons import Key, ObjectState, states
from etcompile.status.job_status import is_config


class Snapshot(Struct, frozen=True):
    """What a cluster has of the jobs of a compilation.

    Args:
        now: The time by the API server's clock, in seconds since 1970.
        matching: The live objects, as they compare with the declared ones.
        states: How far those are that take time to become ready.
        jobs: The declared jobs and the orphans by title, without what remains of them.
        watched: By job, what a watcher has written.
        refused: The steps of jobs that another set or an operator in the cluster has.
        orphans: The jobs of the set that are not declared any more.
        diagnostics: What could not be read, and jobs that leave another set.
    """

    now: float
    matching: Matches
    states: dict[Key, ObjectState]
    jobs: dict[str, ProposedJob]
    watched: dict[str | None, Watched]
    refused: tuple[Step, ...]
    orphans: tuple[Orphan, ...]
    diagnostics: tuple[Diagnostic, ...]


def read_live(
    compilation: Compilation, cluster: Cluster, rights: Rights, job_set: JobSet | None
) -> Snapshot:
    """Read what a cluster has of the jobs of a compilation, of their set, and of their operators.

    Raises:
        ClusterError: the cluster cannot be read.
    """
    live = Live(cluster)
    jobs = {str(group.title): group for group in compilation.groups if group.name}
    inventories = {
        title: applysets.parent(group.name or "", group.namespace or live.namespace)
        for title, group in jobs.items()
    }
    records = {
        title: [structs.replace(inventories[title], name=name) for name in names]
        for title, group in jobs.items()
        for record, hosts in [(status_name(group.name or ""), hosts_name(group.name or ""))]
        for names in [(record, hosts) if group.listed else (record,)]
    }
    maps = live.get([*inventories.values(), *itertools.chain.from_iterable(records.values())])
    existing = {reference(value).key: value for value in maps}
    now = cluster.now()
    there = {
        title: existing[ref.key]
        for title, ref in inventories.items()
        if ref.key in existing and applysets.is_parent(existing[ref.key], ref)
    }
    runs = {title: frozenset(map(run_of, group.objects)) for title, group in jobs.items()}
    watched: dict[str | None, Watched] = {}
    for title, refs in records.items():
        status, hosts = (*(existing.get(ref.key) for ref in refs), None)[:2]
        record = read_record((status or {}).get("data") or {})
        is_over = record is not None and record.ended and record.run in runs[title]
        watched[title] = Watched(hosts, record if is_over else None)
    ids: dict[str | None, str] = {
        title: applysets.applyset_id(ref) for title, ref in inventories.items()
    }
    declared = declarations(compilation, ids, generated=True)
    matching, seen = Matches(declared, rights, live.namespace), dict[Key, ObjectState]()
    named = [ref for ref in dict.fromkeys(matching.refs) if ref.name]
    keys = {ref.key_in(live.namespace) for ref in named}
    members = (
        value
        for inventory in there.values()
        for value in live.members(inventory)
        if reference(value).key_in(live.namespace) not in keys
    )
    for value in itertools.chain(live.get(named), members):
        matching.add(value)
        seen |= states([value])
    proposed = {
        title: ProposedJob(
            deciding=group.deciding,
            runs=runs[title],
            ended=watched[title].ended,
            version=seen_version(there.get(title), now),
        )
        for title, group in jobs.items()
    }
    refused: list[Step] = []
    diagnostics: list[Diagnostic] = []
    if not rights.adopt:
        refused += (
            of_other_set(reference(parent), title, other)
            for title, parent in there.items()
            if (other := other_set(parent, job_set))
        )
        operated, diagnostics = _operated(compilation, cluster)
        refused += operated
    left: list[Orphan] = []
    if job_set is not None and job_set.complete:
        names = [(group.namespace, group.name) for group in compilation.groups if group.name]
        # A document that is left to its own controller is not gone.
        names += [(document.namespace, document.name or "") for document in compilation.skipped]
        known = {(namespace or live.namespace, name) for namespace, name in names}
        places = [live.namespace, *(where for where, _ in known)]
        left = orphans(cluster, job_set, known, places)
        proposed |= {
            orphan.title: ProposedJob(version=seen_version(orphan.inventory, now))
            for orphan in left
        }
        sources: dict[str, str] = {}
        for parent in there.values():
            if rights.adopt or not other_set(parent, job_set):
                labels, annotations = belonging(parent)
                sources[labels.get(SET, job_set.id)] = annotations.get(SOURCE, "")
        sources.pop(job_set.id, None)
        for set_id, source in sources.items():
            # Some jobs leave another set: those that stay in it go unobserved.
            stay = sorted(undeclared_jobs(cluster, set_id, known, places))
            facts = {"former": source, "jobs": ", ".join(map("/".join, stay)) or "none"}
            diagnostics.append(diagnose(codes.SET_CHANGED, None, set=job_set.source, **facts))
    return Snapshot(
        now=now,
        matching=matching,
        states=seen,
        jobs=proposed,
        watched=watched,
        refused=tuple(refused),
        orphans=tuple(left),
        diagnostics=tuple(diagnostics),
    )


def _operated(compilation: Compilation, cluster: Cluster) -> tuple[list[Step], list[Diagnostic]]:
    steps: list[Step] = []
    unread: dict[str, Diagnostic] = {}
    for group in compilation.groups:
        if group.origin is None:
            continue
        data = group.origin.source.data
        if any(value["kind"] == data["kind"] for value in group.objects):
            continue  # the job's own Pods want it there, and no operator runs it
        where = group.namespace or cluster.namespace
        try:
            resource = cluster.served(data["apiVersion"].rpartition("/")[0], data["kind"])
            live = cluster.get(resource, group.name or "", where) if resource else None
        except ClusterError as error:
            if error.status != 403:
                raise
            facts = {"kind": data["kind"], "problem": str(error)}
            unread.setdefault(data["kind"], diagnose(codes.OPERATOR_UNREAD, None, **facts))
            continue
        if resource is None or live is None:
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
        steps.append(Step("conflict", ref, (why,), job=group.title, needs="adopt"))
    return steps, [*unread.values()]


def unread_keys(cluster: Cluster, title: str, values: Iterable[Any]) -> Iterator[Step]:
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
