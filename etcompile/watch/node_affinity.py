"""A Pod that avoids nodes, and is still what Git declares.

What a tool that syncs Git compares is what Git has. It passes over fields that only the cluster
has, but a list that Git has must be the same (reference/gitops.md 1.6). The terms of a node
affinity are such a list, and they cannot be changed in a Pod that is there. So to a Pod with terms
of its own, that a tool looks after, nothing is added that the tool would see: only a preference, if
it has none of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from etcompile.k8s.objects import LiveObject, Object

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100
"""The most that a preference can weigh."""


def avoiding(pod: Object, nodes: Sequence[str], *, git_managed: bool) -> LiveObject | None:
    """A Pod that does not come to some nodes, or if there is no other way would rather not.

    Returns:
        The Pod; None if a tool compares it with what Git declares, and nothing can be added to it
        that the tool would not see.
    """
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    own = affinity.get("nodeAffinity") or {}
    required, preferred = own.get(_REQUIRED), own.get(_PREFERRED)
    if required is None or not git_managed:
        # Terms are alternatives: each of them must avoid the nodes.
        before = [{}] if required is None else required.get("nodeSelectorTerms") or ()
        terms = [_term(term, nodes) for term in before]
        added: dict[str, Any] = {_REQUIRED: {**(required or {}), "nodeSelectorTerms": terms}}
    elif not preferred:
        added = {_PREFERRED: [{"weight": _WEIGHT, "preference": _term({}, nodes)}]}
    else:
        return None
    return {**pod, "spec": {**spec, "affinity": {**affinity, "nodeAffinity": {**own, **added}}}}


def _term(term: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, Any]:
    """A term that the nodes do not match; by name, which is not always that of their host."""
    # A requirement of a field has exactly one value (k8s.io/kubernetes, pkg/apis/core/validation,
    # ValidateNodeFieldSelectorRequirement).
    fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in nodes]
    return {**term, "matchFields": [*(term.get("matchFields") or ()), *fields]}
