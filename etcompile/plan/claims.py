"""Whose a live object is: other tools that look after it, its owners, its inventory.

Two tools that write one object undo each other for ever, so an object that somebody else looks
after is not touched without leave (reference/gitops.md 3 and 4.3).
"""

import re
from collections.abc import Collection, Mapping

from etcompile.k8s.objects import Object
from etcompile.k8s.path import mapping_at
from etcompile.model.keypair import key_pair_of
from etcompile.model.protocol import JOB_LABEL, MANAGER, STORED_JOB, config_names
from etcompile.plan.inventory import PART_OF

_TRACKING = "argocd.argoproj.io/tracking-id"
_FLUX = {
    "kustomize.toolkit.fluxcd.io/name": "Flux Kustomization",
    "helm.toolkit.fluxcd.io/name": "Flux HelmRelease",
}
_LABELS = {"kapp.k14s.io/app": "kapp app"}
_ARGO_LABELS = ("argocd.argoproj.io/instance", "app.kubernetes.io/instance")
"""The labels that Argo CD tracks by. Another key can be configured (reference/gitops.md 1.1)."""
_ANNOTATIONS = {
    "meta.helm.sh/release-name": "Helm release",
    "config.k8s.io/owning-inventory": "inventory",
}
OUR_PROGRAMS = frozenset({"etcompile-watcher", "etcompile-applyset"})
"""Our field managers beside that of `apply`."""
_STORED_KIND = re.compile(r"^document:\n(?:^  .*\n)*?^  kind: ([A-Za-z]+)$", re.MULTILINE)
"""The kind of the document in a stored job (`etcompile.compiler.stored`)."""
_KEEP = {
    "etcompile.dev/prune": "disabled",
    "client.lifecycle.config.k8s.io/deletion": "detach",
    "cli-utils.sigs.k8s.io/on-remove": "keep",
    "kapp.k14s.io/delete-strategy": "orphan",
}


def tracker(live: Object) -> str | None:
    """The tool that looks after an object: `Argo CD application team`; None if none does."""
    labels = mapping_at(live, ("metadata", "labels"))
    annotations = mapping_at(live, ("metadata", "annotations"))
    application, _, of = str(annotations.get(_TRACKING, "")).partition(":")
    metadata, group = live["metadata"], live["apiVersion"].rpartition("/")[0]
    own = f"{group}/{live['kind']}:{metadata.get('namespace') or ''}/{metadata.get('name')}"
    if application and of == own:  # else it was copied from another object
        return f"Argo CD application {application}"
    for key, tool in _FLUX.items():
        if name := labels.get(key):
            namespace = labels.get(key.removesuffix("name") + "namespace")
            return f"{tool} {namespace}/{name}" if namespace else f"{tool} {name}"
    for found, table in ((labels, _LABELS), (annotations, _ANNOTATIONS)):
        for key, tool in table.items():
            if name := found.get(key):
                return f"{tool} {name}"
    return _labelled_by_argo(live)


def _labelled_by_argo(live: Object) -> str | None:
    """The application that tracks an object by a label that none of our programs wrote."""
    owners: dict[str, set[str]] = {key: set() for key in mapping_at(live, ("metadata", "labels"))}
    for entry in live["metadata"].get("managedFields") or ():
        for field in mapping_at(entry, ("fieldsV1", "f:metadata", "f:labels")):
            owners.setdefault(field.removeprefix("f:"), set()).add(str(entry.get("manager")))
    labels = {
        key: value
        for key, value in mapping_at(live, ("metadata", "labels")).items()
        if not owners[key] & {MANAGER, *OUR_PROGRAMS}
    }
    for key in _ARGO_LABELS:
        if name := labels.get(key):
            return f"Argo CD application {name} (label {key})"
    if any(name.startswith("argocd") for key in labels for name in owners[key]):
        return "Argo CD"
    return None


def holder(live: Object, inventories: Collection[str]) -> str | None:
    """The clause that says which tool or other ApplySet an object belongs to; None if to none.

    Args:
        live: The object as the cluster has it.
        inventories: The ids of the ApplySets that are ours.
    """
    member = inventory(live)
    tool = tracker(live)
    if tool is None and member and member not in inventories:
        tool = f"the ApplySet {member}"
    return f"{tool} manages it" if tool else None


