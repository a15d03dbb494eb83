"""Translates the templates whenever a wheel is built or a checkout is installed.

Hatchling runs it with this folder's `generate.py`, in an environment that has Jinja2 and nothing
else of ours.
"""

import runpy
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_MADE = "etcompile/backend/shipped.py"


class TranslatedTemplates(BuildHookInterface[Any]):
    """Makes `etcompile/backend/shipped.py`, which Git ignores and the wheel has."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the file before anything is packed."""
        root = Path(self.root)
        runpy.run_path(str(root / "templates" / "generate.py"))["write"]()
        build_data["artifacts"].append(f"/{_MADE}")
