"""Field-by-field differences of two objects, and the list of those that are deliberate.

The list is the table in docs/differences.md: people and this test read the same one.
"""

import fnmatch
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ABSENT = "(absent)"

_KEYS = {"volumeMounts": ("mountPath",), "items": ("path",), "": ("name", "port")}
"""What tells the entries of a list apart, by the list's name: a key that is unique in it."""


@dataclass(frozen=True)
class Difference:
    """One field that upstream and etcompile have differently."""

    kind: str
    path: str
    upstream: str
    ours: str


@dataclass(frozen=True)
class Row:
    """One row of the table: patterns of `fnmatch`, except that brackets mean themselves."""

    kind: str
    path: str
    upstream: str
    ours: str
    why: str

    def lists(self, difference: Difference) -> bool:
        return (
            _matches(difference.kind, self.kind)
            and _matches(difference.path, self.path)
            and _value_matches(difference.upstream, self.upstream)
            and _value_matches(difference.ours, self.ours)
        )


def rows(document: Path, heading: str = "et-operator") -> list[Row]:
    text = document.read_text("utf-8")
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    listed_rows = []
    for line in section.splitlines():
        cells = [c.strip() for c in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if len(cells) == 5 and not set(cells[0]) <= set("-: ") and cells[0] != "kind":
            listed_rows.append(Row(*(c.strip("`").replace("\\|", "|") for c in cells)))
    return listed_rows


def compare(kind: str, upstream: Any, ours: Any, path: str = "") -> Iterator[Difference]:
    """Where two JSON values differ; lists of named entries are compared entry by entry."""
    if isinstance(upstream, dict) and isinstance(ours, dict):
        for key in [*upstream, *(k for k in ours if k not in upstream)]:
            step = f"[{key}]" if _is_map(path) else f".{key}"
            yield from compare(
                kind, upstream.get(key, ABSENT), ours.get(key, ABSENT), f"{path}{step}".strip(".")
            )
    elif (
        isinstance(upstream, list)
        and isinstance(ours, list)
        and (key := _key(path, upstream, ours))
    ):
        mine, theirs = _by(key, ours), _by(key, upstream)
        for name in [*theirs, *(n for n in mine if n not in theirs)]:
            yield from compare(
                kind, theirs.get(name, ABSENT), mine.get(name, ABSENT), f"{path}[{name}]"
            )
        both = [n for n in theirs if n in mine], [n for n in mine if n in theirs]
        if both[0] != both[1]:
            yield Difference(kind, f"{path} (order)", *(_text(names) for names in both))
    elif upstream != ours:
        yield Difference(kind, path, _text(upstream), _text(ours))


def _is_map(path: str) -> bool:
    return path.rpartition(".")[2] in ("labels", "annotations", "data", "limits", "requests")


def _key(path: str, *lists: list[Any]) -> str | None:
    entries = [entry for one in lists for entry in one]
    for key in _KEYS.get(path.rpartition(".")[2], _KEYS[""]):
        named = entries and all(isinstance(e, dict) and key in e for e in entries)
        if named and all(len({str(e[key]) for e in one}) == len(one) for one in lists):
            return key
    return None


def _by(key: str, entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {str(entry[key]): entry for entry in entries}


def _text(value: object) -> str:
    return value if value == ABSENT else json.dumps(value, sort_keys=True)


def _matches(text: str, pattern: str) -> bool:
    literal = re.sub(r"[\[\]]", lambda bracket: f"[{bracket[0]}]", pattern)
    return fnmatch.fnmatchcase(text, literal)


def _value_matches(text: str, cell: str) -> bool:
    """A cell is `(absent)`, `(present)`, a JSON pattern, or words about a value."""
    if cell == ABSENT:
        return text == ABSENT
    if cell == "(present)":
        return text != ABSENT
    if cell[:1] in '"[{' or cell in ("true", "false") or cell.isdigit():
        return _matches(text, cell)
    return text != ABSENT
