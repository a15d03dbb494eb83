"""A desired and a live object to what applying the one would change in the other.

If nothing differs, the result is the live object itself, so ten thousand unchanged objects cost one
walk each. Fields that only the server writes, its defaults, other spellings of a quantity and the
fields of other managers are not differences (reference/gitops.md 4.3 and 4.4). Two declarations,
such as those of two revisions, are compared in the same way, except that every field counts.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.managedfields import Fields, Others, Ownership, below, of_item, others_below
from etcompile.k8s.objects import SERVER_METADATA, Object
from etcompile.k8s.path import KeyedPath
from etcompile.plan.applysets import PART_OF
from etcompile.plan.field_values import ABSENT, Raw, default, encoded, same

NOBODY = Ownership(None, (), known=False)
"""The owners of fields where these are not known: only what is desired can differ."""

_ALL: Fields = {".": {}}
"""Stands for all fields below: every one of them is a declaration."""

_DROPPED = frozenset({"hostIPC", "hostNetwork", "hostPID", "publishNotReadyAddresses", "readOnly"})
"""Fields of which the API server does not keep a false."""
_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The tolerations that the admission plugin DefaultTolerationSeconds adds."""


class Comparison(Struct, frozen=True):
    """What applying would do: the object afterwards, and where it changes.

    The result is the live object itself if nothing changes.
    """

    result: Object
    places: tuple[Raw, ...]


def compared(desired: Object, live: Object, owned: Ownership | None) -> Comparison:
    """What applying a desired object makes of the live one.

    Args:
        owned: Who owns the live object's fields; None if that is a declaration, too, so that what
            is not desired is removed.
    """
    if desired == live:
        return Comparison(live, ())
    as_it_is = live
    if desired["kind"] == "Secret":
        desired, live = encoded(desired), encoded(live)
    places: list[Raw] = []
    whole = owned is None
    ours, others = (_ALL, ()) if owned is None else (owned.ours, owned.others)
    result = dict(live)
    for name in desired.keys() | (live.keys() if whole else _owned_keys(ours, live)):
        if name in ("apiVersion", "kind", "status"):
            continue
        wanted = desired.get(name)
        if name == "metadata":
            wanted = {
                key: value for key, value in desired[name].items() if key not in SERVER_METADATA
            }
        _field((), name, wanted, live, result, (desired["kind"], ours, others, places))
    return Comparison(result if places else as_it_is, tuple(places))


def _is_nothing(name: str, value: Any) -> bool:
    """Whether the API server does not keep such a value, or it means the same as none."""
    if value is False:
        return name in _DROPPED
    if isinstance(value, list):
        return not value
    if isinstance(value, Mapping):
        return not value and name in ("annotations", "data", "labels", "limits", "requests")
    return value is None or (value == "" and name != "storageClassName")


def _owned_keys(fields: Fields | None, live: Mapping[str, Any]) -> set[str]:
    """The keys of a mapping that a set of fields owns."""
    return {key for key in live if fields and f"f:{key}" in fields}


_Around = tuple[str, Fields | None, Others, list[Raw]]
"""The kind, what we own, what others own, and where differences are noted."""


def _merged(path: KeyedPath, desired: Any, live: Any, around: _Around) -> Any:
    """What becomes of a value; the live one itself if it stays."""
    if desired is live:
        return live
    # JSON values: asking for a dict is many times quicker than for a Mapping.
    if isinstance(desired, dict) and isinstance(live, dict):
        return _mapping(path, desired, live, around)
    if isinstance(desired, list) and isinstance(live, list):
        return _list(path, desired, live, around)
    if same(path, desired, live):
        return live
    _note(path, live, desired, around)
    return desired


def _mapping(
    path: KeyedPath, desired: Mapping[str, Any], live: Mapping[str, Any], around: _Around
) -> Any:
    kind, ours, others, places = around
    if ours is not _ALL and _is_one(path, desired, ours, others):
        # It holds what we declare and nothing else, whoever wrote what is there: a key that
        # somebody patched in makes the patcher the owner of all of it.
        inside: list[Raw] = []
        result = _mapping(path, desired, live, (kind, _ALL, (), inside))
        managers = tuple(dict.fromkeys(name for name, _ in others))
        places += [Raw(place.path, place.before, place.after, managers) for place in inside]
        return result
    result = dict(live)
    before = len(places)
    for name, wanted in desired.items():
        # What the API server has filled in makes a mapping longer: then they differ at a glance.
        present = live.get(name)
        if type(wanted) is not type(present) or wanted != present:
            _field(path, name, wanted, live, result, around)
    for name in (live.keys() if ours is _ALL else _owned_keys(ours, live)) - desired.keys():
        _field(path, name, None, live, result, around)
    return result if len(places) > before else live


def _is_one(
    path: KeyedPath, desired: Mapping[str, Any], ours: Fields | None, others: Others
) -> bool:
    """Whether the API server takes a mapping for one value: its owners own nothing below it.

    Without an owner the kinds of Kubernetes are known, by the `+structType` and `+mapType` marks
    of their types (reference/gitops.md 4.4).
    """
    if ours or any(fields for _, fields in others):
        return False
    is_owned = ours is not None or bool(others)
    return listkeys.is_one(path) or (is_owned and bool(desired) and len(path) > 1)


