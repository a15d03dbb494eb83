"""Read Kubernetes quantities (`500m`, `2Gi`, `1e3`) as numbers."""

import re
from decimal import Decimal

_LONGEST = 128
"""Characters of a quantity. The longest that the API server stores unchanged has 18 digits."""
_FORM = re.compile(
    # Each digit matches in one way only: otherwise the time grows with the square of the length.
    r"(?P<number>[+-]?\d*+(?:\.\d*+)?)"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?\d{1,3}))?",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_UNITS = {
    **{suffix: Decimal(10) ** power for suffix, power in _DECIMAL.items()},
    **{suffix: Decimal(1024) ** power for suffix, power in _BINARY.items()},
    "": Decimal(1),
}
_MOST = Decimal(10) ** 18
_LOOSE = re.compile(r"(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[kKmMgGtTpP])[iI]?[bB]?", re.ASCII)


def number(quantity: str | float) -> Decimal | None:
    """Parse a quantity by the grammar of resource.ParseQuantity in k8s.io/apimachinery.

    Returns:
        The number; None if the text is no quantity or has more than 128 characters.
    """
    text = str(quantity).strip(" ")  # as the API server does
    match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None or not text:
        return None
    digits = match["number"]
    # The API server reads 'm' or '.' as zero.
    value = Decimal(digits if any(map(str.isdigit, digits)) else 0)
    if (suffix := match["suffix"]) in _BINARY:
        return value * Decimal(1024) ** _BINARY[suffix]
    return value.scaleb(_DECIMAL.get(suffix, 0) + int(match["exponent"] or 0))


def canonical(quantity: str | float) -> str | None:
    """Return the shortest text of a quantity: `8Gi` for `8192Mi`.

    Returns:
        The text; None if this is no quantity, or 10^18 and more.
    """
    value = number(quantity)
    if value is None or abs(value) >= _MOST:
        return None
    texts = (f"{int(value / scale)}{unit}" for unit, scale in _UNITS.items() if not value % scale)
    return min(texts, key=lambda text: (len(text), text), default=None)


def probably(text: str) -> str | None:
    """Guess the quantity behind a text that is none: `2Gi` for `2GB`."""
    if len(text) <= _LONGEST and (match := _LOOSE.fullmatch(text.strip())):
        return f"{match['number']}{match['unit'].upper()}i"
    return None
