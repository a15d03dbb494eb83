"""Small objects of a job beside its Pods: account and rights, claims, and custom resources."""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job

_GROUP = "rbac.authorization.k8s.io"


def account(job: Job) -> list[dict[str, Any]]:
    """ServiceAccount, Role and RoleBinding: what the Pods may do with the Kubernetes API.

    The least that works: an account always, because Pods name it; a Role only if there is
    something to allow (reference/et-operator.md 6, defects 6 and 40). The Role and its binding have
    the account's own name when the job makes it, as upstream, and `JOB-launcher` too when the
    account is the user's.
    """
    access = job.access
    if access is None:
        return []
    labels = job_labels(job)
    objects: list[dict[str, Any]] = []
    if access.create_account:
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": metadata(job, access.account, labels),
            }
        )
    if access.rules:
        name = access.role or f"{job.name}-launcher"
        rules = [dict(rule) for rule in access.rules]
        if access.exec_into is not None:
            # Commands are sent to the Pods that they are meant for. A rule without names would be
            # one for every Pod of the namespace, so without Pods there is none
            # (reference/training-operator.md 7, defect 41).
            role = job.role(access.exec_into)
            names = [role.pod_name(member) for member in role.members] if role else []
            rules = [
                {**rule, "resourceNames": names} if "pods/exec" in rule["resources"] else rule
                for rule in rules
                if names or "pods/exec" not in rule["resources"]
            ]
        subject = {
            "kind": "ServiceAccount",
            "name": access.account,
            "namespace": job.namespace,
        }
        objects += [
            {
                "apiVersion": f"{_GROUP}/v1",
                "kind": "Role",
                "metadata": metadata(job, name, labels),
                "rules": rules,
            },
            {
                "apiVersion": f"{_GROUP}/v1",
                "kind": "RoleBinding",
                "metadata": metadata(job, name, labels),
                "subjects": [subject],
                "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": name},
            },
        ]
    return objects


def claims(job: Job) -> list[dict[str, Any]]:
    """The PersistentVolumeClaims of a job: what they hold is not the job's to delete.

    Nothing of etcompile deletes one that nobody names (`etcompile.plan.owners`); Argo CD and
    Flux leave them alone by their annotations (`gitops`).
    """
    objects = []
    for claim in job.claims:
        labels = {**job_labels(job), **claim.labels, **job.selector}
        more = {"annotations": dict(claim.annotations)} if claim.annotations else {}
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata(job, claim.name, labels, **more),
                "spec": dict(claim.spec),
            }
        )
    return objects


def custom_resources(job: Job) -> list[dict[str, Any]]:
    """Objects of kinds of somebody else's: what a program of the job reads from the cluster.

    Their kinds must be known to the cluster already. A definition of a kind is for whoever looks
    after the cluster, and so is never among a job's objects.
    """
    return [
        {
            "apiVersion": custom.api_version,
            "kind": custom.kind,
            "metadata": metadata(job, custom.name, {**job_labels(job), **custom.labels}),
            "spec": dict(custom.spec),
        }
        for custom in job.custom
    ]
