"""Every object of every golden goes through the official client's typed models without loss.

A field that they do not know is dropped on the way, one of a wrong type is refused or changed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client

GOLDEN = Path(__file__).parents[2] / "golden"
FOLDERS = sorted({path.parent for path in GOLDEN.rglob("*.yaml")})
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_PREFIXES = {
    "v1": "V1",
    "apps/v1": "V1",
    "batch/v1": "V1",
    "networking.k8s.io/v1": "V1",
    "policy/v1": "V1",
    "rbac.authorization.k8s.io/v1": "V1",
}


def objects(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a folder of which the client has a model, each with the model's name."""
    for file in sorted(folder.glob("*.yaml")):
        for value in yaml.load_all(file.read_text("utf-8"), Loader=Loader):
            prefix = _PREFIXES.get((value or {}).get("apiVersion"))
            if prefix:
                yield f"{prefix}{value['kind']}", value


def with_texts(value: Any) -> Any:
    """The value with all quantities as texts: the API takes whole numbers, the models do not."""
    if isinstance(value, list):
        return [with_texts(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: str(number) for name, number in part.items()}
        if key in ("limits", "requests")
        else with_texts(part)
        for key, part in value.items()
    }


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda one: one.relative_to(GOLDEN).as_posix())
def test_the_official_models_keep_all_that_is_written(folder: Path) -> None:
    api = client.ApiClient()
    for model, written in objects(folder):
        value = with_texts(written)
        typed = api.deserialize(json.dumps(value), model, "application/json")
        assert api.sanitize_for_serialization(typed) == value


def test_there_are_objects_of_many_kinds() -> None:
    models = {model for folder in FOLDERS for model, _ in objects(folder)}
    assert {"V1Pod", "V1Service", "V1ConfigMap", "V1Role", "V1RoleBinding"} <= models
