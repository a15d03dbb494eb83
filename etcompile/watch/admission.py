"""Whether an admission policy says who may write the ConfigMaps that the watcher acts on.

A watcher makes Pods of what `J-etcompile` says. Without a policy, whoever may write ConfigMaps in a
namespace can so have Pods made that they may not create themselves (docs/security.md). No object
says who has written it, so the watcher cannot see that; the API server can, before it is written.
The policy is `templates/watcher/kustomize/policy/policy.yaml`.
"""

import logging
import re
from collections.abc import Sequence

from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import JOB_LABEL
from etcompile.watch.leader_election import MANAGER

POLICY = "etcompile-jobs"
"""The ValidatingAdmissionPolicy (`templates/watcher/kustomize/policy/policy.yaml`): who may not
create Pods may not write the ConfigMaps of jobs, nor take the label off one, nor delete one to put
another in its place. The garbage collector and the namespace controller may; they never change
data. One that the Helm chart made has more behind this name."""

_log = logging.getLogger("etcompile.watch")
_NAMED_MOST = 10
"""Namespaces that a line of the log names."""
_CHECK = "etcompile-policy-check"
"""The name of a ConfigMap that the policy lets nobody write."""


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
