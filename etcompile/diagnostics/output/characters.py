"""Words from files that nobody has checked, made safe for what they are written to.

A message quotes its input: names, values, lines. Shared by the forms, each of which is harmed
by other characters.
"""

import json
from typing import Any


def printable(words: str, *, keep: str = "") -> str:
    """The words without anything that a terminal would act on, but for what is to be kept."""
    return "".join(
        c if c.isprintable() or c in keep else "\N{REPLACEMENT CHARACTER}" for c in words
    )


def well_formed(words: str) -> str:
    """The words as Unicode text: half a surrogate pair, which no encoding can hold, replaced."""
    return words.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def json_text(value: Any) -> str:
    """A document of JSON in ASCII, which means the same in whatever encoding a log keeps it."""
    return json.dumps(_well_formed(value), indent=2) + "\n"


def _well_formed(value: Any) -> Any:
    """The value with all text in it as Unicode has it."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, dict):
        return {key: _well_formed(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_well_formed(inner) for inner in value]
    return value
