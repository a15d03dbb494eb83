"""ServiceAccount, Role and RoleBinding: what a job's Pods may ask the Kubernetes API.

The least that works: an account always, because Pods name it; a Role only if there is
something to allow (reference/et-operator.md 6, defects 6 and 40).
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import ClusterAccess, Job

_GROUP = "rbac.authorization.k8s.io"


def objects(job: Job) -> list[dict[str, Any]]:
    """The job's account and rights.

    The Role and its binding have the account's own name when the job makes it, as upstream,
    and `JOB-launcher` too when the account is the user's.
    """
    access = job.access
    if access is None:
        return []
    labels = job_labels(job)
    made: list[dict[str, Any]] = []
    if access.create_account:
        made.append(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata(job, access.account, labels),
            }
        )
    if access.rules:
        name = access.role or f"{job.name}-launcher"
        subject = {
            "kind": "ServiceAccount",
            "name": access.account,
            "namespace": job.namespace,
        }
        made += [
            {
                "apiVersion": f"{_GROUP}/v1",
                "kind": "Role",
                "metadata": metadata(job, name, labels),
                "rules": _rules(job, access),
            },
            {
                "apiVersion": f"{_GROUP}/v1",
                "kind": "RoleBinding",
                "metadata": metadata(job, name, labels),
                "subjects": [subject],
                "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
            },
        ]
    return made


def _rules(job: Job, access: ClusterAccess) -> list[dict[str, Any]]:
    """The rules, that for sending commands with the names of the Pods it is meant for.

    A rule without names would be one for every Pod of the namespace, so without Pods there is
    none (reference/training-operator.md 7, defect 41).
    """
    if access.exec_into is None:
        return [dict(rule) for rule in access.rules]
    role = job.role(access.exec_into)
    names = [role.pod_name(member) for member in role.members] if role else []
    return [
        {**rule, "resourceNames": names} if "pods/exec" in rule["resources"] else dict(rule)
        for rule in access.rules
        if names or "pods/exec" not in rule["resources"]
    ]
