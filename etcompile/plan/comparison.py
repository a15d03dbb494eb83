"""Compares a desired and a live object: what would applying the one change in the other?

If nothing differs, the result is the live object itself, so ten thousand unchanged objects cost one
walk each. Fields that only the server writes, its defaults, other spellings of a quantity and the
fields of other managers are not differences (reference/gitops.md 4.3 and 4.4). Two declarations,
such as those of two revisions, are compared in the same way, except that every field counts.
"""

import base64
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.managedfields import Fields, Others, Ownership, below, of_item, others_below
from etcompile.k8s.objects import SERVER_METADATA, Object
from etcompile.k8s.path import KeyedPath
from etcompile.model import quantity
from etcompile.plan.defaults import default
from etcompile.plan.inventory import PART_OF
from etcompile.plan.places import ABSENT, Raw

NOBODY = Ownership(None, (), known=False)
"""The owners of fields where these are not known: only what is desired can differ."""

_ALL: Fields = {".": {}}
"""Stands for all fields below: every one of them is a declaration."""

_AMOUNTS = frozenset({"capacity", "hard", "limits", "overhead", "requests"})
_LIMIT_RANGE = frozenset({"default", "defaultRequest", "max", "maxLimitRequestRatio", "min"})
_DROPPED = frozenset({"hostIPC", "hostNetwork", "hostPID", "publishNotReadyAddresses", "readOnly"})
"""Fields of which the API server does not keep a false."""
_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The tolerations that the admission plugin DefaultTolerationSeconds adds."""


class Comparison(Struct, frozen=True):
    """What applying would do.

    Args:
        result: The object afterwards, as far as it can be told; the live one if nothing changes.
        places: Where it changes.
    """

    result: Object
    places: tuple[Raw, ...]


def compared(desired: Object, live: Object, owned: Ownership | None) -> Comparison:
    """What applying a desired object makes of the live one.

    Args:
        desired: The object as it is declared.
        live: The object as the cluster has it.
        owned: Who owns the live object's fields; None if that is a declaration, too, and what is
            not desired goes.
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
    for name in desired.keys() | (live.keys() if whole else owned_keys(ours, live)):
        if name in ("apiVersion", "kind", "status"):
            continue
        wanted = desired.get(name)
        if name == "metadata":
            wanted = {
                key: value for key, value in desired[name].items() if key not in SERVER_METADATA
            }
        _field((), name, wanted, live, result, (desired["kind"], ours, others, places))
    return Comparison(result if places else as_it_is, tuple(places))


