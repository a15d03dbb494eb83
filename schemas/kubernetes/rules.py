"""Turns the rules of `rules.yaml` into `rules.json`, which etcompile reads in a millisecond.

Groups are put where they are used, `(a|b)` becomes two paths, and what a demand says by default is
written out. A table is a tree of fields, so that whoever walks over a value meets only its rules.

    python schemas/kubernetes/rules.py
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

Row = dict[str, Any]

_FOLDER = Path(__file__).parent
_DEMANDS = frozenset(
    {"at_most_one", "check", "empty", "exactly_one", "form", "length", "needs", "none_of"}
    | {"one_of", "range", "refused", "unique"}
)
_STEP = re.compile(r"\[\*\]|\{key\}|\{\*\}|[^.\[{]+")
_EITHER = re.compile(r"\(([^()]*)\)")


class _Loader(yaml.SafeLoader):
    """YAML with `!repeat [value, count]` for texts and lists too long to be written down."""


def _repeated(loader: yaml.SafeLoader, node: yaml.SequenceNode) -> Any:
    value, count = loader.construct_sequence(node, deep=True)
    return value * count


_Loader.add_constructor("!repeat", _repeated)


def document() -> dict[str, Any]:
    """Read `rules.yaml`."""
    with (_FOLDER / "rules.yaml").open(encoding="utf-8") as file:
        return yaml.load(file, _Loader)


def rows(source: Mapping[str, Any], kind: str) -> Iterator[Row]:
    """Yield the rows of a kind and of the groups that it uses, each with its message."""
    for row in source["kinds"][kind]["rules"]:
        yield from _expanded(source, row)


def _expanded(source: Mapping[str, Any], row: Row) -> Iterator[Row]:
    if "use" not in row:
        yield _with_texts(source["forms"], row)
        return
    for inner in source["groups"][row["use"]]:
        path = f"{row['path']}.{inner['path']}".strip(".")
        since = max(row.get("since", 0), inner.get("since", 0))
        yield from _expanded(source, {**inner, "path": path, "since": since})


def _with_texts(forms: Mapping[str, Any], row: Row) -> Row:
    (demand,) = _DEMANDS & row.keys()
    value = row[demand]
    texts = {"message": "", "hint": ""}
    match demand:
        case "form":
            form = forms[value.removesuffix(" or empty").removeprefix("prefix of ")]
            texts = {"message": f"'{{value}}' is not {form['is']}", "hint": form.get("hint", "")}
        case "one_of":
            *most, last = (str(choice) for choice in value if choice != "")
            choices = f"{', '.join(most)} or {last}" if most else last
            texts["message"] = f"must be {choices}, not '{{value}}'"
        case "range" if value[1] is None:
            texts["message"] = f"must be at least {value[0]}, not {{value}}"
        case "range":
            texts["message"] = f"must be between {value[0]} and {value[1]}, not {{value}}"
        case "needs" if len(value) == 1:
            texts["message"] = f"needs '{value[0]}'"
        case "needs":
            texts["message"] = f"needs one of {', '.join(value)}"
    row = {**texts, **row}
    if not row["message"]:
        raise ValueError(f"{row['path']}: {demand} needs a message")
    return row


def alternatives(path: str) -> Iterator[str]:
    """Yield the paths that a path with `(a|b)` stands for."""
    found = _EITHER.search(path)
    if found is None:
        yield path
        return
    for choice in found[1].split("|"):
        yield from alternatives(path[: found.start()] + choice + path[found.end() :])


def steps(path: str) -> list[str]:
    """Split a path into steps: `["containers", "[*]", "name"]`."""
    return _STEP.findall(path)


def _rule(forms: Mapping[str, Any], row: Row) -> Row:
    """Return a row as etcompile reads it, without its place and its examples."""
    (demand,) = _DEMANDS & row.keys()
    value = row[demand]
    if demand == "form" and "pattern" in (form := forms.get(value.removesuffix(" or empty"), {})):
        demand = "pattern"
        value = f"(?:{form['pattern']})?" if value.endswith(" or empty") else form["pattern"]
    rule = {"demand": demand, "of": value, "message": row["message"], "hint": row["hint"]}
    rule |= {key: row[key] for key in ("since", "until", "pods_only", "show_key") if row.get(key)}
    if "field" in row:
        rule["fields"] = [steps(path) for path in alternatives(row["field"])]
    conditions = []
    for path, values in row.get("when", {}).items():
        negated = isinstance(values, dict)
        conditions.append([path.split("."), not negated, values["not"] if negated else values])
    if conditions:
        rule["when"] = conditions
    return rule


def compiled() -> str:
    """Return the text of `rules.json`."""
    source = document()
    rules: dict[str, int] = {}
    kinds = {}
    for kind in source["kinds"]:
        tree: dict[str, Any] = {}
        for row in rows(source, kind):
            text = json.dumps(_rule(source["forms"], row), ensure_ascii=False)
            number = rules.setdefault(text, len(rules))
            for path in alternatives(row["path"]):
                place = tree
                for step in steps(path):
                    if step == "[*]":
                        place = place.setdefault("items", {})
                    else:
                        place = place.setdefault("fields", {}).setdefault(step, {})
                place.setdefault("rules", []).append(number)
        kinds[kind] = tree
    lines = ",\n".join(rules)
    tables = ",\n".join(f"{json.dumps(kind)}: {json.dumps(tree)}" for kind, tree in kinds.items())
    return f'{{"rules": [\n{lines}\n],\n"kinds": {{\n{tables}\n}}}}\n'


def main(arguments: Sequence[str] | None = None) -> int:
    """Write `rules.json`, or exit with 1 if the existing one differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args(arguments)
    path, text = _FOLDER / "rules.json", compiled()
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    if not options.check:
        path.write_text(text, encoding="utf-8", newline="\n")
    return int(options.check)


if __name__ == "__main__":
    sys.exit(main())
