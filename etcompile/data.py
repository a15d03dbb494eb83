"""Find the data folders: schemas, templates, overlays, examples.

In a checkout they are at the top of the repository, in an installed wheel inside the package.
"""

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import json

_PACKAGE = Path(__file__).parent


def folder(name: str) -> Path:
    """Return a data folder: inside an installed package, else in the checkout.

    Args:
        name: One of `schemas`, `templates`, `overlays`, `examples`.

    Raises:
        FileNotFoundError: the installation lacks it.
    """
    for base in (_PACKAGE / "_data", _PACKAGE.parent):
        if (path := base / name).is_dir():
            return path
    raise FileNotFoundError(f"etcompile's data folder '{name}' is missing; reinstall etcompile")


@functools.cache
def setting_schemas() -> Mapping[str, Any]:
    """Return the JSON Schema of each setting of `etcompile.toml`, by its name."""
    schema = json.decode((folder("schemas") / "configuration.json").read_bytes())
    properties: Mapping[str, Any] = schema["$defs"]["settings"]["properties"]
    return properties
