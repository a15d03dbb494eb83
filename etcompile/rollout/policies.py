"""Which kinds of objects the cluster's admission may treat one by one.

Of many new objects that are alike, one dry run tells about all, unless somebody's policy looks at
names or labels: then each is tried. Who may not read the policies tries each, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import ObjectRef

_GROUP = "admissionregistration.k8s.io"
_POLICIES = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
_WEBHOOKS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")

Rule = Mapping[str, Any]


class Policies:
    """The rules of a cluster's policies and webhooks; read when they are first asked about.

    Args:
        cluster: The cluster.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._rules: Sequence[Rule] | None = None

    def single_out(self, ref: ObjectRef) -> bool:
        """Whether one of alike new objects may be refused and another accepted.

        Args:
            ref: One of them.
        """
        if self._rules is None:
            self._rules = [*self._read()]
        resource = self._cluster.resource(ref.api_version, ref.kind).plural
        return any(_is_about(rule, ref.group, resource) for rule in self._rules)

    def _read(self) -> Iterator[Rule]:
        for kind in (*_POLICIES, *_WEBHOOKS):
            try:
                resource = self._cluster.served(_GROUP, kind)
                found = self._cluster.list(resource, None).items if resource else ()
            except ClusterError as error:
                if error.status not in (403, 404):
                    raise
                yield {}  # unknown: it may be about anything
                return
            for one in found:
                yield from _rules(one, kind)


def _rules(value: Mapping[str, Any], kind: str) -> Iterator[Rule]:
    if kind in _POLICIES:
        constraints = (value.get("spec") or {}).get("matchConstraints") or {}
        yield from constraints.get("resourceRules") or ()
    else:
        for webhook in value.get("webhooks") or ():
            yield from webhook.get("rules") or ()


def _is_about(rule: Rule, group: str, resource: str) -> bool:
    groups, resources = rule.get("apiGroups"), rule.get("resources")
    operations = rule.get("operations")
    return (
        (groups is None or not {"*", group}.isdisjoint(groups))
        and (resources is None or not {"*", "*/*", resource}.isdisjoint(resources))
        and (operations is None or not {"*", "CREATE"}.isdisjoint(operations))
    )
