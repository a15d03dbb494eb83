"""Find where applying a desired object would change the live one.

Fields that only the server writes, its defaults, other spellings of a quantity and the
fields of other managers are not differences (reference/gitops.md 4.3 and 4.4). Two declarations,
such as those of two revisions, are compared in the same way, except that every field counts.
"""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.defaults import means_nothing, same
from etcompile.k8s.listkeys import ABSENT
from etcompile.k8s.managedfields import Fields, Others, Ownership, below, of_item, others_below
from etcompile.k8s.objects import SERVER_METADATA, Object
from etcompile.k8s.path import KeyedPath
from etcompile.plan.applysets import PART_OF

NOBODY = Ownership(None, (), known=False)
"""The owners of fields where these are not known: only what is desired can differ."""

_ALL: Fields = {".": {}}
"""Stands for all fields below: every one of them is a declaration."""

TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
"""The tolerations that the admission plugin DefaultTolerationSeconds adds."""


class Raw(Struct, frozen=True):
    """A place where two states of an object differ.

    Args:
        path: Where; an item of a list is `[its key]` or `[its index]`.
        before: The live value; `ABSENT` if there is none.
        after: The desired value; `ABSENT` if it is removed.
    """

    path: KeyedPath
    before: Any
    after: Any
    managers: tuple[str, ...] = ()


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
    mine, theirs = (
        {
            name: {key: inner for key, inner in field.items() if key not in SERVER_METADATA}
            if name == "metadata"
            else field
            for name, field in value.items()
            if name not in ("apiVersion", "kind", "status")
        }
        for value in (desired, live)
    )
    return tuple(_mapping((), mine, theirs, (desired["kind"], ours, others)))


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
    owns_all = ours is _ALL
    if not ours and not any(fields for _, fields in others):
        # The API server takes a mapping for one value if nobody owns a part of it. Without an
        # owner the kinds of Kubernetes are known, by the `+structType` and `+mapType` marks of
        # their types (reference/gitops.md 4.4).
        is_owned = ours is not None or bool(others)
        if listkeys.is_one(path) or (is_owned and desired and len(path) > 1):
            # It holds what we declare and nothing else, whoever wrote what is there: a key that
            # somebody patched in makes the patcher the owner of all of it.
            for place in _mapping(path, desired, live, (kind, _ALL, ())):
                yield Raw(place.path, place.before, place.after, _managers(around))
            return
    removed = [
        key for key in live if key not in desired and ours and (owns_all or f"f:{key}" in ours)
    ]
    for name in (*desired, *removed):
        wanted, present = desired.get(name), live.get(name)
        # What the API server has filled in makes a mapping longer: then they differ at a glance.
        if type(wanted) is type(present) and wanted == present:
            continue
        field = (*path, name)
        mine = _ALL if owns_all else below(ours, name)
        inner = (kind, mine, others_below(others, name) if others else ())
        if wanted is None:
            if mine is not None and name != PART_OF:
                yield from _without(field, present, live, inner)
        elif present is not None:
            yield from _merged(field, wanted, present, inner)
        elif not means_nothing(kind, field, wanted, live, whole=owns_all):
            yield Raw(field, ABSENT, wanted)


def _without(
    path: KeyedPath, live: Any, parent: Mapping[str, Any], around: _Around
) -> Iterator[Raw]:
    """Yield where a value that is no longer declared goes: not where others own it."""
    kind, ours, others = around
    owns_all = ours is _ALL
    if means_nothing(kind, path, live, parent, whole=owns_all):
        return
    if ours and not owns_all and isinstance(live, Mapping):
        yield from _mapping(path, {}, live, around)
    elif ours and not owns_all and isinstance(live, list):
        yield from _list(path, [], live, around)
    elif not others:
        yield Raw(path, live, ABSENT)


def _list(path: KeyedPath, desired: list[Any], live: list[Any], around: _Around) -> Iterator[Raw]:
    kind, ours, others = around
    owns_all = ours is _ALL
    if path[-1] == "tolerations" and not owns_all:
        added = TAINTS - {toleration.get("key") for toleration in desired}
        live = [item for item in live if item.get("key") not in added]
    names = listkeys.keys(path, desired or live, ours, *(fields for _, fields in others))
    wanted, present = listkeys.by_label(desired, names), listkeys.by_label(live, names)
    if not names or wanted is None or present is None:
        if same(path, desired, live):
            return
        if len(desired) == len(live) and all(isinstance(item, dict) for item in desired):
            for place, (item, other) in enumerate(zip(desired, live, strict=True)):
                yield from _merged((*path, f"[{place}]"), item, other, (kind, _ALL, others))
        else:
            managers = _managers(around) if desired and live else ()
            yield Raw(path, live or ABSENT, desired or ABSENT, managers)
        return
    for name, item in (present | wanted).items():
        if name in wanted and item == present.get(name):
            continue  # as it is declared
        key = listkeys.key(item, names) or {}
        mine = _ALL if owns_all else of_item(ours, key)
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
            yield from _without(step, present[name], {}, inner)
    order = [name for name in wanted if name in present]
    if listkeys.in_order(path) and order != [name for name in present if name in wanted]:
        yield Raw(path, list(present), list(wanted), _managers(around))


def _managers(around: _Around) -> tuple[str, ...]:
    """Return the other owners of a value: a new one conflicts with them, a removal does not."""
    return tuple(dict.fromkeys(name for name, _ in around[2]))


def encoded(secret: Object) -> dict[str, Any]:
    """Return the Secret with its texts as the API server stores them."""
    texts = secret.get("stringData") or {}
    values = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": {**(secret.get("data") or {}), **values}}
