"""Read the objects of a job from a cluster, as a dump would contain them.

No other part of `migrate` connects to a cluster. Secrets are not read at all.
"""

from typing import Any

from etcompile import frontends
from etcompile.integrations.migrate.adoption import owned
from etcompile.kubeapi import Cluster, ClusterError

_KINDS = (
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("batch/v1", "Job"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
)
"""Objects that operators create for a job."""


class UnknownKindError(Exception):
    """There is no job of this name, or of this kind."""


def job_of(cluster: Cluster, named: str) -> list[dict[str, Any]]:
    """Read a job, its scale intents and the objects that it owns.

    Args:
        cluster: The cluster; its namespace is the job's.
        named: `KIND/NAME`; the kind in any case, with a version where several have the name.

    Raises:
        UnknownKindError: there is no such kind or job.
        ClusterError: the cluster refused, or did not answer.
    """
    kind_name, _, name = named.partition("/")
    kinds = frontends.jobs_called(kind_name)
    if not kinds or not name:
        jobs = (kind.name.lower() for kind in frontends.kinds() if kind.pod_templates)
        known = ", ".join(dict.fromkeys(jobs))
        raise UnknownKindError(f"'{named}' is not KIND/NAME of one of {known}")
    for kind in kinds:
        try:
            job = cluster.get(cluster.resource(kind.api_version, kind.name), name)
        except ClusterError as error:
            if not error.not_found:
                raise
            continue
        if job is None:
            continue
        intents = [
            intent
            for scaler in frontends.kinds()
            if not scaler.pod_templates
            for intent in _listed(cluster, scaler.api_version, scaler.name)
            if scaler.refers(intent, kind.name, name)
        ]
        more = kind.operator.makes if kind.operator else ()
        objects = [
            o for version, type_ in (*_KINDS, *more) for o in _listed(cluster, version, type_)
        ]
        return [job, *intents, *(dict(value) for value in owned(objects, kind.name, name))]
    raise UnknownKindError(f"there is no {kinds[0].name} '{name}' in '{cluster.namespace}'")


def _listed(cluster: Cluster, api_version: str, kind: str) -> list[dict[str, Any]]:
    """List the objects of a kind; none if the cluster does not know it."""
    try:
        return list(cluster.list(cluster.resource(api_version, kind)).items)
    except ClusterError as error:
        if error.not_found:
            return []
        raise
