"""Two states of one object, field by field: what differs once the API's defaults are filled in.

A field that a file leaves out has a value on the live object, so leaving it out and writing its
default are the same wish. That knowledge is here, and which differences matter is not.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.k8s import listkeys
from etcompile.k8s.path import KeyedPath, keyed
from etcompile.plan.defaults import default
from etcompile.plan.noise import same

_WHOLE = frozenset({"schedulingGates", "selector", "tolerations"})
"""Fields whose rules are about all that is in them together."""


class Difference(Struct, frozen=True):
    """One field that two states of an object do not share.

    Args:
        path: Where it stands.
        old: Its value, with the API's default filled in; None for absent.
        new: The same of the new state.
        shown: The difference as a person names it: this one, or the outermost field around it
            that only one of the states has.
    """

    path: KeyedPath
    old: Any
    new: Any
    shown: "Difference | None" = None

    @property
    def visible(self) -> "Difference":
        """The difference as a person names it."""
        return self.shown or self

    @property
    def field(self) -> str:
        """The path in one line: `spec.containers[main].command`."""
        return keyed(self.path)


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    """Where two states of an object differ, defaults apart.

    Args:
        old: The object as it was declared, JSON without nulls.
        new: The object as it is declared now.
    """
    return _mappings((), old, new, old["kind"], None)


def matches(pattern: str, path: KeyedPath) -> bool:
    """Whether a path is one that a pattern names.

    Args:
        pattern: Such as `spec.containers[*].image`; a final `**` stands for any steps or none.
        path: Where a field stands.
    """
    steps = pattern.replace("[", ".[").split(".")
    if steps[-1] == "**":
        steps.pop()
        path = path[: len(steps)]
    return len(steps) == len(path) and all(
        step in (own, "*") or (step == "[*]" and own.startswith("["))
        for step, own in zip(steps, path, strict=True)
    )


def _mappings(
    path: KeyedPath,
    old: Mapping[str, Any],
    new: Mapping[str, Any],
    kind: str,
    shown: Difference | None,
) -> Iterator[Difference]:
    for key in sorted(old.keys() | new.keys()):
        field = (*path, key)
        before, after = old.get(key), new.get(key)
        if before is None:
            before = default(kind, field, old)
        if after is None:
            after = default(kind, field, new)
        yield from _values(field, before, after, kind, shown)


def _values(
    path: KeyedPath, old: Any, new: Any, kind: str, shown: Difference | None
) -> Iterator[Difference]:
    if path[-1] in _WHOLE:
        if not _same(path, old, new):
            yield Difference(path, old, new, shown)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _mappings(path, old, new, kind, shown)
    elif isinstance(old if new is None else new, Mapping) and (old is None or new is None):
        # A mapping on one side only may hold nothing but defaults.
        around = shown or Difference(path, old, new)
        yield from _mappings(path, old or {}, new or {}, kind, around)
    elif _is_list(old) and _is_list(new):
        yield from _lists(path, old or [], new or [], kind, shown)
    elif not _same(path, old, new):
        yield Difference(path, old, new, shown)


def _lists(
    path: KeyedPath, old: list[Any], new: list[Any], kind: str, shown: Difference | None
) -> Iterator[Difference]:
    keys = listkeys.keys(path, old or new)
    key = keys[0] if len(keys) == 1 else None  # nobody knows an item by two
    before, after = _names(old, key), _names(new, key)
    if before is None or after is None or len(old) != len(new) or (key and before != after):
        if not _same(path, old, new):
            yield Difference(path, before or old or None, after or new or None, shown)
        return
    for name, was, becomes in zip(before, old, new, strict=True):
        yield from _mappings((*path, f"[{name}]"), was, becomes, kind, shown)


def _names(items: list[Any], key: str | None) -> list[str] | None:
    """The names of the items; their indexes if they have none, None if they are no mappings."""
    if not all(isinstance(item, Mapping) for item in items):
        return None
    if key and all(key in item for item in items):
        return [str(item[key]) for item in items]
    return [str(index) for index in range(len(items))]


def _is_list(value: Any) -> bool:
    return value is None or isinstance(value, list)


def _same(path: KeyedPath, old: Any, new: Any) -> bool:
    return (old in (None, []) and new in (None, [])) or same(path, old, new)
