"""Apply JSON patches (RFC 6902, with the JSON pointers of RFC 6901).

This follows the RFC exactly, because people bring patches from elsewhere. If one operation fails,
the whole patch fails, with the place of that operation.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from etcompile.k8s.traced import PatchError, Step, Traced

_END = "-"
_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")


def operated(base: Traced, operations: Traced) -> Traced:
    """Apply a JSON patch; untouched values keep their places."""
    for operation in operations.items():
        op = operation.value["op"]
        path = _tokens(operation, "path")
        if op in ("add", "replace", "test"):
            value = _member(operation, "value")
        if op in ("replace", "test"):
            _, old = _target(base, path, operation, "path")
        if op in ("move", "copy"):
            source = _tokens(operation, "from")
            if op == "move" and len(source) < len(path) and path[: len(source)] == source:
                raise _failed(operation, "path", "a value cannot be moved into itself")
            _, value = _target(base, source, operation, "from")
        match op:
            case "remove":
                base = _removed(base, path, operation, "path")
            case "move" if source != path:
                base = _put(_removed(base, source, operation, "from"), path, operation, value)
            case "add" | "copy" | "replace":
                base = _put(base, path, operation, value, insert=op != "replace")
            case "test" if not _is_equal(old.value, value.value):
                there = f"'{old.value}'" if isinstance(old.value, str) else json.dumps(old.value)
                if isinstance(old.value, Mapping | list | tuple):
                    there = f"another {'mapping' if isinstance(old.value, Mapping) else 'list'}"
                raise _failed(operation, "value", f"the value there is {there}")
    return base


def _put(
    base: Traced, tokens: list[str], operation: Traced, value: Traced, *, insert: bool = True
) -> Traced:
    """Put a value at a path: inserted into a list, or instead of the old value."""
    if not tokens:
        return value
    above, parent = _target(base, tokens[:-1], operation, "path")
    token = tokens[-1]
    if isinstance(parent.value, Mapping):
        after = parent.with_changes({token: value})
    elif isinstance(parent.value, list | tuple):
        items = parent.items()
        if insert:
            at_end = token == _END
            place = len(items) if at_end else _index(operation, "path", token, len(items) + 1)
            items.insert(place, value)
        else:
            items[int(token)] = value
        after = parent.with_items(items)
    else:
        raise _failed(operation, "path", "its parent is neither a mapping nor a list")
    return base.changed(above, lambda _: after)


def _removed(base: Traced, tokens: list[str], operation: Traced, field: str) -> Traced:
    if not tokens:
        raise _failed(operation, field, "the whole object cannot be removed")
    (*above, last), _ = _target(base, tokens, operation, field)
    by = _member(operation, field)

    def without(parent: Traced) -> Traced:
        parts = parent.parts()
        del parts[last]
        if isinstance(parent.value, Mapping):
            return parent.with_fields(parts, by=by)
        return parent.with_items(parts.values(), by=by)

    return base.changed(tuple(above), without)


def _target(
    base: Traced, tokens: list[str], operation: Traced, field: str
) -> tuple[tuple[Step, ...], Traced]:
    steps: list[Step] = []
    for token in tokens:
        step: Step = token
        if isinstance(base.value, list | tuple):
            step = _index(operation, field, token, len(base.value))
        part = base.part(step)
        if part is None:
            raise _failed(operation, field, f"there is no '{token}'")
        steps.append(step)
        base = part
    return tuple(steps), base


def _index(operation: Traced, field: str, token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise _failed(operation, field, f"'{token}' is no index of a list")
    if len(token) > len(str(length)) or int(token) >= length:
        raise _failed(operation, field, f"the list ends before index {token}")
    return int(token)


def _tokens(operation: Traced, field: str) -> list[str]:
    pointer = _member(operation, field)
    text: str = pointer.value
    if text and not text.startswith("/"):
        advice = "a JSON pointer is empty or begins with '/', such as /spec/replicas"
        raise PatchError(f"cannot be patched at '{text}': no JSON pointer", pointer, advice)
    if _BAD_ESCAPE.search(text):
        advice = "write ~0 for '~' and ~1 for '/'"
        raise PatchError(f"cannot be patched at '{text}': '~' escapes nothing", pointer, advice)
    return [token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:]]


def _member(operation: Traced, field: str) -> Traced:
    member = operation.part(field)
    assert member is not None  # noqa: S101 - the overlay's schema requires it
    return member


def _failed(operation: Traced, field: str, problem: str) -> PatchError:
    name, path = operation.value["op"], operation.value["from" if field == "from" else "path"]
    return PatchError(f"fails at {name} '{path}': {problem}", _member(operation, field))


def _is_equal(one: Any, other: Any) -> bool:
    """Report whether two JSON values are equal (RFC 6902, 4.6): true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)
