"""Argo CD: the wave of every object, and what must not be pruned or dry-run.

No Force, no Replace, no hook on anything: each of them restarts a healthy training
(reference/gitops.md 0, facts 6 and 7, and 1.7).
"""

from etcompile.backend.gitops.situation import Situation, must_not_be_copied
from etcompile.k8s.objects import Object

_OPTIONS = "argocd.argoproj.io/sync-options"
_KEPT = frozenset({"Namespace", "PersistentVolumeClaim"})
_CUSTOM = frozenset({"ExternalSecret", "PodGroup", "SSHKey", "SealedSecret", "SecretProviderClass"})
"""Kinds whose definition may only arrive with the same sync."""


def annotations(value: Object, wave: int, situation: Situation) -> dict[str, str]:
    """What Argo CD should know of an object."""
    added = {"argocd.argoproj.io/sync-wave": str(wave)}
    kind = value["kind"]
    if kind in _KEPT:
        added[_OPTIONS] = "Prune=false,Delete=false"
    elif kind in _CUSTOM:
        added[_OPTIONS] = "SkipDryRunOnMissingResource=true"
    elif kind == "Pod" and value["metadata"].get("name") in situation.resident:
        # A Pod that only serves is healthy once it is ready; without this it is Progressing to
        # its end, which is right only for the Pod that trains (reference/gitops.md 1.2).
        added["argocd.argoproj.io/ignore-restart-policy"] = "true"
    if must_not_be_copied(value):
        # Else Argo CD keeps a copy of it in an annotation, as kubectl does.
        options = (added.get(_OPTIONS), "ServerSideApply=true")
        added[_OPTIONS] = ",".join(option for option in options if option)
    return added
