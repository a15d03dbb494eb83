"""What the watcher may do, as rules of RBAC, and a line of its log about what it may not.

The rules stand in the kustomizations of `templates/watcher`. They are the contract of
docs/protocol.md: nothing there lets it change an object that Git declares, except by making a Pod
go. The admin of a namespace (the ClusterRole `admin`) holds all of them but those for PodGroups,
and can so grant them to a watcher.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product

import yaml
from msgspec import Struct

from etcompile import data
from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError

_log = logging.getLogger("etcompile.watch")
_NAMED_MOST = 10
"""Namespaces that the line of the log names for each right."""


def shipped(path: str) -> list[LiveObject]:
    """The objects of a file of the kustomizations that install the watcher."""
    file = data.folder("templates") / "watcher/kustomize" / path
    return [*yaml.safe_load_all(file.read_text("utf-8"))]


def base_rules() -> list[LiveObject]:
    """What every watcher needs in each namespace that it watches, to replace Pods."""
    role, _ = shipped("rights/role.yaml")
    return list(role["rules"])


class Right(Struct, frozen=True):
    """A right that not every watcher needs.

    Args:
        purpose: What it cannot do without it: `cannot …`.
        component: The component that grants it.
    """

    purpose: str
    component: str

    def rules(self) -> list[LiveObject]:
        """The rules that the component adds."""
        [component] = shipped(f"components/{self.component}/kustomization.yaml")
        return [added["value"] for added in yaml.safe_load(component["patches"][0]["patch"])]


OPTIONAL: Mapping[str, Right] = {
    "logs": Right("read logs", "read-logs"),
    "quotas": Right("see when a quota has room again", "read-quotas"),
    "removal": Right("remove jobs with ttlSecondsAfterFinished", "remove-finished"),
    "gangs": Right("remove the PodGroups of such jobs", "remove-pod-groups"),
}
"""Rights by the option that grants them: a field of `manifests.Installation`."""


def report_missing(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Logs in one line what the watcher cannot do in namespaces because it has no right to."""
    base = {f"{', '.join(r['verbs'])} {', '.join(r['resources'])}": [r] for r in base_rules()}
    wanted = base | {right.purpose: right.rules() for right in OPTIONAL.values()}
    missing: dict[str, list[str]] = {}
    for purpose, rules in wanted.items():
        for namespace in namespaces:
            if not all(_allows(cluster, namespace, rule) for rule in rules):
                missing.setdefault(purpose, []).append(namespace)
    if not missing:
        return
    purposes = []
    for purpose, places in missing.items():
        more = ", …" if len(places) > _NAMED_MOST else ""
        where = f" in {', '.join(places[:_NAMED_MOST])}{more}"
        purposes.append(purpose if len(places) == len(namespaces) else purpose + where)
    needed = missing.keys() & base.keys()
    _log.log(
        logging.WARNING if needed else logging.INFO,
        "has no right to: %s (see docs/running-the-watcher.md)",
        "; ".join(purposes),
    )


def _allows(cluster: Cluster, namespace: str, rule: LiveObject) -> bool:
    """Whether the watcher may do what a rule says. Everybody may ask that about themselves."""
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
