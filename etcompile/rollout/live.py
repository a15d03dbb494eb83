"""Read the objects that are in a cluster: those that a plan names, and those that a job has.

A job's own objects are the members of its ApplySet, and those that carry its label: a key pair and
the live host list are in no set, and another tool may have applied the job from rendered files. A
set of jobs also has orphans: jobs that nothing declares any more, with all that belongs to them.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import nullcontext

from msgspec import Struct

from etcompile.k8s.objects import Object, annotations_of
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError, if_allowed
from etcompile.kubeapi.resources import Resource
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan import applysets
from etcompile.plan.applysets import (
    DEFAULT_NAMESPACE,
    INVENTORY_ID,
    PART_OF,
    SET,
    applyset_id,
    orphan_job,
)
from etcompile.plan.step import JobSet, ObjectRef

NOTHING_YET = "1"
"""A resourceVersion that no object has: with it, a server-side apply creates or fails."""
_FEW = 8
"""So many objects are read one by one, in less time than a page of others takes."""


class Live:
    """The objects of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.namespace = cluster.namespace
        self._versions: dict[str, str] = {}
        """The version in which objects of a group were read by name."""
        self._passed: dict[tuple[str, str, str], list[Object]] = {}
        """Parts of whole lists: members of an ApplySet that `get` did not look for."""

    def get(self, references: Sequence[ObjectRef]) -> Iterator[Object]:
        """Yield those of these objects that exist, each in the version of its reference.

        They come in any order, so that few need to be in memory at a time. A kind that the cluster
        does not know has no objects.
        """
        wanted: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for ref in references:
            wanted[ref.api_version, ref.kind, ref.namespace or self.namespace].add(ref.name)
        for (version, kind, namespace), names in wanted.items():
            if (resource := self._cluster.find(version, kind)) is None:
                continue
            self._versions[version.rpartition("/")[0]] = version
            if len(names) <= _FEW:
                for name in sorted(names):
                    if (live := self._cluster.get(resource, name, namespace)) is not None:
                        yield live
                continue
            passed: list[Object] = []
            for page in self._cluster.pages(resource, namespace, one_moment=False):
                for item in page.items:
                    metadata = item["metadata"]
                    if metadata["name"] in names:
                        yield item
                    elif PART_OF in (metadata.get("labels") or {}):
                        passed.append(item)
            self._passed[version, kind, namespace] = passed

    def members(self, parent: Object) -> Iterator[Object]:
        kinds, namespaces = applysets.members(parent)
        set_id = parent["metadata"]["labels"][INVENTORY_ID]
        places = list(dict.fromkeys(namespaces))
        for group, kind in kinds:
            # In the version of the declared objects of the group, if there are any.
            version = self._versions.get(group)
            resource = self._cluster.find(version, kind) if version else None
            resource = resource or self._cluster.served(group, kind)
            if resource is None:
                continue
            for namespace in places if resource.namespaced else places[:1]:
                place = resource.api_version, kind, namespace or self.namespace
                if place in self._passed:
                    for item in self._passed[place]:
                        if item["metadata"]["labels"][PART_OF] == set_id:
                            yield item
                    continue
                labels = f"{PART_OF}={set_id}"
                for page in self._cluster.pages(
                    resource, namespace, labels=labels, one_moment=False
                ):
                    yield from page.items


def live_object(cluster: Cluster, ref: ObjectRef, *, metadata_only: bool = False) -> Object | None:
    resource = cluster.resource(ref.api_version, ref.kind)
    return cluster.get(resource, ref.name, ref.namespace or None, metadata_only=metadata_only)


def pods_of(cluster: Cluster, namespace: str) -> Iterator[Object]:
    for page in cluster.pages(cluster.resource("v1", "Pod"), namespace):
        yield from page.items


def cluster_identity(cluster: Cluster) -> str:
    """Return what tells a cluster from all others, whatever a kubeconfig calls it.

    That is the UID of the namespace kube-system, `-` if it may not be read, and the address of the
    server with a digest of its CA.
    """
    system = None
    with if_allowed():
        system = cluster.get(cluster.resource("v1", "Namespace"), "kube-system", metadata_only=True)
    return f"{system['metadata']['uid'] if system else '-'} {cluster.address}"


