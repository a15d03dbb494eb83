"""Find where applying a desired object would change the live one.

Fields that only the server writes, its defaults, other spellings of a quantity and the
fields of other managers are not differences (reference/gitops.md 4.3 and 4.4). Two declarations,
such as those of two revisions, are compared in the same way, except that every field counts.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.k8s import listkeys
from etcompile.k8s.defaults import default, same
from etcompile.k8s.managedfields import Fields, Others, Ownership, below, of_item, others_below
from etcompile.k8s.objects import SERVER_METADATA, Object
from etcompile.k8s.path import KeyedPath
from etcompile.plan.applysets import PART_OF
from etcompile.plan.field_values import ABSENT, Raw, encoded

NOBODY = Ownership(None, (), known=False)
"""The owners of fields where these are not known: only what is desired can differ."""

_ALL: Fields = {".": {}}
"""Stands for all fields below: every one of them is a declaration."""

_DROPPED = frozenset({"hostIPC", "hostNetwork", "hostPID", "publishNotReadyAddresses", "readOnly"})
"""Fields of which the API server does not keep a false."""
TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The tolerations that the admission plugin DefaultTolerationSeconds adds."""


def compared(desired: Object, live: Object, owned: Ownership | None) -> tuple[Raw, ...]:
    """Return where applying a desired object would change the live one.

    Args:
        owned: The owners of the live object's fields; None if that is a declaration, too, so that
            what is not desired is removed.
    """
    if desired == live:
        return ()
    if desired["kind"] == "Secret":
        desired, live = encoded(desired), encoded(live)
    ours, others = (_ALL, ()) if owned is None else (owned.ours, owned.others)
    around = desired["kind"], ours, others
    places: list[Raw] = []
    for name in desired.keys() | _owned_keys(ours, live):
        if name in ("apiVersion", "kind", "status"):
            continue
        wanted = desired.get(name)
        if name == "metadata":
            wanted = {
                key: value for key, value in desired[name].items() if key not in SERVER_METADATA
            }
        places += _field((), name, wanted, live, around)
    return tuple(places)


def _is_nothing(name: str, value: Any) -> bool:
    """Return whether the API server drops such a value, or it means the same as none."""
    if value is False:
        return name in _DROPPED
    if isinstance(value, list):
        return not value
    if isinstance(value, Mapping):
        return not value and name in ("annotations", "data", "labels", "limits", "requests")
    return value is None or (value == "" and name != "storageClassName")


def _owned_keys(fields: Fields | None, live: Mapping[str, Any]) -> set[str]:
    return {key for key in live if fields and (fields is _ALL or f"f:{key}" in fields)}


_Around = tuple[str, Fields | None, Others]
"""The kind, what we own, and what others own."""


def _merged(path: KeyedPath, desired: Any, live: Any, around: _Around) -> Iterator[Raw]:
    # JSON values: asking for a dict is many times quicker than for a Mapping.
    if isinstance(desired, dict) and isinstance(live, dict):
        yield from _mapping(path, desired, live, around)
    elif isinstance(desired, list) and isinstance(live, list):
        yield from _list(path, desired, live, around)
    elif not same(path, desired, live):
        yield Raw(path, live, desired, _managers(around))


def _mapping(
    path: KeyedPath, desired: Mapping[str, Any], live: Mapping[str, Any], around: _Around
) -> Iterator[Raw]:
    kind, ours, others = around
    if ours is not _ALL and _is_one(path, desired, ours, others):
        # It holds what we declare and nothing else, whoever wrote what is there: a key that
        # somebody patched in makes the patcher the owner of all of it.
        for place in _mapping(path, desired, live, (kind, _ALL, ())):
            yield Raw(place.path, place.before, place.after, _managers(around))
        return
    for name, wanted in desired.items():
        # What the API server has filled in makes a mapping longer: then they differ at a glance.
        present = live.get(name)
        if type(wanted) is not type(present) or wanted != present:
            yield from _field(path, name, wanted, live, around)
    for name in _owned_keys(ours, live) - desired.keys():
        yield from _field(path, name, None, live, around)


def _is_one(
    path: KeyedPath, desired: Mapping[str, Any], ours: Fields | None, others: Others
) -> bool:
    """Return whether the API server takes a mapping for one value: nobody owns a part of it.

    Without an owner the kinds of Kubernetes are known, by the `+structType` and `+mapType` marks
    of their types (reference/gitops.md 4.4).
    """
    if ours or any(fields for _, fields in others):
        return False
    is_owned = ours is not None or bool(others)
    return listkeys.is_one(path) or (is_owned and bool(desired) and len(path) > 1)


