"""JSON patches (RFC 6902): a list of operations, each on the outcome of the one before it.

Exact to the RFC, because people bring theirs from elsewhere; JSON pointers are those of RFC 6901.
One operation that fails makes the whole patch fail, at its own line.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from etcompile.k8s.traced import PatchError, Traced

_END = "-"
_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"~(?![01])")


def operated(base: Traced, operations: Traced) -> Traced:
    """A value after a JSON patch; what no operation touched keeps its place.

    Raises:
        PatchError: an operation fails.
    """
    for operation in operations.items():
        match operation.value["op"]:
            case "add":
                base = _added(base, operation, _member(operation, "value"))
            case "remove":
                base = _removed(base, operation, "path")
            case "replace":
                base = _replaced(base, operation)
            case "move":
                base = _moved(base, operation)
            case "copy":
                base = _added(base, operation, _target(base, operation, "from"))
            case "test":
                value = _target(base, operation, "path").value
                if not _is_equal(value, operation.value["value"]):
                    raise _failed(operation, "value", f"the value there is {_shown(value)}")
    return base


def _added(base: Traced, operation: Traced, value: Traced) -> Traced:
    def add(parent: Traced, token: str) -> Traced:
        if isinstance(parent.value, Mapping):
            return parent.with_changes({token: value})
        items = parent.items()
        at_end = token == _END
        place = len(items) if at_end else _index(operation, "path", token, len(items) + 1)
        return parent.with_items([*items[:place], value, *items[place:]])

    tokens = _tokens(operation, "path")
    return _within(base, tokens, operation, "path", add) if tokens else value


def _removed(base: Traced, operation: Traced, field: str) -> Traced:
    def remove(parent: Traced, token: str) -> Traced:
        by = _member(operation, field)
        if isinstance(parent.value, Mapping):
            parts = {step: part for step, part in parent.parts().items() if step != token}
            return parent.with_fields(parts, by=by)
        items = parent.items()
        del items[_index(operation, field, token, len(items))]
        return parent.with_items(items, by=by)

    tokens = _tokens(operation, field)
    if not tokens:
        raise _failed(operation, field, "the whole object cannot be removed")
    _target(base, operation, field)
    return _within(base, tokens, operation, field, remove)


def _replaced(base: Traced, operation: Traced) -> Traced:
    value = _member(operation, "value")

    def put(parent: Traced, token: str) -> Traced:
        if isinstance(parent.value, Mapping):
            return parent.with_changes({token: value})
        items = parent.items()
        items[int(token)] = value
        return parent.with_items(items)

    tokens = _tokens(operation, "path")
    _target(base, operation, "path")
    return _within(base, tokens, operation, "path", put) if tokens else value


def _moved(base: Traced, operation: Traced) -> Traced:
    source, target = _tokens(operation, "from"), _tokens(operation, "path")
    if len(source) < len(target) and target[: len(source)] == source:
        raise _failed(operation, "path", "a value cannot be moved into itself")
    value = _target(base, operation, "from")
    if source == target:
        return base
    return _added(_removed(base, operation, "from"), operation, value)


def _within(
    base: Traced,
    tokens: list[str],
    operation: Traced,
    field: str,
    change: Callable[[Traced, str], Traced],
) -> Traced:
    """The value with its innermost parent changed; `change` gets that and the last token."""
    if len(tokens) > 1:
        step = _step(base, tokens[0], operation, field)
        return base.changed(
            (step,), lambda part: _within(part, tokens[1:], operation, field, change)
        )
    if not isinstance(base.value, Mapping | list | tuple):
        raise _failed(operation, field, "its parent is neither a mapping nor a list")
    return change(base, tokens[0])


def _target(base: Traced, operation: Traced, field: str) -> Traced:
    """The value that a pointer of the operation points at."""
    for token in _tokens(operation, field):
        part = base.part(_step(base, token, operation, field))
        assert part is not None  # noqa: S101 - _step has looked
        base = part
    return base


def _step(base: Traced, token: str, operation: Traced, field: str) -> str | int:
    if isinstance(base.value, list | tuple):
        return _index(operation, field, token, len(base.value))
    if isinstance(base.value, Mapping) and token in base.value:
        return token
    raise _failed(operation, field, f"there is no '{token}'")


def _index(operation: Traced, field: str, token: str, length: int) -> int:
    if not _INDEX.fullmatch(token):
        raise _failed(operation, field, f"'{token}' is no index of a list")
    if len(token) > len(str(length)) or int(token) >= length:
        raise _failed(operation, field, f"the list ends before index {token}")
    return int(token)


def _tokens(operation: Traced, field: str) -> list[str]:
    """The reference tokens of a JSON pointer of the operation."""
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
    """The error of an operation, at the member that is to blame."""
    name, path = operation.value["op"], operation.value["from" if field == "from" else "path"]
    return PatchError(f"fails at {name} '{path}': {problem}", _member(operation, field))


def _is_equal(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal (RFC 6902, 4.6): true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def _shown(value: object) -> str:
    match value:
        case Mapping():
            return "another mapping"
        case list() | tuple():
            return "another list"
        case str():
            return f"'{value}'"
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
    return str(value)
