"""What the watcher may do, and who may write what it acts on.

**Rights** are rules of RBAC in `templates/watcher/kustomize`. Nothing there lets the watcher change
an object that Git declares, except by making a Pod go (docs/protocol.md).

**The policy.** A watcher creates Pods from what `J-etcompile` says. No object says who has written
it, so only the API server can check that, before it is written (docs/security.md).
"""

import logging
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product

import yaml
from msgspec import Struct

from etcompile import data
from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import JOB_LABEL, WATCHER

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


def kustomize_file(path: str) -> list[LiveObject]:
    """The objects of a file in `templates/watcher/kustomize`."""
    file = data.folder("templates") / "watcher/kustomize" / path
    return list(yaml.safe_load_all(file.read_text("utf-8")))


def needed() -> list[LiveObject]:
    """The rules that every watcher needs in each namespace that it watches."""
    role, _ = kustomize_file("rights/role.yaml")
    return list(role["rules"])


class Right(Struct, frozen=True):
    """Rules that not every watcher needs."""

    purpose: str  # what it cannot do without them: `cannot …`
    component: str  # the kustomization that adds them

    @property
    def rules(self) -> list[LiveObject]:
        """The rules that the component adds to the Role."""
        (kustomization,) = kustomize_file(f"components/{self.component}/kustomization.yaml")
        (patch,) = kustomization["patches"]
        return [operation["value"] for operation in yaml.safe_load(patch["patch"])]


OPTIONAL: Mapping[str, Right] = {
    "logs": Right("read logs", "read-logs"),
    "quotas": Right("see when a quota has room again", "read-quotas"),
    "removal": Right("remove jobs with ttlSecondsAfterFinished", "remove-finished"),
    "gangs": Right("remove the PodGroups of such jobs", "remove-pod-groups"),
}
"""Rights by the option that grants them: a field of `manifests.Installation`."""


def report_missing(cluster: Cluster, namespaces: Sequence[str] | None) -> None:
    """Logs what the watcher cannot do because it has no right to: a line a namespace.

    Where all namespaces are watched (None), the rights are the same in each.
    """
    essential = {
        f"{', '.join(rule['verbs'])} {', '.join(rule['resources'])}": [rule] for rule in needed()
    }
    optional = {right.purpose: right.rules for right in OPTIONAL.values()}
    for namespace in namespaces or ("default",):
        missing = [
            purpose
            for purpose, rules in (essential | optional).items()
            if not all(_allows(cluster, namespace, rule) for rule in rules)
        ]
        if missing:
            _log.log(
                logging.WARNING if essential.keys() & {*missing} else logging.INFO,
                "has no right to: %s%s (see docs/watcher.md)",
                "; ".join(missing),
                f", in {namespace}" if namespaces and len(namespaces) > 1 else "",
            )


def _allows(cluster: Cluster, namespace: str, rule: LiveObject) -> bool:
    for resource, verb in product(rule["resources"], rule["verbs"]):
        name, _, part = resource.partition("/")
        about = {"namespace": namespace, "verb": verb, "group": rule["apiGroups"][0]}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": {**about, "resource": name, "subresource": part}},
        }
        with suppress(ClusterError):  # else nothing is known, and a request that needs it will tell
            if not cluster.create(review)["status"]["allowed"]:
                return False
    return True


def is_guarded(cluster: Cluster, namespace: str) -> bool | None:
    """Whether the policy holds in a namespace; None if that cannot be told.

    It lets nobody write a ConfigMap of a certain name. Trying that in a dry run needs no right to
    read policies, and shows whether the policy is bound to this very namespace.
    """
    metadata = {"name": _CHECK, "namespace": namespace, "labels": {JOB_LABEL: _CHECK}}
    example = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    try:
        cluster.create(example, field_manager=WATCHER, dry_run=True)
    except ClusterError as error:
        return True if re.search(rf"'{POLICY}(\.[^']*)?'", error.message) else None
    return False


def report_trust(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Logs whom the watcher trusts, if that is everybody who writes ConfigMaps in a namespace."""
    guarded = {namespace: is_guarded(cluster, namespace) for namespace in namespaces}
    for known, words in ((False, "is not in force"), (None, "may not be in force")):
        places = [namespace for namespace in namespaces if guarded[namespace] is known]
        where = ", ".join(places[:_NAMED_MOST])
        if len(places) > _NAMED_MOST:
            where += f" and {len(places) - _NAMED_MOST} more"
        if places:
            _log.warning(
                "the policy %s %s: everyone who can write ConfigMaps there can create Pods (see "
                "docs/security.md); namespaces: %s",
                *(POLICY, words, where),
            )