def _field(
    path: KeyedPath,
    name: str,
    wanted: Any,
    parent: Mapping[str, Any],
    result: dict[str, Any],
    around: _Around,
) -> None:
    """Puts into `result` what becomes of a field, if anything does."""
    kind, ours, others, places = around
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
    theirs = others_below(others, name) if others else ()
    inner = (kind, mine, theirs, places)
    if wanted is None:
        if mine is None or name == PART_OF:
            return
        left = _without(field, present, default(kind, field, parent), inner)
        if left is ABSENT:
            result.pop(name)
        else:
            result[name] = left
    elif present is None:
        if _is_nothing(name, wanted) or same(field, wanted, default(kind, field, parent)):
            return
        if whole and isinstance(wanted, Mapping) and _only_defaults(field, wanted, kind):
            return
        _note(field, ABSENT, wanted, inner)
        result[name] = wanted
    else:
        result[name] = _merged(field, wanted, present, inner)


def _without(path: KeyedPath, live: Any, usual: Any, around: _Around) -> Any:
    """What is left of a value that is no longer declared: nothing, or what others own of it."""
    kind, ours, others, _ = around
    if same(path, live, usual) or _is_nothing(path[-1], live):
        return live
    if ours and ours is not _ALL and isinstance(live, Mapping):
        return _mapping(path, {}, live, around) or ABSENT
    if ours and ours is not _ALL and isinstance(live, list):
        left = _list(path, [], live, around)
        return left or ABSENT
    if ours is _ALL and isinstance(live, Mapping) and _only_defaults(path, live, kind):
        return live
    if others:
        return live
    _note(path, live, ABSENT, around)
    return ABSENT


def _only_defaults(path: KeyedPath, value: Mapping[str, Any], kind: str) -> bool:
    return bool(value) and all(
        _only_defaults((*path, name), inner, kind)
        if isinstance(inner, Mapping)
        else same((*path, name), inner, default(kind, (*path, name), {}))
        for name, inner in value.items()
    )


def _list(path: KeyedPath, desired: list[Any], live: list[Any], around: _Around) -> Any:
    kind, ours, others, places = around
    if path[-1] == "tolerations" and ours is not _ALL:
        keys = {toleration.get("key") for toleration in desired}
        written = [item for item in live if item.get("key") not in _TAINTS - keys]
        if len(written) < len(live):
            left = _list(path, desired, written, around)
            added = [toleration for toleration in live if toleration not in written]
            return live if left is written else [*left, *added]
    names = listkeys.keys(path, desired or live, ours, *(fields for _, fields in others))
    wanted, present = _by_key(desired, names), _by_key(live, names)
    if names and wanted is not None and present is not None:
        keyed = _keyed(path, names, wanted, present, around)
        return live if keyed is None else keyed
    if same(path, desired, live):
        return live
    if len(desired) == len(live) and all(isinstance(item, dict) for item in desired):
        before = len(places)
        inner = (kind, _ALL, others, places)
        items = [
            _merged((*path, f"[{place}]"), item, other, inner)
            for place, (item, other) in enumerate(zip(desired, live, strict=True))
        ]
        return items if len(places) > before else live
    _note(path, live or ABSENT, desired or ABSENT, around)
    return desired


def _keyed(
    path: KeyedPath,
    names: tuple[str, ...],
    wanted: dict[str, Any],
    present: dict[str, Any],
    around: _Around,
) -> list[Any] | None:
    """A list whose items have keys: those of other managers stay. None if nothing changes."""
    kind, ours, others, places = around
    before = len(places)
    items: dict[str, Any] = dict(present)
    for name, item in (present | wanted).items():
        if name in wanted and item == present.get(name):
            continue  # as it is declared
        key = listkeys.key(item, names) or {}
        mine = _ALL if ours is _ALL else of_item(ours, key)
        inner = (kind, mine, others_below(others, key) if others else (), places)
        step = (*path, name)
        if name not in present:
            _note(step, ABSENT, wanted[name], inner)
            items[name] = wanted[name]
        elif name in wanted:
            items[name] = _merged(step, wanted[name], present[name], inner)
        elif mine is not None and not inner[2]:
            # An item that only we have written is removed with all that is in it.
            _note(step, present[name], ABSENT, inner)
            del items[name]
        elif mine is not None:
            left = _without(step, present[name], None, inner)
            if left is ABSENT or (isinstance(left, Mapping) and set(left) <= set(names)):
                del items[name]  # nothing but its key is left
            else:
                items[name] = left
    order = [name for name in wanted if name in present]
    if listkeys.in_order(path) and order != [name for name in present if name in wanted]:
        _note(path, list(present), list(wanted), around)
        items = {name: items[name] for name in (*wanted, *items) if name in items}
    return list(items.values()) if len(places) > before else None


def _by_key(items: list[Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """The items by the label of their key; None if they cannot be told apart."""
    by_key: dict[str, Any] = {}
    for item in items if names else ():
        step = listkeys.step(item, names) if isinstance(item, dict) else None
        if step is None:
            return None
        by_key[step] = item
    return by_key if len(by_key) == len(items) else None


def _note(path: KeyedPath, before: Any, after: Any, around: _Around) -> None:
    _, _, others, places = around
    # A new value conflicts with the old one's owners; a removal only gives up our own share.
    managers = tuple(dict.fromkeys(name for name, _ in others)) if after is not ABSENT else ()
    places.append(Raw(path, before, after, managers if before is not ABSENT else ()))