def other_job(desired: Object, live: Object) -> str | None:
    """The job of another kind that has the same name, by its ConfigMap: `TFJob bert`.

    Args:
        desired: The object as it is declared.
        live: The ConfigMap of that name in the cluster.
    """
    wanted, there = _job_kind(desired), _job_kind(live)
    if not wanted or not there or wanted == there:
        return None
    name = (live["metadata"].get("labels") or {}).get(JOB_LABEL)
    return f"{there} {name}"


def config_of_others(desired: Object) -> str | None:
    """The name that the ConfigMap would have if a job of another kind had this job's name.

    Args:
        desired: An object; None comes of one that declares no job.
    """
    if not _job_kind(desired):
        return None
    job = (desired["metadata"].get("labels") or {}).get(JOB_LABEL, "")
    names = (name for name in config_names(job) if name != desired["metadata"]["name"])
    return next(names, None)


def same_name(other: str) -> str:
    """Why a job is refused beside the job of another kind that `other_job` names."""
    return f"its job has the name of the {other}: two such jobs cannot share a namespace"


def _job_kind(value: Object) -> str | None:
    """The kind of the job that a ConfigMap stores, if it stores one."""
    data = value.get("data") if value["kind"] == "ConfigMap" else None
    stored = data.get(STORED_JOB) if isinstance(data, Mapping) else None
    found = _STORED_KIND.search(stored) if isinstance(stored, str) else None
    return found[1] if found else None


def controller(live: Object) -> str | None:
    """The object whose controller makes and deletes this one: `ReplicaSet web-5d`."""
    for owner in live["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return f"{owner.get('kind')} {owner.get('name')}"
    return None


def owner(live: Object) -> str | None:
    """An object that this one goes with, by its ownerReferences."""
    for reference in live["metadata"].get("ownerReferences") or ():
        return f"{reference.get('kind')} {reference.get('name')}"
    return None


def inventory(live: Object) -> str | None:
    """The id of the ApplySet that the object is a member of."""
    found: str | None = mapping_at(live, ("metadata", "labels")).get(PART_OF)
    return found


def keep_annotation(live: Object) -> str | None:
    """The annotation by which somebody asks that the object is never pruned."""
    annotations = mapping_at(live, ("metadata", "annotations"))
    return next(
        (f"{key}: {value}" for key, value in _KEEP.items() if annotations.get(key) == value), None
    )


def makers(live: Object) -> str:
    """Who has written the object, as far as it tells: `kubectl, argocd-controller`."""
    entries = live["metadata"].get("managedFields") or ()
    names = dict.fromkeys(
        str(entry.get("manager")) for entry in entries if entry.get("subresource") != "status"
    )
    return ", ".join(names) or "somebody else"


def managers(live: Object) -> frozenset[str]:
    """The field managers of an object."""
    entries = live["metadata"].get("managedFields") or ()
    return frozenset(str(entry.get("manager")) for entry in entries)


def stranger(live: Object, manager: str) -> str | None:
    """Who made an object that none of our programs has ever written; None if one has.

    `kubectl expose` and a copied manifest give new objects the labels of the old one, that of its
    ApplySet and of its job too: labels do not make an object ours.

    Args:
        live: The object as the cluster has it, with its `managedFields`.
        manager: Our field manager.
    """
    names = managers(live)
    return makers(live) if names and not names & {manager, *OUR_PROGRAMS} else None


def is_member(live: Object, manager: str = MANAGER) -> bool:
    """Whether an object is in an ApplySet because it was applied with it, and is no copy."""
    return inventory(live) is not None and stranger(live, manager) is None


def going(live: Object) -> str:
    """That an object is being deleted, and what keeps it."""
    finalizers = live["metadata"].get("finalizers") or ()
    kept = f", kept by the finalizers {', '.join(finalizers)}" if finalizers else ""
    return f"the one that exists is being deleted{kept}"


def missing_keys(desired: Object, live: Object) -> list[str]:
    """The parts of a key pair that a Secret should have and does not.

    Args:
        desired: The Secret that is to be given a key pair, or any other object.
        live: What the cluster has under its name.
    """
    if (pair := key_pair_of(desired)) is None:
        return []
    held = live.get("data") or {}
    return [key for key in pair.halves if not held.get(key)]
