"""ServiceAccount, Role and RoleBinding: what a job's Pods may ask the Kubernetes API.

The least that works: an account always, because Pods name it; a Role only if there is
something to allow (reference/et-operator.md 6, defects 6 and 40).
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job

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
        name = f"{job.name}-launcher"
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
                "rules": [dict(rule) for rule in access.rules],
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