def is_same_cluster(one: str, other: str) -> bool:
    """Return whether two `cluster_identity` are of one cluster, as far as both know."""
    (uid, _, address), (other_uid, _, other_address) = one.partition(" "), other.partition(" ")
    return uid == other_uid if "-" not in (uid, other_uid) else address == other_address


# The objects of a job ---------------------------------------------------------------------------

_RBAC = "rbac.authorization.k8s.io/v1"
_KINDS = (
    ("v1", "Pod"),
    ("batch/v1", "Job"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "PersistentVolumeClaim"),
    ("v1", "ServiceAccount"),
    (_RBAC, "Role"),
    (_RBAC, "RoleBinding"),
    ("policy/v1", "PodDisruptionBudget"),
)
"""The kinds that a job's objects are of, whatever its inventory says."""


def inventory_of(cluster: Cluster, job: str, namespace: str) -> Object | None:
    ref = applysets.parent(job, namespace)
    live = live_object(cluster, ref, metadata_only=True)
    return live if live is not None and applysets.is_parent(live, ref) else None


def belongings(cluster: Cluster, job: str, namespace: str) -> Iterator[Object]:
    """Yield the live objects of a job, each once, and only the metadata of Secrets.

    Raises:
        ClusterError: what the inventory names cannot be read. Kinds that it does not name and
            that may not be read are left out.
    """
    parent = inventory_of(cluster, job, namespace)
    kinds, places = applysets.members(parent) if parent is not None else ([], [namespace])
    must_be_read = dict[Resource, bool]()
    for version, kind in _KINDS:
        with if_allowed():
            must_be_read[cluster.resource(version, kind)] = False
    for group, kind in kinds:
        # A kind that is not served any more has no objects.
        if (resource := cluster.served(group, kind)) is not None:
            must_be_read[resource] = True
    set_id = applyset_id(applysets.parent(job, namespace))
    selectors = (f"{PART_OF}={set_id}", f"{JOB_LABEL}={job}")
    seen: set[str] = set()
    for resource, must in must_be_read.items():
        for labels, place in itertools.product(selectors, dict.fromkeys(places)):
            where = (place or namespace) if resource.namespaced else None
            bare = resource.kind == "Secret"
            with nullcontext() if must else if_allowed():
                for page in cluster.pages(
                    resource, where, labels=labels, metadata_only=bare, one_moment=False
                ):
                    for item in page.items:
                        if (uid := item["metadata"]["uid"]) not in seen:
                            seen.add(uid)
                            yield item


# Orphans ----------------------------------------------------------------------------------------


class Orphan(Struct, frozen=True):
    """A job that nothing declares any more, with its title (`nlp/bert`) and what belongs to it."""

    title: str
    inventory: Object
    objects: tuple[Object, ...]


def orphans(
    cluster: Cluster,
    job_set: JobSet,
    declared: Collection[tuple[str, str]],
    namespaces: Collection[str],
) -> list[Orphan]:
    jobs = undeclared_jobs(cluster, job_set.id, declared, namespaces)
    return [
        Orphan(f"{where}/{name}", jobs[where, name], tuple(belongings(cluster, name, where)))
        for where, name in sorted(jobs)
    ]


def undeclared_jobs(
    cluster: Cluster,
    set_id: str,
    declared: Collection[tuple[str, str]],
    namespaces: Collection[str],
) -> dict[tuple[str, str], Object]:
    """Return the jobs of a set that are not declared, with their inventories.

    Args:
        declared: The namespace and name of each declared job.
        namespaces: Which namespaces to list if not all may be listed.
    """
    maps = cluster.resource("v1", "ConfigMap")
    jobs: dict[tuple[str, str], Object] = {}
    for namespace in (None, *dict.fromkeys(namespaces)):
        try:
            listing = cluster.list(maps, namespace, labels=f"{SET}={set_id}", metadata_only=True)
        except ClusterError as error:
            if error.status != 403:
                raise
            continue
        for parent in listing.items:
            if (job := orphan_job(parent, declared)) is None:
                continue
            # This apply covers it, and not one with another default namespace.
            home = annotations_of(parent).get(DEFAULT_NAMESPACE)
            if job[0] in namespaces or home not in (None, job[0]):
                jobs[job] = parent
        if namespace is None:
            break  # all namespaces may be listed
    return jobs
