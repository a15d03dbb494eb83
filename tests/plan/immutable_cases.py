"""Changes of objects, and what an API server says about each: the table immutable_cases.yaml."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ACCEPTED, RESTARTS, REFUSED = "accepted", "restarts", "refused"

_TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())


@dataclass(frozen=True)
class Case:
    title: str
    old: dict[str, Any]
    new: dict[str, Any]
    verdict: str
    field: str
    """The one field that is reported."""
    silent: bool
    untried: bool


def changed(kind: str, patch: Any = None) -> Any:
    """An object of the table, with a patch merged into it."""
    return _merged(_TABLE["objects"][kind], patch or {})


def _merged(base: Any, patch: Any) -> Any:
    if isinstance(base, dict) and isinstance(patch, dict):
        both = base | {key: _merged(base.get(key), value) for key, value in patch.items()}
        return {key: value for key, value in both.items() if value is not None}
    if isinstance(base, list) and isinstance(patch, list) and len(base) == len(patch):
        return [_merged(item, change) for item, change in zip(base, patch, strict=True)]
    return patch


def _case(row: dict[str, Any]) -> Case:
    verdict = next((name for name in (RESTARTS, REFUSED) if name in row), ACCEPTED)
    old, new = (changed(row["of"], row.get(side)) for side in ("old", "new"))
    field, silent = row.get(verdict, ""), row.get("silent", False)
    return Case(row["title"], old, new, verdict, field, silent, row.get("untried", False))


CASES = [_case(row) for row in _TABLE["cases"]]
