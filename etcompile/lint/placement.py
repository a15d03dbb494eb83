"""On which nodes the Pods of a role may be, as far as their fields bind the scheduler."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.lint.subject import RolePods

_Value = Mapping[str, Any]

HOST = "kubernetes.io/hostname"
"""The label that each node has for itself."""
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"


def is_on_one_node(pods: RolePods) -> bool:
    """Whether the scheduler is bound to put all Pods of a role on one node."""
    spec = pods.spec
    if "nodeName" in spec or HOST in spec.get("nodeSelector", {}):
        return True
    return any(term.get("topologyKey") == HOST for term in _terms(spec, "podAffinity"))


def is_kept_apart(pods: RolePods) -> bool:
    """Whether the scheduler is bound to put each Pod of a role on a node of its own.

    It is by an anti-affinity or a spread over nodes, and by ports of the host: of a Pod in the
    host's network, those that its containers declare.
    """
    spec = pods.spec
    if any(term.get("topologyKey") == HOST for term in _terms(spec, "podAntiAffinity")):
        return True
    for spread in spec.get("topologySpreadConstraints", ()):
        if spread.get("topologyKey") == HOST and spread.get("whenUnsatisfiable") == "DoNotSchedule":
            return True
    return any(
        spec.get("hostNetwork") or "hostPort" in port
        for container in spec["containers"]
        for port in container.get("ports", ())
    )


def required_labels(pods: RolePods) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The labels of nodes that the Pods of a role ask for, each with the values it may have."""
    for name, value in pods.spec.get("nodeSelector", {}).items():
        yield name, (value,)
    node = (pods.spec.get("affinity") or {}).get("nodeAffinity") or {}
    for term in (node.get(_TERMS) or {}).get("nodeSelectorTerms", ()):
        for wanted in term.get("matchExpressions", ()):
            if wanted.get("operator") == "In":
                yield wanted["key"], tuple(wanted.get("values", ()))


def _terms(spec: _Value, field: str) -> Iterator[_Value]:
    yield from ((spec.get("affinity") or {}).get(field) or {}).get(_TERMS, ())
