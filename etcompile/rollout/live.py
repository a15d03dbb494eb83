"""The objects that are in a cluster: those that a plan asks for, and those that a job has.

`Live` reads what a plan compares, and decides how to ask: many objects of a kind and namespace are
listed page by page, a few are asked for one by one.

A job's own objects are the members of its ApplySet, and those that carry its label. The labels are
asked for too, because a key pair and the live host list are in no set, and because a job may have
been applied by another tool from rendered files. A set of jobs also has orphans: jobs that nothing
declares any more, with all that belongs to them.
"""

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.resources import Resource
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan import applysets
from etcompile.plan.applysets import (
    DEFAULT_NAMESPACE,
    PART_OF,
    SET,
    SPREAD,
    applyset_id,
    listed,
    orphan_job,
)
from etcompile.plan.step import JobSet, ObjectRef

_FEW = 8
"""So many objects are asked for one by one, in less time than a page of others takes."""


class Live:
    """The objects of a cluster.

    Every method raises ClusterError.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._versions: dict[str, str] = {}
        """The version in which objects of a group were asked for by name."""
        self._passed: dict[tuple[str, str, str], list[Object]] = {}
        """Of what was listed as a whole: members of an ApplySet that nobody had asked for."""

    @property
    def namespace(self) -> str:
        """The namespace of objects that name none."""
        return self._cluster.namespace

    def get(self, references: Sequence[ObjectRef]) -> Iterator[Object]:
        """Those of these objects that exist, each in the version of its reference.

        They come in any order, so that few need to be in memory at a time. A kind that the cluster
        does not know has no objects.
        """
        wanted: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        for ref in references:
            wanted[ref.api_version, ref.kind, ref.namespace or self.namespace].add(ref.name)
        for (version, kind, namespace), names in wanted.items():
            if (resource := self._resource(version, kind)) is None:
                continue
            self._versions[version.rpartition("/")[0]] = version
            if len(names) <= _FEW:
                for name in sorted(names):
                    if (found := self._cluster.get(resource, name, namespace)) is not None:
                        yield found
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

    def labelled(
        self,
        kinds: Iterable[tuple[str, str]],
        namespaces: Iterable[str],
        labels: Mapping[str, str],
    ) -> Iterator[Object]:
        """All objects of these kinds with these labels, but perhaps for those that `get` gave.

        Args:
            kinds: API group and kind. One that the cluster does not know has no objects.
            namespaces: Where to look for those that have one.
            labels: What they must all carry.
        """
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        places = list(dict.fromkeys(namespaces))
        for group, kind in dict.fromkeys(kinds):
            # In the version of the declared objects of the group, if there are any.
            resource = self._resource(self._versions.get(group), kind)
            resource = resource or self._cluster.served(group, kind)
            if resource is None:
                continue
            for namespace in places if resource.namespaced else places[:1]:
                place = resource.api_version, kind, namespace or self.namespace
                passed = self._passed.get(place)
                if passed is not None and labels.keys() == {PART_OF}:
                    of_set = labels[PART_OF]
                    yield from (
                        item for item in passed if item["metadata"]["labels"][PART_OF] == of_set
                    )
                    continue
                for page in self._cluster.pages(
                    resource, namespace, labels=selector, one_moment=False
                ):
                    yield from page.items

    def _resource(self, version: str | None, kind: str) -> Resource | None:
        if version is None:
            return None
        try:
            return self._cluster.resource(version, kind)
        except ClusterError as error:
            if error.not_found:
                return None
            raise


def pods_of(cluster: Cluster, namespace: str) -> Iterator[Object]:
    """All Pods of a namespace."""
    for page in cluster.pages(cluster.resource("v1", "Pod"), namespace):
        yield from page.items


def cluster_identity(cluster: Cluster) -> str:
    """What tells a cluster from all others, whatever a kubeconfig calls it.

    That is the UID of the namespace kube-system, `-` if it may not be read, and the address of the
    server with a digest of its CA.
    """
    try:
        found = cluster.get(cluster.resource("v1", "Namespace"), "kube-system", metadata_only=True)
    except ClusterError as error:
        if error.status not in (401, 403):
            raise
        found = None
    return f"{found['metadata']['uid'] if found else '-'} {cluster.address}"


def is_same_cluster(one: str, other: str) -> bool:
    """Whether two `cluster_identity` are of one cluster, as far as both of them know."""
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
    """The parent of a job's ApplySet, if etcompile, or kubectl for it, has applied the job.

    Args:
        cluster: Where the job was applied.
        job: The job's name.
        namespace: Where the job is; its parent is there, too.

    Raises:
        ClusterError: it cannot be read.
    """
    ref = applysets.parent(job, namespace)
    maps = cluster.resource("v1", "ConfigMap")
    found = cluster.get(maps, ref.name, namespace, metadata_only=True)
    if found is None or not applysets.is_parent(found, ref):
        return None
    return {**found, "apiVersion": ref.api_version, "kind": ref.kind}


def belongings(cluster: Cluster, job: str, namespace: str) -> Iterator[Object]:
    """The live objects of a job, each once; of Secrets their metadata only.

    Args:
        cluster: Where the job was applied.
        job: The job's name.
        namespace: Where the job is; its set may name others.

    Raises:
        ClusterError: what the inventory names cannot be read. Kinds that it does not name and
            that may not be read are left out.
    """
    ref = applysets.parent(job, namespace)
    maps = cluster.resource("v1", "ConfigMap")
    parent = cluster.get(maps, ref.name, namespace, metadata_only=True)
    named: list[Resource] = []
    places = [namespace]
    if parent is not None and applysets.is_parent(parent, ref):
        kinds, places = applysets.members(parent)
        # A kind that is not served any more has no objects.
        named = [found for kind in kinds if (found := cluster.served(*kind)) is not None]
    usual = [(resource, False) for resource in _usual(cluster)]
    selectors = (f"{PART_OF}={applyset_id(ref)}", f"{JOB_LABEL}={job}")
    seen: set[str] = set()
    for resource, must in dict([*usual, *((resource, True) for resource in named)]).items():
        for selector, where in itertools.product(selectors, dict.fromkeys(places)):
            try:
                for value in _listed(cluster, resource, where or namespace, selector):
                    if (uid := value["metadata"]["uid"]) not in seen:
                        seen.add(uid)
                        yield value
            except ClusterError as error:
                if must or error.status not in (403, 404):
                    raise


def _usual(cluster: Cluster) -> Iterator[Resource]:
    """The kinds that a job's objects are of, as far as they are served and may be asked for."""
    for version, kind in _KINDS:
        try:
            yield cluster.resource(version, kind)
        except ClusterError as error:
            if error.status not in (403, 404):
                raise


