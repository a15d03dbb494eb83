"""The jobs of a set that nothing declares any more, with all that belongs to them."""

from collections.abc import Collection, Iterable, Iterator

from msgspec import Struct

from etcompile.k8s.objects import Object
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.inventory import listed
from etcompile.plan.sets import SET, SPREAD, JobSet, orphan_job
from etcompile.rollout.belongings import belongings


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
        cluster: The cluster.
        job_set: The set.
        declared: Namespace and name of the jobs that are declared now.
        namespaces: Where to look if not all namespaces may be listed; those that jobs of the set
            name are looked into as well.

    Raises:
        ClusterError: what belongs to an orphan cannot be read.
    """
    jobs = {
        job: {**found, "apiVersion": "v1", "kind": "ConfigMap"}
        for found in _parents(cluster, job_set, namespaces)
        if (job := orphan_job(found, declared))
    }
    return [
        Orphan(f"{namespace}/{name}", jobs[namespace, name], found)
        for namespace, name in sorted(jobs)
        for found in [tuple(belongings(cluster, name, namespace))]
    ]


def _parents(cluster: Cluster, job_set: JobSet, namespaces: Iterable[str]) -> Iterator[Object]:
    selector = f"{SET}={job_set.id}"
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