def same(path: KeyedPath, one: Any, other: Any) -> bool:
    """Whether two values of a field mean the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same((*path, key), one[key], other[key]) for key in one
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(
            same((*path, "[]"), a, b) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if one == other:
        return True
    if not _is_amount(path) or isinstance(one, dict | list) or isinstance(other, dict | list):
        return False
    before, after = quantity.number(one), quantity.number(other)
    return before is not None and before == after


def _is_amount(path: KeyedPath) -> bool:
    return path[-1] in ("divisor", "sizeLimit", "storage") or (
        len(path) > 1
        and (path[-2] in _AMOUNTS or (path[-2] in _LIMIT_RANGE and path[:2] == ("spec", "limits")))
    )


def _is_nothing(name: str, value: Any) -> bool:
    """Whether the API server does not keep such a value, or it means the same as none."""
    if value is False:
        return name in _DROPPED
    if isinstance(value, list):
        return not value
    if isinstance(value, Mapping):
        return not value and name in ("annotations", "data", "labels", "limits", "requests")
    return value is None or (value == "" and name != "storageClassName")


def encoded(secret: Object) -> dict[str, Any]:
    """The Secret with its texts as the API server keeps them."""
    texts = secret.get("stringData") or {}
    data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": {**(secret.get("data") or {}), **data}}


def owned_keys(fields: Fields | None, live: Mapping[str, Any]) -> set[str]:
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
        return _one(path, desired, live, around)
    made = dict(live)
    before = len(places)
    narrowed = (kind, ours, others, places)
    for name, wanted in desired.items():
        # What the API server has filled in makes a mapping longer: then they differ at a glance.
        is_there = live.get(name)
        if type(wanted) is not type(is_there) or wanted != is_there:
            _field(path, name, wanted, live, made, narrowed)
    for name in (live.keys() if ours is _ALL else owned_keys(ours, live)) - desired.keys():
        _field(path, name, None, live, made, narrowed)
    return made if len(places) > before else live


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


def _one(
    path: KeyedPath, desired: Mapping[str, Any], live: Mapping[str, Any], around: _Around
) -> Any:
    """What becomes of a mapping that is one value, such as a selector.

    It holds what we declare and nothing else, whoever wrote what is there: a key that somebody
    patched in makes the patcher the owner of all of it.
    """
    kind, _, _, _ = around
    inside: list[Raw] = []
    made = _mapping(path, desired, live, (kind, _ALL, (), inside))
    if not inside:
        return live
    _note(path, live, made, around)
    return made


def _field(
    path: KeyedPath,
    name: str,
    wanted: Any,
    around_it: Mapping[str, Any],
    made: dict[str, Any],
    around: _Around,
) -> None:
    """Puts into `made` what becomes of a field, if anything does."""
    kind, ours, others, places = around
    is_there = around_it.get(name)
    if wanted is is_there or (type(wanted) is type(is_there) is str and wanted == is_there):
        return
    field = (*path, name)
    whole = ours is _ALL
    if not path and name == "metadata" and whole:
        is_there = {
            key: value for key, value in (is_there or {}).items() if key not in SERVER_METADATA
        }
    mine = _ALL if whole else below(ours, name)
    theirs = others_below(others, name) if others else ()
    inner = (kind, mine, theirs, places)
    if wanted is None:
        if mine is None or name == PART_OF:
            return
        left = _without(field, is_there, default(kind, field, around_it), inner)
        if left is ABSENT:
            made.pop(name)
        else:
            made[name] = left
    elif is_there is None:
        if _is_nothing(name, wanted) or same(field, wanted, default(kind, field, around_it)):
            return
        if whole and isinstance(wanted, Mapping) and _only_defaults(field, wanted, kind):
            return
        _note(field, ABSENT, wanted, inner)
        made[name] = wanted
    else:
        made[name] = _merged(field, wanted, is_there, inner)


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
            return (
                live
                if left is written
                else [*left, *(toleration for toleration in live if toleration not in written)]
            )
    if listkeys.is_set(path):
        return _set(path, desired, live, around)
    names = listkeys.keys(path, desired or live, ours, *(fields for _, fields in others))
    wanted, is_there = _by_key(desired, names), _by_key(live, names)
    if names and wanted is not None and is_there is not None:
        made = _keyed(path, names, wanted, is_there, around)
        return live if made is None else made
    if same(path, desired, live):
        return live
    if len(desired) == len(live) and all(isinstance(item, dict) for item in desired):
        before = len(places)
        inner = (kind, _ALL, others, places)
        made = [
            _merged((*path, f"[{place}]"), item, other, inner)
            for place, (item, other) in enumerate(zip(desired, live, strict=True))
        ]
        return made if len(places) > before else live
    _note(path, live or ABSENT, desired or ABSENT, around)
    return desired


def _keyed(
    path: KeyedPath,
    names: tuple[str, ...],
    wanted: dict[str, Any],
    is_there: dict[str, Any],
    around: _Around,
) -> list[Any] | None:
    """A list whose items have keys: those of other managers stay. None if nothing changes."""
    kind, ours, others, places = around
    before = len(places)
    made: dict[str, Any] = dict(is_there)
    for name, item in (is_there | wanted).items():
        if name in wanted and item == is_there.get(name):
            continue  # as it is declared
        key = listkeys.key(item, names) or {}
        mine = _ALL if ours is _ALL else of_item(ours, key)
        inner = (kind, mine, others_below(others, key) if others else (), places)
        step = (*path, name)
        if name not in is_there:
            _note(step, ABSENT, wanted[name], inner)
            made[name] = wanted[name]
        elif name in wanted:
            made[name] = _merged(step, wanted[name], is_there[name], inner)
        elif mine is not None and not inner[2]:
            # An item that we alone have written goes with all that is in it.
            _note(step, is_there[name], ABSENT, inner)
            del made[name]
        elif mine is not None:
            if (left := _without(step, is_there[name], None, inner)) is ABSENT or _is_bare(
                left, names
            ):
                del made[name]
            else:
                made[name] = left
    order = [name for name in wanted if name in is_there]
    if listkeys.in_order(path) and order != [name for name in is_there if name in wanted]:
        _note(path, list(is_there), list(wanted), around)
        made = {name: made[name] for name in (*wanted, *made) if name in made}
    return list(made.values()) if len(places) > before else None


def _is_bare(left: Any, names: tuple[str, ...]) -> bool:
    """Whether an item holds nothing but its key."""
    return isinstance(left, Mapping) and set(left) <= set(names)


def _set(path: KeyedPath, desired: list[Any], live: list[Any], around: _Around) -> list[Any]:
    _, ours, _, _ = around
    gone = [
        item
        for item in live
        if item not in desired and (ours is _ALL or (ours and f'v:"{item}"' in ours))
    ]
    new = [item for item in desired if item not in live]
    if not gone and not new:
        return live
    made = [item for item in live if item not in gone] + new
    _note(path, live or ABSENT, made or ABSENT, around)
    return made


def _by_key(items: list[Any], names: tuple[str, ...]) -> dict[str, Any] | None:
    """The items by the label of their key; None if they cannot be told apart."""
    found: dict[str, Any] = {}
    for item in items if names else ():
        step = listkeys.step(item, names) if isinstance(item, dict) else None
        if step is None:
            return None
        found[step] = item
    return found if len(found) == len(items) else None


def _note(path: KeyedPath, before: Any, after: Any, around: _Around) -> None:
    _, _, others, places = around
    # A new value conflicts with the old one's owners; a removal only gives up our own share.
    managers = tuple(dict.fromkeys(name for name, _ in others)) if after is not ABSENT else ()
    places.append(Raw(path, before, after, managers if before is not ABSENT else ()))
