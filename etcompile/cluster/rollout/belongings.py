"""A job's name to the live objects that are its own: members of its ApplySet, or labelled so.

The labels are asked for too, because a key pair and the live host list are in no set, and because
a job may have been applied by another tool from rendered files.
"""

from collections.abc import Iterator

from etcompile.cluster.client import Cluster
from etcompile.cluster.errors import ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.plan import inventory
from etcompile.plan.inventory import PART_OF, applyset_id
from etcompile.plan.step import Object

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
_OURS = "app.kubernetes.io/managed-by=etcompile"


def belongings(cluster: Cluster, job: str, namespace: str) -> Iterator[Object]:
    """The live objects of a job, each once; of Secrets their metadata only.

    Args:
        cluster: The cluster.
        job: The job's name.
        namespace: Its namespace.

    Raises:
        ClusterError: what the inventory names cannot be read. Kinds that it does not name and
            that may not be read are left out.
    """
    ref = inventory.parent(job, namespace)
    maps = cluster.resource("v1", "ConfigMap")
    parent = cluster.get(maps, ref.name, namespace, metadata_only=True)
    named: list[tuple[str, str]] = []
    if parent is not None and inventory.is_parent(parent, ref):
        named, _ = inventory.members(parent, [version for version, _ in _KINDS])
    selectors = (f"{PART_OF}={applyset_id(ref)}", f"{JOB_LABEL}={job},{_OURS}")
    seen: set[str] = set()
    for kind in dict.fromkeys((*_KINDS, *named)):
        for selector in selectors:
            try:
                for value in _listed(cluster, *kind, namespace, selector):
                    if (uid := value["metadata"]["uid"]) not in seen:
                        seen.add(uid)
                        yield value
            except ClusterError as error:
                if kind in named or error.status not in (403, 404):
                    raise


def _listed(
    cluster: Cluster, version: str, kind: str, namespace: str, selector: str
) -> Iterator[Object]:
    resource = cluster.resource(version, kind)
    where = namespace if resource.namespaced else None
    bare = kind == "Secret"
    for page in cluster.pages(resource, where, labels=selector, metadata_only=bare):
        yield from ({**item, "apiVersion": version, "kind": kind} for item in page.items)
