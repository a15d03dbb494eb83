"""A schema and the files it refers to, as one schema that stands alone.

Schemas of several kinds share definitions by a file's name: `kubeflow.json#/$defs/RunPolicy`.
A validator gets, and an editor is given, the one schema that this makes of them. Apart from
`schema`, because the command that prints a schema needs it too.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from etcompile import data

# Looked for in the text: every run needs a schema, and a walk takes ten times as long. Inside
# of a JSON string the quotes would be escaped.
_REFERENCE = re.compile(rb'"\$ref":\s*"([^"#]*)#/\$defs/([^"/]+)')


def bundled_schema(path: str | Path) -> dict[str, Any]:
    """A schema with every definition it needs, whatever file that stands in.

    A file's name counts, not its `$id`. Each reference leads to `#/$defs/NAME`: the schema's own
    definitions first, then those of other files, and of these only what is needed.

    Args:
        path: The schema: a file name in `schemas/`, or the path of one.

    Returns:
        The schema, newly read: the caller's to keep.

    Raises:
        OSError: the schema, or a file it refers to, cannot be read.
        ValueError: one is not JSON, a reference leads nowhere, or two files have a definition
            of the same name.
    """
    home = _normal(data.folder("schemas") / path)
    schema, waiting = _read(home)
    own: dict[str, Any] = schema.get("$defs", {})
    shared: dict[str, Any] = {}
    read = {home}
    while waiting:
        if (file := waiting.pop()) in read:
            continue
        read.add(file)
        other, further = _read(file)
        theirs = other.get("$defs", {})
        if twice := theirs.keys() & (own.keys() | shared.keys()):
            raise ValueError(f"{file}: '{min(twice)}' is defined in another file too")
        shared |= theirs
        waiting |= further
    reached = needed(schema, own | shared)
    if definitions := own | {
        name: definition for name, definition in shared.items() if name in reached
    }:
        schema["$defs"] = definitions
    return schema


def _read(file: Path) -> tuple[dict[str, Any], set[Path]]:
    """A file whose references all lead to `#/$defs/`, and the files they led to."""
    text = file.read_bytes()
    names = {reference[1] for reference in _REFERENCE.finditer(text) if reference[1]}
    for name in names:
        text = text.replace(b'"%b#/$defs/' % name, b'"#/$defs/')
    return msgspec.json.decode(text), {_normal(file.parent / name.decode()) for name in names}


def _normal(file: Path) -> Path:
    """One spelling of a path, however a reference spells it."""
    return Path(os.path.normpath(file))


def needed(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> set[str]:
    """The definitions that a schema leads to, through others too.

    Args:
        schema: A schema; the `$defs` in it count as its own parts.
        definitions: By name, all that there are.

    Raises:
        ValueError: a reference leads nowhere.
    """
    found: set[str] = set()
    waiting = set(_named(schema))
    while waiting:
        name = waiting.pop()
        if name not in definitions:
            raise ValueError(f"no file defines '{name}'")
        found.add(name)
        waiting |= set(_named(definitions[name])) - found
    return found


def _named(node: Mapping[str, Any]) -> Iterator[str]:
    for reference in _REFERENCE.finditer(msgspec.json.encode(node)):
        yield reference[2].decode()
