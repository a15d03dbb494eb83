"""A job's name to the objects that a cluster has of it, as a dump would hold them.

No other part of `migrate` talks to a cluster. Secrets are not read at all.
"""

from typing import Any

from etcompile import frontends
from etcompile.frontends import Kind
from etcompile.integrations.migrate.adoption import owned
from etcompile.kubeapi import Cluster, ClusterError

_MADE = (
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("batch/v1", "Job"),
    ("autoscaling/v2", "HorizontalPodAutoscaler"),
)
"""What operators make of a job, as far as it can be told apart from keys."""


class UnknownKindError(Exception):
    """There is no job of this name, or of this kind."""


def job_of(cluster: Cluster, named: str) -> list[dict[str, Any]]:
    """A job, its scale intents and the objects that it owns.

    Args:
        cluster: The cluster; its namespace is where the job is.
        named: `KIND/NAME`; the kind in any case, with a version where several have the name.

    Raises:
        UnknownKindError: there is no such kind or job.
        ClusterError: the cluster refused, or did not answer.
    """
    kind_name, _, name = named.partition("/")
    kinds = [
        kind for kind in frontends.kinds() if kind.pod_templates and _is_named(kind, kind_name)
    ]
    if not kinds or not name:
        known = ", ".join(
            dict.fromkeys(k.name.lower() for k in frontends.kinds() if k.pod_templates)
        )
        raise UnknownKindError(f"'{named}' is not KIND/NAME of one of {known}")
    for kind in kinds:
        found = _get(cluster, kind, name)
        if found is not None:
            return [found, *_intents(cluster, name), *_owned(cluster, kind, name)]
    raise UnknownKindError(f"there is no {kinds[0].name} '{name}' in '{cluster.namespace}'")


def _is_named(kind: Kind, text: str) -> bool:
    group, _, version = kind.api_version.partition("/")
    name = kind.name.lower()
    plain = (name, f"{name}s", f"{name}.{version}", f"{name}.{version}.{group}", f"{name}.{group}")
    return text.lower() in plain


def _get(cluster: Cluster, kind: Kind, name: str) -> dict[str, Any] | None:
    try:
        resource = cluster.resource(kind.api_version, kind.name)
    except ClusterError as error:
        if error.not_found:
            return None
        raise
    return cluster.get(resource, name)


def _intents(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    scalers = [kind for kind in frontends.kinds() if not kind.pod_templates]
    values = [value for kind in scalers for value in _listed(cluster, kind.api_version, kind.name)]
    return [
        value for value in values if value.get("spec", {}).get("selector", {}).get("name") == job
    ]


def _owned(cluster: Cluster, kind: Kind, name: str) -> list[dict[str, Any]]:
    own = kind.operator.makes if kind.operator else ()
    values = [
        value for version, made in (*_MADE, *own) for value in _listed(cluster, version, made)
    ]
    return [dict(value) for value in owned(values, kind.name, name)]


def _listed(cluster: Cluster, api_version: str, kind: str) -> list[dict[str, Any]]:
    """The objects of a kind; none where the cluster does not know it."""
    try:
        return list(cluster.list(cluster.resource(api_version, kind)).items)
    except ClusterError as error:
        if error.not_found:
            return []
        raise
