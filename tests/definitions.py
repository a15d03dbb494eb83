"""The CustomResourceDefinitions of third parties, as schemas and in a real API server."""

import copy
import time
import urllib.error
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

CRDS = Path(__file__).parent / "data" / "crds"


def closed(schema: Any) -> Any:
    """A structural schema that takes no field it does not name, as a strict API server."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    is_open = schema.get("x-kubernetes-preserve-unknown-fields")
    if isinstance(result.get("properties"), dict) and not is_open:
        result.setdefault("additionalProperties", False)
    return result


def structural_schemas(files: Iterable[Path]) -> dict[tuple[str, str], Any]:
    """The closed schema of each kind that files define, by apiVersion and kind."""
    schemas = {}
    for path in files:
        definition = yaml.safe_load(path.read_text("utf-8"))["spec"]
        for version in definition["versions"]:
            schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": True,
            }
            key = f"{definition['group']}/{version['name']}", definition["names"]["kind"]
            schemas[key] = closed(schema)
    return schemas


def install(plane: Any, files: Iterable[Path]) -> None:
    """Creates definitions in an API server, but for those that another test has created."""
    for path in files:
        definition = yaml.safe_load(path.read_text("utf-8"))
        try:
            plane.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        except urllib.error.HTTPError as error:
            if error.code != 409:
                raise


def definition(group: str, kind: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    """The definition of a kind that takes any fields; `more` is of its version."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True}
    served |= {"schema": {"openAPIV3Schema": schema}, **more}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [served],
        },
    }


def ask_until_served(plane: Any, url: str, value: Any) -> Any:
    """The answer of an API server that may need a moment before it serves a new kind."""
    for _ in range(100):
        try:
            return plane.ask("POST", url, value)
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise AssertionError(error.read().decode()) from error
            time.sleep(0.1)
    raise AssertionError(f"{url} is not served")
