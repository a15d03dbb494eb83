"""What the schemas say about a field: its values, and what it is for.

The kind's own schema counts down to a Pod template, and Kubernetes' schema below it, as when a
document is checked.
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile import frontends
from etcompile.check import kubernetes
from etcompile.check.bundled import bundled_schema
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_SCHEMA, RUNTIME_VERSION
from etcompile.integrations.editor.outline import Path

_RUNTIME_TEMPLATE = (
    *("spec", "template", "spec", "replicatedJobs", "*"),
    *("template", "spec", "template"),
)


class Suggestion(Struct, frozen=True):
    """A key or a value that may stand somewhere.

    Args:
        word: As it is written.
        form: Its type, such as `object`; empty if it may be anything.
        text: What it is for.
        required: The mapping needs it.
    """

    word: str
    form: str
    text: str
    required: bool


_Part = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A part of a schema, and the schema whose definitions it names."""


def keys(api_version: str, kind: str, path: Path, version: str) -> list[Suggestion]:
    """The fields of the mapping at a path, those that it needs first."""
    found: dict[str, Suggestion] = {}
    for part, root in _parts(api_version, kind, path, version):
        needed = part.get("required", ())
        for name, field in part.get("properties", {}).items():
            inner = _resolved(field, root)
            if inner.get("x-etcompile") != "refused":
                form = inner.get("type", "")
                words = " or ".join(form) if isinstance(form, list) else str(form)
                text = " ".join(str(inner.get("description", "")).split())
                found.setdefault(name, Suggestion(name, words, text, name in needed))
    return sorted(found.values(), key=lambda suggestion: not suggestion.required)


def values(api_version: str, kind: str, path: Path, version: str) -> list[Suggestion]:
    """The values that the field at a path may have, where they can be counted."""
    if path == ("kind",):
        names = {k.name: k.summary for k in frontends.kinds()}
        return [Suggestion(name, "string", text, False) for name, text in names.items()]  # noqa: FBT003
    if path == ("apiVersion",):
        versions = dict.fromkeys(k.api_version for k in frontends.kinds())
        return [Suggestion(name, "string", "", False) for name in versions]  # noqa: FBT003
    found: dict[str, Suggestion] = {}
    for part, _ in _parts(api_version, kind, path, version):
        only = (part["const"],) if "const" in part else ()
        options = [*part.get("enum", ()), *only]
        if part.get("type") == "boolean":
            options += [True, False]
        for option in options:
            word = str(option).lower() if isinstance(option, bool) else str(option)
            if word:
                found[word] = Suggestion(word, "", "", required=False)
    return list(found.values())


def description(api_version: str, kind: str, path: Path, version: str) -> str:
    """What the field at a path is for; empty if no schema says so."""
    for part, _ in _parts(api_version, kind, path, version):
        if text := part.get("description"):
            return " ".join(str(text).split())
    return ""


def _parts(api_version: str, kind: str, path: Path, version: str) -> Iterator[_Part]:
    """The parts of schemas that speak of the value at a path."""
    found = frontends.find(api_version, kind)
    if found is None and not (api_version == RUNTIME_VERSION and kind in RUNTIME_KINDS):
        schema = kubernetes.object_schema(api_version, kind, version)
        if schema is not None:
            yield from _below(schema, schema, path)
        return
    for template in found.pod_templates if found is not None else (_RUNTIME_TEMPLATE,):
        steps = zip(template, path, strict=False)
        if len(path) >= len(template) and all(step in ("*", own) for step, own in steps):
            schema = kubernetes.pod_template_schema(version)
            yield from _below(schema, schema, path[len(template) :])
    schema = _schema(str(found.schema) if found is not None else RUNTIME_SCHEMA)
    yield from _below(schema, schema, path)


@functools.cache
def _schema(name: str) -> Mapping[str, Any]:
    return bundled_schema(name)


def _below(part: Mapping[str, Any], root: Mapping[str, Any], path: Path) -> Iterator[_Part]:
    part = _resolved(part, root)
    for form in (*part.get("allOf", ()), *part.get("anyOf", ()), *part.get("oneOf", ())):
        yield from _below(form, root, path)
    if not path:
        yield part, root
        return
    step, rest = path[0], path[1:]
    inner = part.get("items") if isinstance(step, int) else part.get("properties", {}).get(step)
    if inner is None and isinstance(step, str):
        inner = part.get("additionalProperties")
    if isinstance(inner, Mapping):
        yield from _below(inner, root, rest)


def _resolved(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A part with what it refers to; its own words win."""
    while reference := part.get("$ref"):
        own = {key: value for key, value in part.items() if key != "$ref"}
        part = {**root["$defs"][str(reference).rpartition("/")[2]], **own}
    return part
