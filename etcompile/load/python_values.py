"""Values that Python code hands over, as JSON values.

They are copied, so that a caller may go on changing its own, and everything that has no JSON
form is refused by name, as a file's would be.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from etcompile.diagnostics import Diagnostic, Location, diagnose
from etcompile.load.limits import Limits
from etcompile.load.scalars import PLAIN, NotJsonError


class _TooDeepError(Exception):
    """The value nests deeper than the limit, or contains itself."""


def json_value(value: object, file: str, limits: Limits) -> tuple[Any, Diagnostic | None]:
    """A value as JSON.

    Args:
        value: Mappings, lists, tuples, text, numbers, booleans and None.
        file: What diagnostics call its origin.
        limits: Bound on nesting, and so on values that contain themselves.

    Returns:
        The copy and None, or None and what is wrong.
    """
    try:
        return _copy(value, "", limits.depth), None
    except _TooDeepError:
        return None, diagnose("ET1008", Location(file), limit=limits.depth)
    except NotJsonError as error:
        return None, diagnose("ET1015", Location(file), what=str(error), advice=PLAIN)


def _copy(value: object, where: str, levels: int) -> Any:
    """A copy that may nest `levels` deep; `where` is the value's path, for people."""
    match value:
        case str():
            return _text(value, where)
        case None | bool():
            return value
        case int() | float():
            if not isfinite(value):
                raise _not_json(where, f"the number {value}")
            return value
    if not isinstance(value, Mapping | list | tuple):
        raise _not_json(where, type(value).__name__)
    if levels == 0:
        raise _TooDeepError
    if not isinstance(value, Mapping):
        return [_copy(one, f"{where}[{n}]", levels - 1) for n, one in enumerate(value)]
    copied = {}
    for key, one in value.items():
        if not isinstance(key, str):
            raise _not_json(where, f"its key {key!r}")
        path = f"{where}.{key}" if where else key
        copied[_text(key, where)] = _copy(one, path, levels - 1)
    return copied


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _not_json(where, "text with half a surrogate pair") from None
    return str(value)


def _not_json(where: str, found: str) -> NotJsonError:
    return NotJsonError(f"{where or 'the value'} ({found})")
