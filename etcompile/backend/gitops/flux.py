"""Flux: what must not be substituted, and what must not be pruned.

Flux has no waves; the launcher's gate does without them (reference/gitops.md 2.3).
"""

from etcompile.backend.gitops.situation import Situation
from etcompile.k8s.objects import Object

_KEPT = frozenset({"Namespace", "PersistentVolumeClaim"})


def annotations(value: Object, wave: int, situation: Situation) -> dict[str, str]:  # noqa: ARG001
    """What Flux should know of an object."""
    added = {}
    # Substitution would empty the `${...}` of a script (reference/gitops.md 2.5).
    if situation.variables and not _says(value, "substitute"):
        added[_key("substitute")] = "disabled"
    if value["kind"] in _KEPT and not _says(value, "prune"):
        added[_key("prune")] = "Disabled"
    return added


def _key(what: str) -> str:
    return f"kustomize.toolkit.fluxcd.io/{what}"


def _says(value: Object, what: str) -> bool:
    """Whether the object says so itself: Flux reads labels too (reference/gitops.md 2.1)."""
    return _key(what) in (value["metadata"].get("labels") or {})
