"""What the watcher may do, as rules of RBAC, and a line of its log about what it may not.

The rules are the contract of docs/protocol.md: nothing here lets it change an object that Git
declares, except by making a Pod go. The admin of a namespace (the ClusterRole `admin`) holds all of
them but those for PodGroups, and can so grant them to a watcher.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product

from msgspec import Struct

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError

_log = logging.getLogger("etcompile.watch")
_NAMED_MOST = 10
"""Namespaces that the line of the log names for each right."""
_CORE = {"apiGroups": [""]}
RULES: tuple[LiveObject, ...] = (
    # list, watch: to follow them. create, delete: to replace them. patch: to touch them, so that
    # the kubelet brings host lists at once. get: to see who has the name of a Pod to be created.
    {
        **_CORE,
        "resources": ["pods"],
        "verbs": ["create", "delete", "get", "list", "patch", "watch"],
    },
    # list, watch: to find jobs. create, patch: J-hosts and J-status.
    {**_CORE, "resources": ["configmaps"], "verbs": ["create", "list", "patch", "watch"]},
    # list, watch: launchers that are Jobs of Kubernetes, which make their Pod.
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
    # create: a job's ssh key pair. It may not read one.
    {**_CORE, "resources": ["secrets"], "verbs": ["create"]},
    {**_CORE, "resources": ["events"], "verbs": ["create"]},
    # get: to see whether a Pod that was replaced can be found by its name.
    {**_CORE, "resources": ["services"], "verbs": ["get"]},
)
"""What it needs in each namespace that it watches, to replace Pods."""


class Right(Struct, frozen=True):
    """Rules that not every watcher needs.

    Args:
        purpose: What it cannot do without them: `cannot …`.
    """

    purpose: str
    rules: tuple[LiveObject, ...]


OPTIONAL: Mapping[str, Right] = {
    "logs": Right(
        "read logs",
        ({**_CORE, "resources": ["pods/log"], "verbs": ["get"]},),
    ),
    "quotas": Right(
        "see when a quota has room again",
        ({**_CORE, "resources": ["resourcequotas"], "verbs": ["list", "watch"]},),
    ),
    # list, delete: each object is deleted by UID, if it has the job's name and label.
    "removal": Right(
        "remove jobs with ttlSecondsAfterFinished",
        (
            {**_CORE, "resources": ["services", "serviceaccounts"], "verbs": ["delete", "list"]},
            {**_CORE, "resources": ["configmaps"], "verbs": ["delete"]},
            {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["delete"]},
            {
                "apiGroups": ["rbac.authorization.k8s.io"],
                "resources": ["rolebindings", "roles"],
                "verbs": ["delete", "list"],
            },
            # deletecollection: the job's key pair, by name and label, without reading it.
            {**_CORE, "resources": ["secrets"], "verbs": ["deletecollection"]},
        ),
    ),
    "gangs": Right(
        "remove the PodGroups of such jobs",
        (
            {
                "apiGroups": [
                    "scheduling.k8s.io",
                    "scheduling.sigs.k8s.io",
                    "scheduling.volcano.sh",
                    "scheduling.x-k8s.io",
                ],
                "resources": ["podgroups"],
                "verbs": ["delete", "list"],
            },
        ),
    ),
}
"""Rights by the option that grants them: a field of `manifests.Installation`."""


_BASE = tuple(
    Right(f"{', '.join(rule['verbs'])} {', '.join(rule['resources'])}", (rule,)) for rule in RULES
)


def report_missing(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Logs in one line what the watcher cannot do in namespaces because it has no right to."""
    missing: dict[str, list[str]] = {}
    for right in (*_BASE, *OPTIONAL.values()):
        for namespace in namespaces:
            if not all(_allows(cluster, namespace, rule) for rule in right.rules):
                missing.setdefault(right.purpose, []).append(namespace)
    if not missing:
        return
    purposes = []
    for purpose, places in missing.items():
        more = ", …" if len(places) > _NAMED_MOST else ""
        where = f" in {', '.join(places[:_NAMED_MOST])}{more}"
        purposes.append(purpose if len(places) == len(namespaces) else purpose + where)
    needed = missing.keys() & {right.purpose for right in _BASE}
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
