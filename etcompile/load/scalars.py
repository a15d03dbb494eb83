"""Convert YAML scalars to JSON values, as kubectl does.

kubectl converts YAML to JSON with sigs.k8s.io/yaml, whose scalar rules are those of go-yaml 2:
YAML 1.1 with a few exceptions that no Python library shares (`0o17` and `017` are both octal,
`y` and `n` are booleans, `1:30` is text, `08` is the number 8). This module has them as one table
and three patterns.
"""

import math
import re
from typing import Final

Scalar = str | int | float | bool | None

PLAIN = "use plain strings, numbers, booleans, lists and mappings"
"""The advice about a value that has no JSON form."""


class NotJsonError(ValueError):
    """A value has no JSON form; the text is the diagnostic's `what`."""


_WORDS: Final[dict[str, bool | float | None]] = (
    dict.fromkeys(["", "~", "null", "Null", "NULL"])
    | dict.fromkeys(["y", "Y", "yes", "Yes", "YES", "on", "On", "ON"], True)
    | dict.fromkeys(["true", "True", "TRUE"], True)
    | dict.fromkeys(["n", "N", "no", "No", "NO", "off", "Off", "OFF"], False)
    | dict.fromkeys(["false", "False", "FALSE"], False)
    | dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan)
    | dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf)
    | dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf)
)

FIRST_CHARACTERS: Final = frozenset({"", *"yYnNtTfFoO~0123456789+-."})
"""First characters of plain scalars that are not text; `""` for the empty scalar."""

_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_BASED = re.compile(
    r"([-+]?)0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]?([0-7]+))"  # 0x1F, 0b11, 0o17, 017
    r"|0b([-+][01]+)"  # go-yaml reads the sign after the prefix too
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
# Go's ParseFloat reads numbers that begin with a point. It allows one underscore between digits.
_POINT_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")
_LONGEST_INTEGER = 20  # characters; those of -2^63 and 2^64 - 1
_TAG_PREFIX = "tag:yaml.org,2002:"


def plain(text: str) -> Scalar:
    """Return the value of an unquoted scalar.

    A whole number is an int even when written `1.0` or `1e3`, because kubectl converts the value to
    JSON text and back (reference: sigs.k8s.io/yaml).
    """
    return _json(_resolved(text), text)


def plain_key(text: str) -> str:
    return text if text[:1] not in FIRST_CHARACTERS else key_text(_resolved(text))


def tagged(tag: str, text: str) -> Scalar:
    """Return the value of a scalar with a resolved tag, such as `tag:yaml.org,2002:int`.

    `!` means text.
    """
    short = short_tag(tag)
    if short in ("!", "!!str", "!!timestamp"):
        return text
    if short not in ("!!null", "!!bool", "!!int", "!!float"):
        raise NotJsonError(f"the tag {short}")
    value = _resolved(text) if text[:1] in FIRST_CHARACTERS else text
    if (short == _tag_of(value)) or (short == "!!float" and _tag_of(value) == "!!int"):
        return _json(value, text)
    raise NotJsonError(f"'{text}' with the tag {short}")


def short_tag(tag: str) -> str:
    """Return the tag as people write it: `!!int` for `tag:yaml.org,2002:int`."""
    return "!!" + tag.removeprefix(_TAG_PREFIX) if tag.startswith(_TAG_PREFIX) else tag


def key_text(value: object) -> str:
    """Return the JSON key for a parsed YAML key."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            text = f"{value:g}"
            if not math.isfinite(value) or float(text) != value:  # Go writes it otherwise
                raise NotJsonError(f"the number {value} used as a key")
            return text
        case None:
            raise NotJsonError("a null key")
        case list():
            raise NotJsonError("a list used as a key")
    raise NotJsonError("a mapping used as a key")


def _resolved(text: str) -> Scalar:
    """Return the value in go-yaml, before the conversion to JSON."""
    if text in _WORDS:
        return _WORDS[text]
    first = text[0]
    if first not in "+-.0123456789":
        return text
    number, form = text, _POINT_FLOAT
    if first != ".":
        number, form = text.replace("_", ""), _FLOAT
        if (integer := _integer(number)) is not None:
            return integer
    value = float(number) if form.fullmatch(number) else math.inf
    return value if math.isfinite(value) else text


def _integer(number: str) -> int | None:
    """Return the integer if it fits into 64 bits in Go, else None."""
    if _DECIMAL.fullmatch(number):
        # Longer ones cannot fit, and Python refuses to convert very long ones.
        value = int(number) if len(number) <= _LONGEST_INTEGER else None
    elif match := _BASED.fullmatch(number):
        sign, sixteen, two, eight, signed_two = match.groups()
        if signed_two:
            value = int(signed_two, 2)
        else:
            value = int(sixteen, 16) if sixteen else int(two, 2) if two else int(eight, 8)
            value = -value if sign == "-" else value
    else:
        value = None
    if value is None:
        return None
    # A sign excludes the unsigned reading.
    largest = 2**63 if number[0] in "+-" else 2**64
    return value if -(2**63) <= value < largest else None


def _json(value: Scalar, text: str) -> Scalar:
    """Return the value after conversion to JSON text and back."""
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise NotJsonError(f"the number {text}")
    whole = value.is_integer() and abs(value) < 2.0**63
    return int(value) if whole else value


def _tag_of(value: Scalar) -> str:
    match value:
        case None:
            return "!!null"
        case bool():
            return "!!bool"
        case int():
            return "!!int"
        case float():
            return "!!float"
    return "!!str"