def _field(
    path: KeyedPath, name: str, wanted: Any, parent: Mapping[str, Any], around: _Around
) -> Iterator[Raw]:
    kind, ours, others = around
    present = parent.get(name)
    if wanted is present or (type(wanted) is type(present) is str and wanted == present):
        return
    field = (*path, name)
    whole = ours is _ALL
    if not path and name == "metadata" and whole:
        present = {
            key: value for key, value in (present or {}).items() if key not in SERVER_METADATA
        }
    mine = _ALL if whole else below(ours, name)
    inner = (kind, mine, others_below(others, name) if others else ())
    if wanted is None:
        if mine is not None and name != PART_OF:
            yield from _without(field, present, default(kind, field, parent), inner)
    elif present is not None:
        yield from _merged(field, wanted, present, inner)
    elif not (
        _is_nothing(name, wanted)
        or same(field, wanted, default(kind, field, parent))
        or (whole and isinstance(wanted, Mapping) and _only_defaults(field, wanted, kind))
    ):
        yield Raw(field, ABSENT, wanted)


def _without(path: KeyedPath, live: Any, usual: Any, around: _Around) -> Iterator[Raw]:
    """Yield where a value that is no longer declared goes: not where others own it."""
    kind, ours, others = around
    if same(path, live, usual) or _is_nothing(path[-1], live):
        return
    is_part = ours and ours is not _ALL
    if is_part and isinstance(live, Mapping):
        yield from _mapping(path, {}, live, around)
    elif is_part and isinstance(live, list):
        yield from _list(path, [], live, around)
    elif not others and not (
        ours is _ALL and isinstance(live, Mapping) and _only_defaults(path, live, kind)
    ):
        yield Raw(path, live, ABSENT)


def _only_defaults(path: KeyedPath, value: Mapping[str, Any], kind: str) -> bool:
    return bool(value) and all(
        _only_defaults((*path, name), inner, kind)
        if isinstance(inner, Mapping)
        else same((*path, name), inner, default(kind, (*path, name), {}))
        for name, inner in value.items()
    )


def _list(path: KeyedPath, desired: list[Any], live: list[Any], around: _Around) -> Iterator[Raw]:
    kind, ours, others = around
    if path[-1] == "tolerations" and ours is not _ALL:
        added = TAINTS - {toleration.get("key") for toleration in desired}
        live = [item for item in live if item.get("key") not in added]
    names = listkeys.keys(path, desired or live, ours, *(fields for _, fields in others))
    wanted, present = _by_key(desired, names), _by_key(live, names)
    if names and wanted is not None and present is not None:
        yield from _keyed(path, names, wanted, present, around)
    elif same(path, desired, live):
        return
    elif len(desired) == len(live) and all(isinstance(item, dict) for item in desired):
        for place, (item, other) in enumerate(zip(desired, live, strict=True)):
            yield from _merged((*path, f"[{place}]"), item, other, (kind, _ALL, others))
    else:
        managers = _managers(around) if desired and live else ()
        yield Raw(path, live or ABSENT, desired or ABSENT, managers)


def _keyed(
    path: KeyedPath,
    names: tuple[str, ...],
    wanted: dict[str, Any],
    present: dict[str, Any],
    around: _Around,
) -> Iterator[Raw]:
    kind, ours, others = around
    for name, item in (present | wanted).items():
        if name in wanted and item == present.get(name):
            continue  # as it is declared
        key = listkeys.key(item, names) or {}
        mine = _ALL if ours is _ALL else of_item(ours, key)
        inner = (kind, mine, others_below(others, key) if others else ())
        step = (*path, name)
        if name not in present:
            yield Raw(step, ABSENT, wanted[name])
        elif name in wanted:
            yield from _merged(step, wanted[name], present[name], inner)
        elif mine is not None and not inner[2]:
            # An item that only we have written is removed with all that is in it.
            yield Raw(step, present[name], ABSENT)
        elif mine is not None:
            yield from _without(step, present[name], None, inner)
    order = [name for name in wanted if name in present]
    if listkeys.in_order(path) and order != [name for name in present if name in wanted]:
        yield Raw(path, list(present), list(wanted), _managers(around))


def _by_key(items: list[Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """Return the items by the label of their key; None if they cannot be told apart."""
    by_key: dict[str, Any] = {}
    for item in items if names else ():
        step = listkeys.step(item, names) if isinstance(item, dict) else None
        if step is None:
            return None
        by_key[step] = item
    return by_key if len(by_key) == len(items) else None


def _managers(around: _Around) -> tuple[str, ...]:
    """Return the other owners of a value: a new one conflicts with them, a removal does not."""
    return tuple(dict.fromkeys(name for name, _ in around[2]))
