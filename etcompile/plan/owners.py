"""Tell whose a live object is, and whether it holds something that is nowhere else.

Two tools that write one object undo each other for ever, so an object of another manager is not
changed unless the user says so (reference/gitops.md 3 and 4.3). And a claim, a Secret or a
custom resource may hold data that is in no file, even if etcompile created it.
"""

import re
from collections.abc import Collection, Mapping

from msgspec import structs

from etcompile.k8s.bookkeeping import ARGO_ID, ARGO_LABELS, MARKS
from etcompile.k8s.managedfields import Ownership, ownership
from etcompile.k8s.objects import Object, annotations_of, labels_of
from etcompile.k8s.path import mapping_at
from etcompile.model.keypair import has_key_pair, key_pair_of
from etcompile.model.protocol import JOB_LABEL, MANAGER, SPEC_HASH, STORED_JOB, config_names
from etcompile.plan.applysets import PART_OF
from etcompile.plan.step import Reason, Step, conflict, unmanaged

OUR_PROGRAMS = frozenset({"etcompile-watcher", "etcompile-applyset"})
"""Our field managers besides that of `apply`."""
_STORED_KIND = re.compile(r"^document:\n(?:^  .*\n)*?^  kind: ([A-Za-z]+)$", re.MULTILINE)
"""The kind of the document in a stored job (`etcompile.compiler.stored`)."""
_NOT_PRUNED = {
    "etcompile.dev/prune": "disabled",
    "client.lifecycle.config.k8s.io/deletion": "detach",
    "cli-utils.sigs.k8s.io/on-remove": "keep",
    "kapp.k14s.io/delete-strategy": "orphan",
}

PREVENT_DESTROY = "etcompile.dev/prevent-destroy"
"""The annotation that forbids to delete or replace an object, whatever flags are used."""
FORBIDDEN = f"its annotation {PREVENT_DESTROY} forbids deleting it; remove the annotation first"
_DATA = {
    "PersistentVolumeClaim": "deleting it may delete its volume and everything on it",
    "PersistentVolume": "deleting it may delete everything on it",
    "Namespace": "deleting it deletes every object in it",
    "CustomResourceDefinition": "deleting it deletes every object of its kind",
    "VolumeSnapshot": "deleting it may delete the snapshot",
    "StatefulSet": "deleting it may delete the claims of its Pods",
}
_DECLARED = frozenset(
    {
        *("scheduling.volcano.sh", "scheduling.x-k8s.io", "scheduling.run.ai", "kueue.x-k8s.io"),
        *("bitnami.com", "external-secrets.io", "secrets-store.csi.x-k8s.io"),
    }
)
"""API groups whose objects hold nothing but what their manifests say: Pod groups, and references
to secrets."""
_PARTS = ("data", "binaryData")


# Other tools --------------------------------------------------------------------------------------


def tracker(live: Object) -> str | None:
    """Return the tool that manages an object: `Argo CD application team`; None if none does."""
    labels = labels_of(live)
    annotations = annotations_of(live)
    application, _, of = str(annotations.get(ARGO_ID, "")).partition(":")
    metadata, group = live["metadata"], live["apiVersion"].rpartition("/")[0]
    this = f"{group}/{live['kind']}:{metadata.get('namespace') or ''}/{metadata.get('name')}"
    if application and of == this:  # else it was copied from another object
        return f"Argo CD application {application}"
    for key, mark in MARKS.items():
        if mark.tool and (name := mapping_at(live, ("metadata", mark.field)).get(key)):
            namespace = labels.get(key.replace("/name", "/namespace"))
            whole = f"{namespace}/{name}" if key.endswith("/name") and namespace else name
            return f"{mark.tool} {whole}"
    # Argo CD can track by a label alone: one that none of our programs wrote.
    owners: dict[str, set[str]] = {key: set() for key in labels}
    for entry in live["metadata"].get("managedFields") or ():
        for field in mapping_at(entry, ("fieldsV1", "f:metadata", "f:labels")):
            owners.setdefault(field.removeprefix("f:"), set()).add(str(entry.get("manager")))
    foreign = [key for key in labels if not owners[key] & {MANAGER, *OUR_PROGRAMS}]
    for key in ARGO_LABELS:
        if key in foreign and (name := labels[key]):
            return f"Argo CD application {name} (label {key})"
    is_argos = any(name.startswith("argocd") for key in foreign for name in owners[key])
    return "Argo CD" if is_argos else None


def owner(live: Object, *, controller: bool = False) -> str | None:
    """Return the object that this one is deleted with: `ReplicaSet web-5d`.

    With `controller`, only one whose controller creates and deletes this object.
    """
    for reference in live["metadata"].get("ownerReferences") or ():
        if reference.get("controller") or not controller:
            return f"{reference.get('kind')} {reference.get('name')}"
    return None


def inventory(live: Object) -> str | None:
    applyset: str | None = labels_of(live).get(PART_OF)
    return applyset


def run_of(value: Object) -> str:
    """Return the spec hash of the run that a Pod, or a Job's Pods, are of; empty if unknown."""
    pod = mapping_at(value, ("spec", "template")) or value
    return str(mapping_at(pod, ("metadata", "annotations")).get(SPEC_HASH) or "")


def managers(live: Object) -> frozenset[str]:
    entries = live["metadata"].get("managedFields") or ()
    return frozenset(str(entry.get("manager")) for entry in entries)


