"""How two renderings of one job differ, as what a person would call it: an object's kind, a field.

A difference stands for all of its like: `Pod spec.containers[*].env[*].value` is one, however many
Pods and variables have it. What is written into a ConfigMap as YAML or JSON is looked into.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import yaml


class Difference(NamedTuple):
    """Something that two versions render otherwise.

    Args:
        example: The job and how it was rendered.
        where: A kind of objects, or the name of a file.
        field: The path of the field, `[*]` for any item of a list.
    """

    example: str
    where: str
    field: str


def of_texts(example: str, old: str, new: str) -> set[Difference]:
    """How two streams of manifests differ."""
    if old == new:
        return set()
    before, after = _objects(old), _objects(new)
    found = set()
    for key in before.keys() | after.keys():
        kind = key[0]
        if key not in before or key not in after:
            what = "(a new object)" if key not in before else "(an object that is gone)"
            found.add(Difference(example, kind, what))
            continue
        found |= {Difference(example, kind, path) for path in _fields(before[key], after[key])}
    # The same objects in another order or spelling: bytes count, too.
    return found or {Difference(example, "(all)", "(order or spelling)")}


def of_folders(example: str, old: Mapping[str, str], new: Mapping[str, str]) -> set[Difference]:
    """How two output folders differ; what they render is told by `of_texts`, so here only files."""
    found = set()
    for name in old.keys() | new.keys():
        if name not in old or name not in new:
            found.add(Difference(example, name, "(a file)"))
        elif name.endswith("etcompile.lock.json"):
            before, after = json.loads(old[name]), json.loads(new[name])
            # Which version it was is what the file is for; digests follow from what they are of.
            for key in ("tool", "outputs"):
                before.pop(key), after.pop(key)
            found |= {Difference(example, name, path) for path in _fields(before, after)}
        elif name.endswith("kustomization.yaml"):
            found |= of_texts(example, old[name], new[name])
    return found


def of_objects(example: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> set[Difference]:
    """How two forms of an object differ."""
    return {Difference(example, old["kind"], path) for path in _fields(old, new)}


def _objects(text: str) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for value in yaml.safe_load_all(text):
        if value is None:
            continue
        metadata = value.get("metadata") or {}
        name, namespace = str(metadata.get("name")), str(metadata.get("namespace"))
        found[value["kind"], namespace, name] = value
    return found


def _fields(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}, key=str):
            inner = f"{path}.{key}" if path else str(key)
            if key in old and key in new:
                yield from _fields(old[key], new[key], inner)
            else:
                yield inner
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for before, after in zip(old, new, strict=True):
            yield from _fields(before, after, f"{path}[*]")
    elif isinstance(old, str) and isinstance(new, str) and path == "data.job.yaml":
        yield from _fields(yaml.safe_load(old), yaml.safe_load(new), f"{path}:")
    else:
        yield path
