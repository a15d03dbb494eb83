"""Text from unchecked input, made safe for a terminal, a log or JSON.

A message quotes names, values and lines of its input, which may contain any character.
"""

import json
from typing import Any


def printable(words: str, *, keep: str = "") -> str:
    """The text without characters that a terminal would act on, except those in `keep`."""
    return "".join(
        c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in words
    )


def well_formed(words: str) -> str:
    """The text with lone surrogates, which UTF-8 cannot encode, replaced."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    """A JSON document in ASCII, which reads the same in every encoding of a log."""
    return json.dumps(_well_formed(value), indent=2) + "\n"


def _well_formed(value: Any) -> Any:
    """The value with all text in it well formed, which JSON for other programs must be."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {key: _well_formed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_well_formed(inner) for inner in value]
    return value
