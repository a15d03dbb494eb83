"""JSON Schemas that stand alone, and the values that they are held against.

Schemas of several kinds share definitions by a file's name: `kubeflow.json#/$defs/RunPolicy`. A
validator and an editor get the one schema that this makes of them.
"""

import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec

from etcompile import data

# Looked for in the text: every run needs a schema, and a walk takes ten times as long. Inside
# of a JSON string the quotes would be escaped.
_REFERENCE = re.compile(rb'"\$ref":\s*"([^"#]*)#/\$defs/([^"/]+)')


class Validator:
    """A schema (draft 2020-12) whose references lead to its own `$defs`, compiled when needed."""

    def __init__(self, rules: dict[str, Any]) -> None:
        self.rules = rules

    @functools.cached_property
    def compiled(self) -> jsonschema_rs.Validator:
        """The schema, compiled."""
        return jsonschema_rs.Draft202012Validator(self.rules)


def bundled_schema(path: str | Path) -> dict[str, Any]:
    """A schema with every definition it needs, whatever file that stands in.

    A file's name counts, not its `$id`. Each reference leads to `#/$defs/NAME`: the schema's own
    definitions first, then those of other files, and of these only what is needed.

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
    if definitions := own | needed_definitions(schema, own | shared):
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
    return Path(os.path.normpath(file))


def needed_definitions(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The definitions that a schema leads to, through others too, in their order.

    Raises:
        ValueError: a reference leads nowhere.
    """
    needed: set[str] = set()
    waiting = [schema]
    while waiting:
        for reference in _REFERENCE.finditer(msgspec.json.encode(waiting.pop())):
            name = reference[2].decode()
            if name not in definitions:
                raise ValueError(f"no file defines '{name}'")
            if name not in needed:
                needed.add(name)
                waiting.append(definitions[name])
    return {name: definition for name, definition in definitions.items() if name in needed}
