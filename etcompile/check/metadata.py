"""The metadata of any object, known kind or not: the part that no custom resource may reshape.

Apart from the Kubernetes schemas because a kind without a schema is checked here too.
"""

from collections.abc import Iterator
from typing import Any

from etcompile.diagnostics import Diagnostic, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted


def check_metadata(source: Source) -> list[Diagnostic]:
    """What is wrong with the form of an object's metadata.

    Args:
        source: A document with apiVersion and kind.

    Returns:
        An error for each field that has another type than every object's metadata has.
    """
    metadata = source.data.get("metadata")
    if not isinstance(metadata, dict):
        return [_wrong(source, ("metadata",), "needs a mapping with a name")]
    return list(_fields(source, metadata))


def _fields(source: Source, metadata: dict[str, Any]) -> Iterator[Diagnostic]:
    if all(metadata.get(name) in (None, "") for name in ("name", "generateName")):
        yield _wrong(source, ("metadata", "name"), "needs a name, as text")
    for field in ("name", "generateName", "namespace"):
        value = metadata.get(field)
        if isinstance(value, bool | int | float):
            yield _wrong(source, ("metadata", field), "must be text: put it in quotes")
        elif value is not None and not isinstance(value, str):
            yield _wrong(source, ("metadata", field), "must be text")
    for field in ("labels", "annotations"):
        values = metadata.get(field, {})
        if not isinstance(values, dict):
            yield _wrong(source, ("metadata", field), "must be a mapping")
            continue
        for key, value in values.items():
            if not isinstance(value, str):
                yield _wrong(source, ("metadata", field, key), "must be text: put it in quotes")
    for field, item, words in _LISTS:
        values = metadata.get(field) or []
        if not isinstance(values, list) or not all(isinstance(entry, item) for entry in values):
            yield _wrong(source, ("metadata", field), f"must be a list of {words}")


_LISTS = (("finalizers", str, "texts"), ("ownerReferences", dict, "mappings"))


def _wrong(source: Source, path: ValuePath, problem: str) -> Diagnostic:
    where = dotted(path)
    return diagnose(
        codes.KUBERNETES_INVALID, source.locate(path), where=where, problem=problem, advice=""
    )