def makers(live: Object) -> str:
    entries = live["metadata"].get("managedFields") or ()
    names = dict.fromkeys(
        str(entry.get("manager")) for entry in entries if entry.get("subresource") != "status"
    )
    return ", ".join(names) or "somebody else"


def stranger(live: Object) -> str | None:
    """Return who created an object that none of our programs has written; None if one has.

    `kubectl expose` and a copied manifest give new objects the labels of the old one, that of its
    ApplySet and of its job too: labels do not make an object ours.
    """
    names = managers(live)
    return makers(live) if names and not names & {MANAGER, *OUR_PROGRAMS} else None


def is_member(live: Object) -> bool:
    return inventory(live) is not None and stranger(live) is None


def holder(live: Object, owned: Ownership, inventories: Collection[str]) -> str | None:
    """Return whose an object is if it is not ours: `Argo CD application team manages it`.

    Args:
        inventories: The ids of the ApplySets that the declarations are of.
    """
    member = inventory(live)
    if tool := tracker(live):
        return f"{tool} manages it"
    if member and member not in inventories:
        return f"the ApplySet {member} manages it"
    ours = owned.ours is not None or (member in inventories and stranger(live) is None)
    if not owned.known:
        # By a label of our own: `app.kubernetes.io/managed-by` may be somebody else's.
        ours = ours or JOB_LABEL in labels_of(live)
    return None if ours else f"{makers(live)} made it"


# Other jobs ---------------------------------------------------------------------------------------


def other_job(desired: Object, live: Object) -> str | None:
    """Return the job of another kind that has the same name, by its ConfigMap: `TFJob bert`."""
    wanted, present = _job_kind(desired), _job_kind(live)
    if not wanted or not present or wanted == present:
        return None
    return f"{present} {(live['metadata'].get('labels') or {}).get(JOB_LABEL)}"


def names_of_config(desired: Object) -> tuple[str, ...]:
    job = labels_of(desired).get(JOB_LABEL)
    return config_names(job) if job and _job_kind(desired) else ()


def _job_kind(value: Object) -> str | None:
    content = value.get("data") if value["kind"] == "ConfigMap" else None
    stored = content.get(STORED_JOB) if isinstance(content, Mapping) else None
    match = _STORED_KIND.search(stored) if isinstance(stored, str) else None
    return match[1] if match else None


# What it holds ------------------------------------------------------------------------------------


def missing_keys(desired: Object, live: Object) -> list[str]:
    if (pair := key_pair_of(desired)) is None:
        return []
    content = live.get("data") or {}
    return [key for key in pair.halves if not content.get(key)]


def prevents_destruction(*versions: Object) -> bool:
    return any(
        str(annotations_of(version).get(PREVENT_DESTROY)).lower() == "true" for version in versions
    )


def lost_with(live: Object, desired: Object) -> str | None:
    kind: str = live["kind"]
    group = live["apiVersion"].rpartition("/")[0]
    if kind in _DATA:
        return _DATA[kind]
    if kind == "Secret":
        content = "a key pair" if has_key_pair(live) else "values"
        return f"it holds {content} that may be nowhere else"
    declared = [f"{part}.{key}" for part in _PARTS for key in desired.get(part) or ()]
    if keys := _foreign_keys(live, ownership(live, MANAGER), declared):
        return f"it holds {', '.join(keys)}"
    if "." in group and not group.endswith(".k8s.io") and group not in _DECLARED:
        return "its controller may delete what it created for it"
    return None


def spared(step: Step, live: Object) -> Step:
    if annotations := _NOT_PRUNED.items() & annotations_of(live).items():
        return unmanaged(step, f"it has the annotation {': '.join(min(annotations))}")
    if live["kind"] == "PersistentVolumeClaim":
        return unmanaged(step, "it holds data")
    if live["kind"] == "Secret" and not has_key_pair(live):
        return unmanaged(step, "etcompile did not create it")
    if prevents_destruction(live):
        return conflict(step, Reason(FORBIDDEN))
    owned = ownership(live, MANAGER)
    # If we have never written on it, somebody else has applied it as it was rendered.
    keys = _foreign_keys(live, owned) if owned.ours is not None else []
    if not keys:
        return step
    namespace = {"namespace": step.ref.namespace} if step.ref.namespace else {}
    # Applied by our field manager, this removes every field that nobody else has.
    manifest = {
        "apiVersion": step.ref.api_version,
        "kind": step.ref.kind,
        "metadata": {"name": step.ref.name, **namespace},
    }
    why = Reason(f"it also holds {', '.join(keys)}: only what etcompile wrote is removed")
    return structs.replace(step, action="release", why=(why,), manifest=manifest)


def _foreign_keys(live: Object, owned: Ownership, declared: Collection[str] = ()) -> list[str]:
    """Return the keys that only others wrote and nobody declares: `data.x of kubectl`."""
    if live["kind"] not in ("ConfigMap", "Secret"):
        return []

    def places(fields: Mapping[str, Mapping[str, object]]) -> set[str]:
        return {
            f"{part}.{name[2:]}"
            for part in _PARTS
            for name in fields.get(f"f:{part}") or ()
            if name.startswith("f:")
        }

    settled = places(owned.ours or {}).union(declared)
    writers: dict[str, str] = {}
    for manager, fields in owned.others:
        for place in places(fields) - settled if manager not in OUR_PROGRAMS else ():
            writers.setdefault(place, manager)
    return [f"{place} of {manager}" for place, manager in sorted(writers.items())]
