"""Leave differences alone by rules in the form of Argo CD's `ignoreDifferences`.

Another controller may manage a field that the files name too: an autoscaler, an injector, a person.
What is sent has the live value there.
"""

import fnmatch
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from etcompile.diagnostics import ValuePath
from etcompile.k8s import listkeys
from etcompile.k8s.listkeys import ABSENT, changed_at, value_at
from etcompile.k8s.managedfields import Fields, Ownership
from etcompile.k8s.objects import Object
from etcompile.k8s.path import KeyedPath, misfit, overlap
from etcompile.plan.step import ObjectRef

KIND = "IgnoreDifferences"
"""The kind of a document that holds rules and nothing else."""
_STEP = re.compile(
    r"""\s*(?:
      \.?\["(?P<key>[^"\\]+)"\]
    | \.?\[(?P<item>\d*)\]
    | \.(?P<name>[A-Za-z_][\w-]*)
    | \|\s*select\(\s*\.(?P<field>\w+)\s*==\s*"(?P<selected>[^"\\]*)"\s*\)
    | \|\s*(?=\.)
    )\s*""",
    re.VERBOSE,
)

_Steps = tuple[tuple[str, str, str], ...]
"""The steps of an expression: `("name", "", "spec")`, `("item", "", "0")`, `("item", "", "")` for
each item, `("selected", "name", "main")`."""


class IgnoreError(Exception):
    """A rule cannot be read; `path` is its place in the value."""

    def __init__(self, path: ValuePath, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.problem = problem


class Ignored(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A rule: of which objects which fields stay as they are.

    Args:
        group: A glob, as are kind, name and namespace; empty names and namespaces are any.
        managed_fields_managers: Field managers, all of whose fields stay.
    """

    kind: Annotated[str, Meta(min_length=1)]
    group: str = ""
    name: str = ""
    namespace: str = ""
    json_pointers: tuple[str, ...] = ()
    jq_path_expressions: tuple[str, ...] = ()
    managed_fields_managers: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not (self.expressions or self.managed_fields_managers):
            fields = "jsonPointers, jqPathExpressions, managedFieldsManagers"
            raise ValueError(f"a rule needs one of {fields}")

    @property
    def expressions(self) -> list[_Steps]:
        return [*map(_pointer, self.json_pointers), *map(_expression, self.jq_path_expressions)]

    def is_about(self, ref: ObjectRef) -> bool:
        patterns = (self.group, self.kind, self.name or "*", self.namespace or "*")
        words = (ref.group, ref.kind, ref.name, ref.namespace)
        return all(map(fnmatch.fnmatchcase, words, patterns))


def ignored(value: Mapping[str, Any]) -> tuple[Ignored, ...]:
    """Return the rules of a document of our kind, or of an Argo CD Application.

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
    try:
        return msgspec.convert(rules, tuple[Ignored, ...])
    except msgspec.ValidationError as error:
        problem, place = misfit(error)
        raise IgnoreError((*path, *place), problem) from None


def as_live(
    desired: Object, live: Object, ref: ObjectRef, rules: Sequence[Ignored], owned: Ownership
) -> Object:
    """Return the desired object with the live values of fields that stay as they are.

    It is the desired object itself if no rule is about it.
    """
    paths: dict[KeyedPath, None] = {}
    for rule in rules:
        if not rule.is_about(ref):
            continue
        for expression in rule.expressions:
            paths |= dict.fromkeys(_paths(expression, live))
            paths |= dict.fromkeys(_paths(expression, desired))
        for manager, fields in owned.others:
            if manager in rule.managed_fields_managers:
                paths |= dict.fromkeys(_leaves(fields))
    for path in paths:
        present, wanted = value_at(live, path), value_at(desired, path)
        if wanted is ABSENT and not any(overlap(path, leaf) for leaf in _leaves(owned.ours or {})):
            continue
        if present is not ABSENT or value_at(live, path[:-1]) is not ABSENT:
            desired = changed_at(desired, path, present)
    return desired


@functools.cache
def _pointer(text: str) -> _Steps:
    if not text.startswith("/") or text == "/":
        raise ValueError(f"{text!r} is no JSON pointer: it begins with / and names a field")
    names = (name.replace("~1", "/").replace("~0", "~") for name in text[1:].split("/"))
    return tuple(("name", "", name) for name in names)


@functools.cache
def _expression(text: str) -> _Steps:
    """Return the steps of a path of jq, without what computes or searches."""
    steps: list[tuple[str, str, str]] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            form = '.spec.containers[] | select(.name == "main").image'
            raise ValueError(f"{text[at:]!r} is not understood; paths such as {form} are")
        at = match.end()
        if match.lastgroup:
            steps.append((match.lastgroup, match["field"] or "", match[match.lastgroup]))
    if not steps or steps[0][0] not in ("name", "key"):
        raise ValueError(f"{text!r} names no field")
    return tuple(steps)


def _paths(steps: _Steps, value: Any, path: KeyedPath = ()) -> Iterator[KeyedPath]:
    if not steps:
        yield path
        return
    (what, field, word), rest = steps[0], steps[1:]
    if what == "selected":
        if isinstance(value, Mapping) and value.get(field) == word:
            yield from _paths(rest, value, path)
    elif isinstance(value, list):
        names = listkeys.keys(path, value)
        for number, item in enumerate(value):
            if word == str(number) or (what == "item" and not word):
                step = listkeys.step(item, names) if names and isinstance(item, Mapping) else None
                yield from _paths(rest, item, (*path, step or f"[{number}]"))
    elif isinstance(value, Mapping) and what != "item":
        if word in value:
            yield from _paths(rest, value[word], (*path, word))
        elif not rest:
            yield (*path, word)


def _leaves(fields: Fields, path: KeyedPath = ()) -> Iterator[KeyedPath]:
    if path and not any(name[:2] in ("f:", "k:") for name in fields):
        yield path
    for name, below in fields.items():
        if name[:2] in ("f:", "k:"):
            is_item = name.startswith("k:")
            step = listkeys.label(listkeys.owned_key(name)) if is_item else name[2:]
            yield from _leaves(below, (*path, step))
