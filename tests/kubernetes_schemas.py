"""Kubernetes' own strict schemas, of the `kubernetes-validate` package, each compiled once.

`kubernetes_validate.validate` reads megabytes of JSON for each object that it is asked about. Here
a validator in Rust is made of the same files, for thousands of objects. That both decide alike, and
that it is the right files, `tests/check/test_kubernetes_bundle.py` holds.
"""

import functools
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import jsonschema_rs


def faults(value: Mapping[str, Any], version: str) -> list[str]:
    """What the strict schema of a version, such as 1.37, has against an object, with the places."""
    validator = _validator(value["apiVersion"], value["kind"], version)
    if validator.is_valid(dict(value)):
        return []
    return [
        f"{'.'.join(map(str, error.instance_path))}: {error.message}"
        for error in validator.iter_errors(dict(value))
    ]


def is_valid(value: Mapping[str, Any], version: str) -> bool:
    return _validator(value["apiVersion"], value["kind"], version).is_valid(dict(value))


@functools.cache
def _validator(api_version: str, kind: str, version: str) -> jsonschema_rs.Validator:
    folder = f"v{version}.0-local-strict"
    group, _, name = api_version.rpartition("/")
    stem = f"{group.partition('.')[0]}-{name}" if group else name
    schema = json.loads(_text(folder, f"{kind.lower()}-{stem}"))
    return jsonschema_rs.Draft202012Validator({**schema, **_definitions(folder)})


@functools.cache
def _definitions(folder: str) -> Any:
    return json.loads(_text(folder, "_definitions"))


def _text(folder: str, name: str) -> str:
    base = files("kubernetes_validate") / "kubernetes-json-schema" / folder
    text = (base / f"{name}.json").read_text("utf-8")
    return text.replace('"_definitions.json#', '"#')
