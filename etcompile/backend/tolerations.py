"""A Pod's tolerations, with the two that the API server would add.

Kubernetes completes the list of every Pod that it admits. Argo CD compares lists as a whole: where
Git has one, and the Pod a longer one, they differ for ever, and self-healing never ends. So a list
that is written is written in full; a Pod without one is left without.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Toleration = Mapping[str, Any]

_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_SECONDS = 300
"""The default of kube-apiserver's --default-not-ready-toleration-seconds and of its twin."""


def admitted(tolerations: Sequence[Toleration]) -> list[Toleration]:
    """The tolerations of an admitted Pod, by Kubernetes' DefaultTolerationSeconds."""
    added = [
        {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _SECONDS}
        for taint in _TAINTS
        if not any(_bears(toleration, taint) for toleration in tolerations)
    ]
    return [*tolerations, *added]


def _bears(toleration: Toleration, taint: str) -> bool:
    key, effect = toleration.get("key"), toleration.get("effect")
    return (not key or key == taint) and (not effect or effect == "NoExecute")
