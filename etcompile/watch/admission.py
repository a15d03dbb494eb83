"""Who may write the ConfigMaps that the watcher acts on: an admission policy, and whether it holds.

A watcher makes Pods of what `J-etcompile` says. Without a policy, whoever may write ConfigMaps in a
namespace can so have Pods made that they may not create themselves (docs/security.md). No object
says who has written it, so the watcher cannot see that; the API server can, before it is written.
"""

import logging
import re
from collections.abc import Mapping, Sequence

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import HOSTS_END, JOB_LABEL, STATUS_END
from etcompile.watch.leader_election import MANAGER

POLICY = "etcompile-jobs"
"""The ValidatingAdmissionPolicy; one that the Helm chart made has more behind this name."""

_log = logging.getLogger("etcompile.watch")
_NAMED_MOST = 10
"""Namespaces that a line of the log names."""
_CHECK = "etcompile-policy-check"
"""The name of a ConfigMap that the policy lets nobody write."""
_API_VERSION = "admissionregistration.k8s.io/v1"
_CONTROLLERS = (
    "system:kube-controller-manager",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:storage-version-migrator-controller",
)
"""Who changes what refers to other objects, or how objects are stored, and never their data."""


def policy(labels: Mapping[str, str]) -> LiveObject:
    """The policy: who may not create Pods may not write the ConfigMaps of jobs.

    Nor take the label off one, nor delete one to put another in its place. The garbage collector
    and the namespace controller may delete Pods, and so these.

    Args:
        labels: The labels of the watcher's objects.
    """
    pods = "authorizer.group('').resource('pods').namespace(request.namespace)"
    may = f"{pods}.check('create').allowed()"
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": POLICY, "labels": dict(labels)},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["configmaps"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                    }
                ]
            },
            "matchConditions": [
                {"name": "of-a-job", "expression": _of_a_job()},
                {
                    "name": "not-by-a-controller",
                    "expression": f"!(request.userInfo.username in {[*_CONTROLLERS]})",
                },
            ],
            "validations": [
                {
                    "expression": f"request.name != '{_CHECK}' || request.operation == 'DELETE'",
                    "message": f"the policy {POLICY} is in force",
                    "reason": "Forbidden",
                },
                {
                    "expression": f"{may} || "
                    f"(request.operation == 'DELETE' && {pods}.check('delete').allowed())",
                    "message": "the watcher of etcompile makes Pods of what is in ConfigMaps with "
                    f"the label {JOB_LABEL}: only who may create Pods in this namespace may write "
                    "them",
                    "reason": "Forbidden",
                },
            ],
        },
    }


def binding(
    watcher: str, namespaces: Sequence[str] | None, labels: Mapping[str, str]
) -> LiveObject:
    """Where the policy holds.

    Args:
        watcher: What tells this watcher from others of the cluster: its namespace, and its name.
        namespaces: The namespaces that it watches; None for all.
        labels: The labels of the watcher's objects.
    """
    spec: LiveObject = {"policyName": POLICY, "validationActions": ["Deny"]}
    if namespaces is not None:
        key = "kubernetes.io/metadata.name"
        term = {"key": key, "operator": "In", "values": [*namespaces]}
        spec["matchResources"] = {"namespaceSelector": {"matchExpressions": [term]}}
    return {
        "apiVersion": _API_VERSION,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": f"{POLICY}-{watcher}", "labels": dict(labels)},
        "spec": spec,
    }


def _of_a_job() -> str:
    """Whether a ConfigMap is one of a job's, as it was or as it is to be."""
    marked = f"has(one.metadata.labels) && '{JOB_LABEL}' in one.metadata.labels"
    # Pods mount these by name, so a label is not needed to mislead them.
    named = " || ".join(f"one.metadata.name.endsWith('{end}')" for end in (STATUS_END, HOSTS_END))
    held = f"has(one.metadata.name) && ({named})"
    return f"[object, oldObject].exists(one, one != null && (({marked}) || ({held})))"


def is_guarded(cluster: Cluster, namespace: str) -> bool | None:
    """Whether the policy holds in a namespace; None if that cannot be told.

    It lets nobody write a ConfigMap of a certain name, so it is enough to try, without effect. That
    needs no right to read policies, and sees whether the policy is bound to this very namespace.
    """
    metadata = {"name": _CHECK, "namespace": namespace, "labels": {JOB_LABEL: _CHECK}}
    tried = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        cluster.create(tried, field_manager=MANAGER, dry_run=True)
    except ClusterError as error:
        return True if re.search(rf"'{POLICY}(\.[^']*)?'", error.message) else None
    return False


def tell(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Logs whom the watcher trusts, if that is everybody who writes ConfigMaps in a namespace."""
    guarded = {namespace: is_guarded(cluster, namespace) for namespace in namespaces}
    for known, words in ((False, "is not in force"), (None, "may not be in force")):
        found = [namespace for namespace in namespaces if guarded[namespace] is known]
        if not found:
            continue
        more = f" and {len(found) - _NAMED_MOST} more" if len(found) > _NAMED_MOST else ""
        _log.warning(
            "the policy %s %s: everyone who can write ConfigMaps there can create Pods (see "
            "docs/security.md); namespaces: %s%s",
            POLICY,
            words,
            ", ".join(found[:_NAMED_MOST]),
            more,
        )