def _listed(
    cluster: Cluster, resource: Resource, namespace: str, selector: str
) -> Iterator[Object]:
    version, kind = resource.api_version, resource.kind
    where = namespace if resource.namespaced else None
    bare = kind == "Secret"
    for page in cluster.pages(
        resource, where, labels=selector, metadata_only=bare, one_moment=False
    ):
        yield from ({**item, "apiVersion": version, "kind": kind} for item in page.items)


# Orphans ----------------------------------------------------------------------------------------


class Orphan(Struct, frozen=True):
    """A job that nothing declares any more.

    Args:
        title: The job as people call it: `nlp/bert`.
        inventory: The parent of its ApplySet, without its data.
        objects: What belongs to it; none if only the inventory is left.
    """

    title: str
    inventory: Object
    objects: tuple[Object, ...]


def orphans(
    cluster: Cluster,
    job_set: JobSet,
    declared: Collection[tuple[str, str]],
    namespaces: Iterable[str],
) -> list[Orphan]:
    """The orphans of a set.

    Args:
        cluster: Where the set was applied.
        job_set: The jobs that a folder declares.
        declared: Namespace and name of the jobs that are declared now.
        namespaces: Where to look if not all namespaces may be listed; those that jobs of the set
            name are looked into as well.

    Raises:
        ClusterError: what belongs to an orphan cannot be read.
    """
    places = set(namespaces)
    jobs = {
        job: {**found, "apiVersion": "v1", "kind": "ConfigMap"}
        for found in parents(cluster, job_set.id, places)
        if (job := orphan_job(found, declared)) and is_covered(found, places)
    }
    return [
        Orphan(f"{namespace}/{name}", jobs[namespace, name], found)
        for namespace, name in sorted(jobs)
        for found in [tuple(belongings(cluster, name, namespace))]
    ]


def is_covered(found: Object, namespaces: Collection[str]) -> bool:
    """Whether a job is one of this apply, and not of one with another default namespace."""
    where = found["metadata"]["namespace"]
    annotations = found["metadata"].get("annotations") or {}
    return where in namespaces or annotations.get(DEFAULT_NAMESPACE) not in (None, where)


def parents(cluster: Cluster, set_id: str, namespaces: Iterable[str]) -> Iterator[Object]:
    """The parents that carry the label of a set, where they may be listed."""
    selector = f"{SET}={set_id}"
    maps = cluster.resource("v1", "ConfigMap")
    try:
        yield from cluster.list(maps, None, labels=selector, metadata_only=True).items
    except ClusterError as error:
        if error.status != 403:
            raise
    else:
        return
    waiting = list(dict.fromkeys(namespaces))
    asked: set[str] = set()
    while waiting:
        namespace = waiting.pop()
        if namespace in asked:
            continue
        asked.add(namespace)
        try:
            found = cluster.list(maps, namespace, labels=selector, metadata_only=True).items
        except ClusterError as error:
            if error.status != 403:
                raise
            continue
        for value in found:
            waiting += listed((value["metadata"].get("annotations") or {}).get(SPREAD))
            yield value
