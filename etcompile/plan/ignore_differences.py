"""Rules that leave differences alone, in the form of Argo CD's `ignoreDifferences`.

Another controller may manage a field that the files name too: an autoscaler, an injector, a person.
The API server's dry run shows such a field as a difference, because it would be changed. A rule
here says that it stays as it is: what is sent has the live value there.
"""

import fnmatch
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import ValuePath
from etcompile.k8s import listkeys
from etcompile.k8s.managedfields import Fields, Ownership
from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath
from etcompile.plan.field_values import ABSENT, changed_at, value_at
from etcompile.plan.step import ObjectRef

KIND = "IgnoreDifferences"
"""The kind of a document that holds rules and nothing else."""
_KNOWN = frozenset(
    {"group", "kind", "name", "namespace", "jsonPointers", "jqPathExpressions"}
    | {"managedFieldsManagers"}
)
_WORDS = ("group", "kind", "name", "namespace")
_LISTS = ("jsonPointers", "jqPathExpressions", "managedFieldsManagers")
_STEP = re.compile(
    r"""\s*(?:
      \.?\["(?P<key>(?:[^"\\]|\\.)*)"\]
    | \."(?P<quoted>(?:[^"\\]|\\.)*)"
    | \.?\[(?P<index>\d+)\]
    | \.?(?P<each>\[\])
    | \.(?P<name>[A-Za-z_][\w-]*)
    | \|\s*select\(\s*\.(?P<field>[A-Za-z_]\w*)\s*==\s*"(?P<wanted>[^"]*)"\s*\)
    | \|\s*(?=\.)
    )""",
    re.VERBOSE,
)

Step = tuple[str, str, str]
"""What a step of an expression is, and its words: `("key", "spec", "")`, `("each", "", "")`,
`("index", "0", "")`, `("select", "name", "main")`."""


