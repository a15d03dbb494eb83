"""Values that Python code hands over, as JSON values.

They are copied, so that a caller may go on changing its own, and everything that has no JSON
form is refused by name, as a file's would be.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct, field

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.load.access import Limits
from etcompile.load.scalars import PLAIN, NotJsonError
from etcompile.load.yaml_values import text_bytes

_LONGEST_SHOWN = 40
"""Characters of a key that a message shows."""


class _LimitError(Exception):
    """The value nests too deep, contains itself, or repeats too much."""

    def __init__(self, code: str, limit: int) -> None:
        super().__init__(code)
        self.code, self.limit = code, limit


def json_value(value: object, file: str, limits: Limits) -> tuple[Any, Diagnostic | None]:
    """A value as JSON.

    A whole number is an integer even when it is a float, as in a file (`2.0` is 2).

    Args:
        value: Mappings, lists, tuples, text, numbers, booleans and None.
        file: What diagnostics call its origin.
        limits: Bounds on nesting, and on values that stand in several places.

    Returns:
        The copy and None, or None and what is wrong.
    """
    try:
        return _Copies(limits).copied(value, "", limits.depth)[0], None
    except _LimitError as error:
        return None, diagnose(error.code, Location(file), limit=error.limit)
    except NotJsonError as error:
        return None, diagnose(codes.UNSUPPORTED_YAML, Location(file), what=str(error), advice=PLAIN)


class _Copies(Struct):
    """The lists and mappings that were copied so far.

    What stands in several places is copied once, as a YAML alias is: nested lists of two equal
    lists would otherwise take a copy for each path that leads to them.
    """

    limits: Limits
    # By identity: the value, which stays so that no other can have it; its copy, its number of
    # values and its levels.
    known: dict[int, tuple[object, Any, int, int]] = field(default_factory=dict)
    values: int = 0
    repeated: int = 0

    def copied(self, value: object, where: str, levels: int) -> tuple[Any, int, int]:
        """A copy that may nest `levels` deep, its number of values, and its levels."""
        if not isinstance(value, Mapping | list | tuple):
            return _scalar(value, where), 1, 0
        if (known := self.known.get(id(value))) is not None:
            _, copy, size, height = known
            if height > levels:
                raise _LimitError(codes.NESTING_TOO_DEEP, self.limits.depth)
            self._count_again(copy, size)
            return copy, size, height
        if levels == 0:
            raise _LimitError(codes.NESTING_TOO_DEEP, self.limits.depth)
        size, height = 1, 0
        if isinstance(value, Mapping):
            copy = {}
            for key, inner in value.items():
                if not isinstance(key, str):
                    raise _not_json(where, f"its key {_shown_key(key)}")
                name = _text(key, where)
                path = f"{where}.{name[:_LONGEST_SHOWN]}" if where else name[:_LONGEST_SHOWN]
                copy[name], below, high = self.copied(inner, path, levels - 1)
                size, height = size + below, max(height, high)
        else:
            copy = []
            for number, inner in enumerate(value):
                item, below, high = self.copied(inner, f"{where}[{number}]", levels - 1)
                copy.append(item)
                size, height = size + below, max(height, high)
        self.known[id(value)] = (value, copy, size, height + 1)
        return copy, size, height + 1

    def _count_again(self, copy: Any, size: int) -> None:
        """Counts what stands in another place, too, against the limits of YAML's aliases."""
        self.values += size
        if self.values > self.limits.alias_values:
            raise _LimitError(codes.ALIAS_EXPANSION, self.limits.alias_values)
        self.repeated += text_bytes(copy)
        if self.repeated > self.limits.alias_bytes:
            raise _LimitError(codes.ALIAS_BYTES, self.limits.alias_bytes // 2**20)


def _shown_key(key: object) -> str:
    """A key that is no text, as a message shows it; a very long number has no text in Python."""
    try:
        return repr(key)[:_LONGEST_SHOWN].encode(errors="backslashreplace").decode()
    except Exception:
        return f"of type {type(key).__name__}"


def _scalar(value: object, where: str) -> Any:
    match value:
        case str():
            return _text(value, where)
        case None | bool():
            return value
        case int() if -(2**63) <= value < 2**64:
            return int(value)
        case int() | float():
            try:
                number = float(
                    value
                )  # an integer beyond 64 bits is the nearest float, as in a file
            except OverflowError:
                what = "an integer that no computer number can hold"
                raise _not_json(where, what) from None
            if not isfinite(number):
                raise _not_json(where, f"the number {number}")
            # Kubernetes' parser makes the same of 2.0 and 1e3 in a file (see `scalars`).
            return int(number) if number.is_integer() and abs(number) < 2.0**63 else number
    raise _not_json(where, type(value).__name__)


def _text(value: str, where: str) -> str:
    plain = str.__str__(value)  # of an enumeration, its value
    try:
        plain.encode()
    except UnicodeEncodeError:
        raise _not_json(where, "text with half a surrogate pair") from None
    return plain


def _not_json(where: str, what: str) -> NotJsonError:
    return NotJsonError(f"{where or 'the value'} ({what})")
