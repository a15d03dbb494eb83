"""Bundle JSON Schemas with the definitions they refer to, for validators and editors.

Schemas of several kinds share definitions by file name: `kubeflow.json#/$defs/RunPolicy`. A
validator and an editor get one schema that contains them all.
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

# Matched in the text, because every run needs a schema and a walk takes ten times as long. In a
# JSON string the quotes would be escaped.
_REFERENCE = re.compile(rb'"\$ref":\s*"([^"#]*)#/\$defs/([^"/]+)')


class Validator:
    """A schema (draft 2020-12) whose references lead to its `$defs`, compiled on first use."""

    def __init__(self, rules: dict[str, Any]) -> None:
        self.rules = rules

    @functools.cached_property
    def compiled(self) -> jsonschema_rs.Validator:
        return jsonschema_rs.Draft202012Validator(self.rules)


def bundled_schema(path: str | Path) -> dict[str, Any]:
    """Return a schema with every definition it needs, from whatever file.

    References are by file name, not `$id`. In the result each leads to `#/$defs/NAME`: first the
    schema's definitions, then those of other files that are needed.

    Raises:
        OSError: The schema, or a file it refers to, cannot be read.
        ValueError: One is not JSON, a reference leads nowhere, or two files define the same name.
    """
    home = Path(os.path.normpath(data.folder("schemas") / path))
    schema, waiting = _read(home)
    local: dict[str, Any] = schema.get("$defs", {})
    shared: dict[str, Any] = {}
    read = {home}
    while waiting:
        if (file := waiting.pop()) in read:
            continue
        read.add(file)
        other, further = _read(file)
        theirs = other.get("$defs", {})
        if twice := theirs.keys() & (local.keys() | shared.keys()):
            raise ValueError(f"{file}: '{min(twice)}' is defined in another file too")
        shared |= theirs
        waiting |= further
    if definitions := local | needed_definitions(schema, local | shared):
        schema["$defs"] = definitions
    return schema


def _read(file: Path) -> tuple[dict[str, Any], set[Path]]:
    """Read a file with all references changed to `#/$defs/`, and the files they led to."""
    text = file.read_bytes()
    names = {reference[1] for reference in _REFERENCE.finditer(text) if reference[1]}
    for name in names:
        text = text.replace(b'"%b#/$defs/' % name, b'"#/$defs/')
    files = {Path(os.path.normpath(file.parent / name.decode())) for name in names}
    return msgspec.json.decode(text), files


def needed_definitions(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema leads to, directly or not, in their order.

    Raises:
        ValueError: A reference leads nowhere.
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
