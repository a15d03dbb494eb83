"""Convert Python values to JSON values.

They are copied, so that a caller may change the original, and a value without JSON form is refused
by its path, as in a file.
"""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.load.access import Limits
from etcompile.load.scalars import PLAIN, NotJsonError

_LONGEST_SHOWN = 40  # the most characters of a key in a message


def json_value(value: object, file: str, limits: Limits) -> tuple[Any, Diagnostic | None]:
    """Copy a value as JSON, or report why it has no JSON form.

    A whole number is an integer even when it is a float, as in a file (`2.0` is 2).
    """
    try:
        return _copied(value, "", limits.depth), None
    except RecursionError:
        return None, diagnose(codes.NESTING_TOO_DEEP, Location(file), limit=limits.depth)
    except NotJsonError as error:
        return None, diagnose(codes.UNSUPPORTED_YAML, Location(file), what=str(error), advice=PLAIN)


def _copied(value: object, where: str, levels: int) -> Any:
    if isinstance(value, Mapping | list | tuple) and levels == 0:
        raise RecursionError
    match value:
        case Mapping():
            copy = {}
            for key, inner in value.items():
                if not isinstance(key, str):
                    try:
                        text = repr(key)[:_LONGEST_SHOWN].encode(errors="backslashreplace").decode()
                    except Exception:
                        text = f"of type {type(key).__name__}"
                    raise NotJsonError(f"{where or 'the value'} (its key {text})")
                name = _copied(key, where, levels)
                shown = name[:_LONGEST_SHOWN]
                copy[name] = _copied(inner, f"{where}.{shown}" if where else shown, levels - 1)
            return copy
        case list() | tuple():
            return [
                _copied(inner, f"{where}[{number}]", levels - 1)
                for number, inner in enumerate(value)
            ]
        case str():
            plain = str.__str__(value)  # the value of an enumeration
            try:
                plain.encode()
            except UnicodeEncodeError:
                problem = "text with half a surrogate pair"
            else:
                return plain
        case None | bool():
            return value
        case int() if -(2**63) <= value < 2**64:
            return int(value)
        case int() | float():
            try:
                number = float(value)  # beyond 64 bits the nearest float, as in a file
            except OverflowError:
                problem = "an integer that no computer number can hold"
            else:
                if isfinite(number):
                    # As Kubernetes' parser reads 2.0 and 1e3 in a file (see `scalars`).
                    whole = number.is_integer() and abs(number) < 2.0**63
                    return int(number) if whole else number
                problem = f"the number {number}"
        case _:
            problem = type(value).__name__
    raise NotJsonError(f"{where or 'the value'} ({problem})")
