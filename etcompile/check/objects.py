"""The last look at everything that is about to leave: compiled objects and neighbours alike.

No private key gets past it (reference/gitops.md 5), no two objects share a name, and nothing
is larger than the API server takes.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, diagnose

_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_CONFIG_MAP_LIMIT = 1024 * 1024
"""Bytes: the API server's limit on the data of one ConfigMap."""
_PODS_WAVE = 100

Object = Mapping[str, Any]
Identity = tuple[str, str, str, str]
"""Group, kind, namespace and name."""


def check_objects(
    compiled: Mapping[str, Sequence[Object]],
    neighbours: Sequence[Source],
    *,
    allow_plain_secrets: bool,
) -> list[Diagnostic]:
    """What must not leave, or should not.

    Args:
        compiled: Compiled objects by the job they belong to (its title).
        neighbours: Other objects of the input.
        allow_plain_secrets: Let Secrets with data pass.
    """
    return [
        *_clashes(compiled, neighbours),
        *_compiled(compiled),
        *(p for source in neighbours for p in _neighbour(source, allow=allow_plain_secrets)),
    ]


def identity(value: Object) -> Identity:
    """What the API server tells objects apart by; `default` stands for no namespace."""
    metadata = value["metadata"]
    group = value["apiVersion"].rpartition("/")[0]
    return group, value["kind"], metadata.get("namespace") or "default", metadata["name"]


def contains_private_key(value: object) -> bool:
    """Whether a PEM private key stands anywhere in a JSON value, in the clear or in base64."""
    return any(_PRIVATE_KEY.search(text) for text in _texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        if decoded := _decoded(value):
            yield decoded
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _decoded(text: str) -> str | None:
    # "-----BEGIN" is LS0tLS1CRUdJTi in base64; anything else is not worth decoding.
    if "LS0tLS1CRUdJTi" not in text:
        return None
    try:
        return base64.b64decode("".join(text.split())).decode("latin-1")
    except (binascii.Error, ValueError):
        return None


def _compiled(compiled: Mapping[str, Sequence[Object]]) -> Iterator[Diagnostic]:
    for job, objects in compiled.items():
        seen: set[int] = set()
        for value in objects:
            # A role's Pods share one spec: it need not be searched once for each of them.
            spec = value.get("spec")
            parts = [v for k, v in value.items() if k != "spec"]
            if spec is not None and id(spec) not in seen:
                seen.add(id(spec))
                parts.append(spec)
            if contains_private_key(parts):
                what = f"{value['kind']} {value['metadata']['name']} of job '{job}'"
                yield diagnose("ET4006", None, what=what)
            if value["kind"] == "ConfigMap":
                yield from _config_size(value)


def _config_size(value: Object) -> Iterator[Diagnostic]:
    size = sum(len(k) + len(v.encode()) for k, v in value.get("data", {}).items())
    if size > _CONFIG_MAP_LIMIT:
        name = value["metadata"]["name"]
        yield diagnose("ET4008", None, name=name, size=size // 1024)


def _neighbour(source: Source, *, allow: bool) -> Iterator[Diagnostic]:
    value = source.data
    what = f"{value['kind']} '{value.get('metadata', {}).get('name', '')}'"
    if contains_private_key(value):
        yield diagnose("ET4006", source.locate(("metadata", "name")), what=what)
    elif value["kind"] == "Secret" and not allow:
        for field in ("data", "stringData"):
            if value.get(field):
                yield diagnose("ET4007", source.locate((field,), key=True), what=what)
                break
    for annotation in ("etcompile.dev/wave", "argocd.argoproj.io/sync-wave"):
        wave = value.get("metadata", {}).get("annotations", {}).get(annotation, "")
        if re.fullmatch(r"\d+", wave) and int(wave) > _PODS_WAVE:
            place = source.locate(("metadata", "annotations", annotation))
            yield diagnose("ET4009", place, what=what, wave=wave)


def _clashes(
    compiled: Mapping[str, Sequence[Object]], neighbours: Iterable[Source]
) -> Iterator[Diagnostic]:
    made = {identity(value): job for job, objects in compiled.items() for value in objects}
    for source in neighbours:
        metadata = source.data.get("metadata", {})
        if metadata.get("name") and (job := made.get(identity(source.data))):
            place = source.locate(("metadata", "name"))
            what = f"{source.data['kind']} '{metadata['name']}'"
            yield diagnose("ET4005", place, what=what, job=job)
