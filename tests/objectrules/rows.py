"""Every row of the tables with the object that breaks it and its correction."""

import copy
import importlib
import re
from collections.abc import Iterator
from typing import Any

import yaml
from msgspec import Struct

from etcompile.k8s.validation.objects import FAMILIES, Kind, metadata_rules
from etcompile.k8s.validation.rule import Rule

_CUSTOM = Kind(
    ("monitoring.example.com/v1/Gauge",),
    "{apiVersion: monitoring.example.com/v1, kind: Gauge, metadata: {name: a}}",
)


class Row(Struct, frozen=True):
    """A rule of a kind with its two examples as whole objects."""

    kind: str
    rule: Rule
    broken: dict[str, Any]
    corrected: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.kind.rpartition('/')[2]}:{self.rule.path}:{self.rule.message[:24]}"


class _Loader(yaml.SafeLoader):
    """YAML with `!repeat [text, count]` for texts that are too long to be written down."""


def _repeated(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> str:
    text, count = loader.construct_sequence(node)
    return text * count


_Loader.add_constructor("!repeat", _repeated)


def read(text: str) -> Any:
    """A value in the YAML of the tables."""
    return yaml.load(text, _Loader)


def kinds() -> Iterator[Kind]:
    """All kinds that have a table."""
    for family in FAMILIES:
        yield from importlib.import_module(f"etcompile.k8s.validation.objects.{family}").KINDS


def rows() -> Iterator[Row]:
    """All rows: those of each kind, and those of metadata for one kind of each form."""
    seen: set[str] = set()
    for kind in (*kinds(), _CUSTOM):
        rules = list(kind.rules)
        if kind.form not in seen or kind is _CUSTOM:
            seen.add(kind.form)
            rules += metadata_rules(kind.form, namespaced=True)
        for rule in rules:
            yield Row(
                kind.names[0], rule, _set(kind, rule, rule.breaks), _set(kind, rule, rule.takes)
            )


def _set(kind: Kind, rule: Rule, text: str) -> dict[str, Any]:
    """The example of a kind with a value at the place of a rule."""
    fitting = [place for place in kind.examples if rule.path.startswith(place)]
    example = kind.examples[max(fitting, key=len)] if fitting else kind.example
    made, value = read(example), read(text)
    if not rule.path:
        return {**made, **value}
    box: Any = {"": made}
    key: Any = ""
    at = ""
    for step in _STEP.findall(rule.path):
        inner = box.get(key) if isinstance(box, dict) else (box or [None])[0]
        if not isinstance(inner, list if step == "[*]" else dict):
            part = next((one for end, one in _PARTS.items() if at.endswith(end)), None)
            inner = read(part) if part else [] if step == "[*]" else {}
            _put(box, key, inner)
        at = f"{at}{step}" if step == "[*]" or not at else f"{at}.{step}"
        box, key = inner, 0 if step == "[*]" else step.strip("()").split("|")[0]
    _put(box, key, copy.deepcopy(value))
    return made


def _put(box: Any, key: Any, value: Any) -> None:
    if isinstance(box, list) and not box:
        box.append(value)
    else:
        box[key] = value


_STEP = re.compile(r"\[\*\]|\([^)]*\)|[^.\[(]+")
_PARTS = {"matchExpressions[*]": "{key: a, operator: Exists}"}