class IgnoreError(Exception):
    """A rule cannot be read; `path` is its place in the value."""

    def __init__(self, path: ValuePath, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


class Ignored(Struct, frozen=True):
    """A rule: of which objects which fields stay as they are.

    Args:
        group: A glob, as are kind, name and namespace; empty names and namespaces are any.
        expressions: Paths of fields.
        managers: Field managers, all of whose fields stay.
    """

    group: str
    kind: str
    name: str = ""
    namespace: str = ""
    expressions: tuple[tuple[Step, ...], ...] = ()
    managers: frozenset[str] = frozenset()

    def is_about(self, ref: ObjectRef) -> bool:
        """Whether it is about an object."""
        patterns = (self.group, self.kind, self.name or "*", self.namespace or "*")
        words = (ref.group, ref.kind, ref.name, ref.namespace)
        return all(map(fnmatch.fnmatchcase, words, patterns))


def ignored(value: Mapping[str, Any]) -> tuple[Ignored, ...]:
    """The rules of a document of our kind, or of an Argo CD Application.

    Raises:
        IgnoreError: it is no such document, or a rule in it cannot be read.
    """
    path: ValuePath = ("ignoreDifferences",)
    rules = value.get("ignoreDifferences")
    if value.get("kind") == "Application":
        path = ("spec", *path)
        rules = (value.get("spec") or {}).get("ignoreDifferences") or []
    elif value.get("kind") != KIND:
        raise IgnoreError((), f"a document of the kind {KIND} or Application is expected")
    if not isinstance(rules, list):
        raise IgnoreError(path[:-1], "the list ignoreDifferences is missing")
    return tuple(_rule(rule, (*path, number)) for number, rule in enumerate(rules))


def as_live(
    desired: Object, live: Object, ref: ObjectRef, rules: Sequence[Ignored], owned: Ownership
) -> Object:
    """The desired object with the live values of fields that stay as they are.

    This is the desired object itself if no rule is about it. `owned` says who owns the live one's
    fields.
    """
    paths: dict[KeyedPath, None] = {}
    for rule in rules:
        if not rule.is_about(ref):
            continue
        for expression in rule.expressions:
            paths |= dict.fromkeys(_paths(expression, live))
            paths |= dict.fromkeys(_paths(expression, desired))
        for manager, fields in owned.others:
            if manager in rule.managers:
                paths |= dict.fromkeys(_leaves(fields))
    for path in paths:
        present, wanted = value_at(live, path), value_at(desired, path)
        if wanted is ABSENT and not _owns(owned.ours, path):
            continue
        if present is not ABSENT or value_at(live, path[:-1]) is not ABSENT:
            desired = changed_at(desired, path, present)
    return desired


def _rule(value: Any, path: ValuePath) -> Ignored:
    if not isinstance(value, Mapping):
        raise IgnoreError(path, "a rule is a mapping with kind and the fields that are ignored")
    for key in value:
        if key not in _KNOWN:
            raise IgnoreError((*path, key), f"a rule has no field {key}")
    for key in _WORDS:
        if not isinstance(value.get(key, ""), str):
            raise IgnoreError((*path, key), f"{key} is a text")
    if not value.get("kind"):
        raise IgnoreError(path, "kind is missing")
    texts: dict[str, list[str]] = {}
    for key in _LISTS:
        items = value.get(key, [])
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise IgnoreError((*path, key), f"{key} is a list of texts")
        texts[key] = items
    if not any(texts.values()):
        raise IgnoreError(path, f"a rule needs one of {', '.join(_LISTS)}")
    expressions = []
    for number, text in enumerate(texts["jsonPointers"]):  # RFC 6901
        if not text.startswith("/") or text == "/":
            problem = f"{text!r} is no JSON pointer: it begins with / and names a field"
            raise IgnoreError((*path, "jsonPointers", number), problem)
        names = [name.replace("~1", "/").replace("~0", "~") for name in text[1:].split("/")]
        expressions.append(
            tuple(("index" if name.isdigit() else "key", name, "") for name in names)
        )
    for number, text in enumerate(texts["jqPathExpressions"]):
        expressions.append(_expression(text, (*path, "jqPathExpressions", number)))
    words = {key: value.get(key, "") for key in _WORDS}
    managers = frozenset(texts["managedFieldsManagers"])
    return Ignored(**words, expressions=tuple(expressions), managers=managers)


def _expression(text: str, path: ValuePath) -> tuple[Step, ...]:
    """A path of jq in steps; what computes or searches is not understood."""
    steps: list[Step] = []
    at = 0
    while at < len(text.rstrip()):
        match = _STEP.match(text, at)
        if match is None or match.end() == at:
            words = (
                'paths such as .spec.containers[] | select(.name == "main").image are understood'
            )
            raise IgnoreError(path, f"{text[at:]!r} is not understood; {words}")
        at = match.end()
        if (key := match["key"] if match["key"] is not None else match["quoted"]) is not None:
            steps.append(("key", json.loads(f'"{key}"'), ""))
        elif match["index"] is not None:
            steps.append(("index", match["index"], ""))
        elif match["each"]:
            steps.append(("each", "", ""))
        elif match["name"] is not None:
            steps.append(("key", match["name"], ""))
        elif match["field"] is not None:
            steps.append(("select", match["field"], match["wanted"]))
    if not steps or steps[0][0] != "key":
        raise IgnoreError(path, f"{text!r} names no field")
    return tuple(steps)


def _paths(expression: Sequence[Step], value: Any, path: KeyedPath = ()) -> Iterator[KeyedPath]:
    """The fields of an object that an expression leads to."""
    if not expression:
        yield path
        return
    (what, word, wanted), rest = expression[0], expression[1:]
    if what == "select":
        if isinstance(value, Mapping) and value.get(word) == wanted:
            yield from _paths(rest, value, path)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            if what == "each" or (what == "index" and word == str(number)):
                names = listkeys.keys(path, value)
                key = listkeys.key(item, names) if names and isinstance(item, Mapping) else None
                step = listkeys.label(key) if key else f"[{number}]"
                yield from _paths(rest, item, (*path, step))
    elif isinstance(value, Mapping) and what in ("key", "index"):
        if word in value:
            yield from _paths(rest, value[word], (*path, word))
        elif not rest:
            yield (*path, word)
    elif isinstance(value, Mapping):
        for key, field in value.items():
            yield from _paths(rest, field, (*path, key))


def _leaves(fields: Fields, path: KeyedPath = ()) -> Iterator[KeyedPath]:
    """The fields that a set of fields owns."""
    inner = {
        name: below for name, below in fields.items() if name != "." and not name.startswith("v:")
    }
    if not inner and path:
        yield path
    for name, below in inner.items():
        yield from _leaves(below, (*path, _step_of(name)))


def _owns(fields: Fields | None, path: KeyedPath) -> bool:
    """Whether a set of fields has a field, or all that is around it."""
    for step in path:
        if fields is None:
            return False
        if not fields:
            return True
        own = (
            below
            for name, below in fields.items()
            if name[:2] in ("f:", "k:") and _step_of(name) == step
        )
        fields = next(own, None)
    return fields is not None


def _step_of(name: str) -> str:
    """A name in a set of fields, `f:image` or `k:{"name":"main"}`, as a step of a path."""
    return listkeys.label(json.loads(name[2:])) if name.startswith("k:") else name[2:]
