"""Objects that a plan never destroys unless the user names them.

Most objects can be deleted safely because the next apply creates them again. A claim, a Secret or
a custom resource may hold data that is in no file. These rules also apply to objects that
etcompile created; whose an object is, `claims` decides.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import structs

from etcompile.k8s.managedfields import Ownership, ownership
from etcompile.k8s.objects import Object
from etcompile.model.keypair import has_key_pair
from etcompile.plan.claims import OUR_PROGRAMS
from etcompile.plan.step import Reason, Step, release

PREVENT_DESTROY = "etcompile.dev/prevent-destroy"
"""The annotation that keeps an object from being deleted or replaced, whatever flags are given."""
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


def prevents_destruction(*versions: Object | None) -> bool:
    """Whether an object, as it is or as it is declared, says that it must not be destroyed."""
    return any(
        str((version["metadata"].get("annotations") or {}).get(PREVENT_DESTROY)).lower() == "true"
        for version in versions
        if version is not None
    )


def lost_with(live: Object, desired: Object, manager: str) -> str | None:
    """What would be lost if an object were replaced; None if its manifest makes it all again.

    Args:
        live: The object as the cluster has it.
        desired: The object as it is declared.
        manager: Our field manager.

    Returns:
        A clause such as `deleting it may delete its volume and everything on it`.
    """
    kind: str = live["kind"]
    group = live["apiVersion"].rpartition("/")[0]
    if kind in _DATA:
        return _DATA[kind]
    if kind == "Secret":
        return (
            f"it holds {'a key pair' if has_key_pair(live) else 'values'} that may be nowhere else"
        )
    declared = [f"{part}.{key}" for part in _PARTS for key in desired.get(part) or ()]
    if keys := _foreign_keys(live, ownership(live, manager), declared):
        return f"it holds {', '.join(keys)}"
    if "." in group and not group.endswith(".k8s.io") and group not in _DECLARED:
        return "its controller may delete what it created for it"
    return None


def spared(step: Step, live: Object, manager: str) -> Step:
    """The deletion of an object that its job no longer needs, as far as what it holds allows.

    Args:
        step: The deletion.
        live: The object as the cluster has it.
        manager: Our field manager.
    """
    if why := _left_because(live):
        return structs.replace(step, action="unmanaged", why=(Reason(why),))
    if prevents_destruction(live):
        return structs.replace(step, action="conflict", why=(Reason(FORBIDDEN),))
    if keys := _keys_of_others(live, manager):
        return release(live, keys)
    return step


def _left_because(live: Object) -> str | None:
    if live["kind"] == "PersistentVolumeClaim":
        return "it holds data"
    if live["kind"] == "Secret" and not has_key_pair(live):
        return "etcompile did not create it"
    return None


def _keys_of_others(live: Object, manager: str) -> list[str]:
    """What others have written on an object that we wrote, too: `data.notes of kubectl-edit`.

    Empty if we have never written on it: somebody else has applied it as it was rendered.
    """
    owned = ownership(live, manager)
    return _foreign_keys(live, owned) if owned.ours is not None else []


def _foreign_keys(live: Object, owned: Ownership, declared: Collection[str] = ()) -> list[str]:
    """The keys of a ConfigMap that only others wrote, and nobody declares: `data.x of kubectl`."""
    if live["kind"] not in ("ConfigMap", "Secret"):
        return []
    ours = {
        f"{part}.{key}" for part in _PARTS for key in _keys((owned.ours or {}).get(f"f:{part}"))
    }
    found: dict[str, str] = {}
    for name, fields in owned.others:
        for part in _PARTS:
            for key in _keys(fields.get(f"f:{part}")):
                place = f"{part}.{key}"
                if name not in OUR_PROGRAMS and place not in ours and place not in declared:
                    found.setdefault(place, name)
    return [f"{place} of {name}" for place, name in sorted(found.items())]


def _keys(fields: Mapping[str, Any] | None) -> list[str]:
    return [name[2:] for name in fields or () if name.startswith("f:")]
