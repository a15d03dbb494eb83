"""Every row of `schemas/kubernetes/rules.yaml` with an object that breaks it and its correction."""

import copy
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.k8s.validation import Problem, Subject, object_problems, pod_problems, templates_of
from etcompile.k8s.validation.engine import NEWEST

_SCRIPT = Path(__file__).parents[2] / "schemas" / "kubernetes" / "rules.py"
_spec = importlib.util.spec_from_file_location("kubernetes_rules", _SCRIPT)
rules = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rules)


class Row(Struct, frozen=True):
    """A row of a kind with its two examples as whole objects."""

    kind: str
    row: dict[str, Any]
    broken: dict[str, Any]
    corrected: dict[str, Any]

    @property
    def name(self) -> str:
        place = ".".join(filter(None, (self.row["path"], self.row.get("field"))))
        return f"{self.kind}:{place}:{self.row['message'][:24]}"

    def version(self, served: int) -> int:
        """A minor version that has the rule: the one that is served, if it has it."""
        return min(max(served, self.row.get("since", 0)), self.row.get("until", NEWEST))

    def is_broken_in(self, value: dict[str, Any], minor: int) -> bool:
        """Whether the engine says of an object what the row says."""
        broken = (problem.rule for problem in problems(value, minor))
        return any(rule.message == self.row["message"] for rule in broken)


def problems(value: dict[str, Any], minor: int) -> list[Problem]:
    """All that the rules have against an object and the Pod templates in it."""
    all_problems = [*object_problems(value, minor)]
    if value["kind"] == "Pod":
        all_problems += pod_problems(Subject(value, minor))
    for path in templates_of(value):
        template = value
        for step in path:
            template = template.get(step) if isinstance(template, dict) else None
        if isinstance(template, dict):
            all_problems += pod_problems(Subject(template, minor, pod=False))
    return all_problems


def rows() -> Iterator[Row]:
    """All rows, those of groups wherever they are used."""
    source = rules.document()
    for kind, table in source["kinds"].items():
        for row in rules.rows(source, kind):
            yield Row(kind, row, _set(table, row, "breaks"), _set(table, row, "takes"))


def _set(table: dict[str, Any], row: dict[str, Any], which: str) -> dict[str, Any]:
    """The example of a kind with the example of a row at its place."""
    steps = rules.steps(next(rules.alternatives(row["path"])))
    return _put(table["example"], steps, row[which], table.get("parts", {}))


def _put(value: Any, steps: list[str], example: Any, parts: dict[str, Any], at: str = "") -> Any:
    if not steps:
        both = isinstance(value, dict) and isinstance(example, dict)
        return {**value, **example} if both else copy.deepcopy(example)
    step, *rest = steps
    at = f"{at}{step}" if step == "[*]" or not at else f"{at}.{step}"
    if step == "[*]":
        first, *others = value or [parts.get(at)]
        return [_put(first, rest, example, parts, at), *others]
    fields = value or {}
    inner = fields.get(step, parts.get(at))
    return {**fields, step: _put(inner, rest, example, parts, at)}
