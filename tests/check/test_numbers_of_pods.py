"""A number in a document is cheap to write: none of them makes etcompile take all memory."""

import copy
import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import etcompile
from etcompile import Options, frontends
from etcompile.check.json_schemas import bundled_schema
from etcompile.frontends import Kind
from etcompile.load import parse

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MANY = 2**31 - 1
NOT_OURS = frozenset({"metadata", "status", "template"})
KINDS = pytest.mark.parametrize(
    "kind", frontends.kinds(), ids=lambda kind: f"{kind.api_version}-{kind.name}"
)


@KINDS
def test_each_number_of_pods_has_a_bound(kind: Kind) -> None:
    others, document = an_example(kind)
    named = [*kind.counts_of(document)]
    assert named
    for path in named:
        inputs = [*others, with_number(document, path)]
        assert not etcompile.compile(inputs, Options(default_namespace="ml")).ok, path


@KINDS
def test_no_number_of_a_kind_takes_all_memory(kind: Kind) -> None:
    others, document = an_example(kind)
    paths = [*numbers(bundled_schema(kind.schema), document)]
    assert paths
    inputs = [[*others, with_number(document, path)] for path in paths]
    done = subprocess.run(
        [sys.executable, "-c", IN_LITTLE_MEMORY],
        input=json.dumps(inputs),
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    too_many = [paths[place] for place in json.loads(done.stdout)]
    assert too_many == [], "name them in the kind's pod_counts, if they are numbers of Pods"


IN_LITTLE_MEMORY = """
import json, resource, sys
import etcompile
from etcompile import Options

resource.setrlimit(resource.RLIMIT_AS, (2 * 1024**3,) * 2)
failed = []
for place, documents in enumerate(json.load(sys.stdin)):
    try:
        etcompile.compile(documents, Options(default_namespace="ml"))
    except MemoryError:
        failed.append(place)
print(json.dumps(failed))
"""


@functools.cache
def folders() -> tuple[tuple[Any, ...], ...]:
    """The documents of each example that has jobs and intents of ours."""
    return tuple(
        tuple(
            document.data
            for file in sorted(folder.glob("*.yaml"))
            for document in parse(file.read_text()).documents
            if frontends.find(document.api_version, document.kind)
        )
        for folder in sorted(EXAMPLES.glob("*/*"))
        if folder.is_dir()
    )


def an_example(kind: Kind) -> tuple[list[Any], Any]:
    """A document of a kind, after those that are in its folder with it."""
    for documents in folders():
        for document in documents:
            if (document["apiVersion"], document["kind"]) == (kind.api_version, kind.name):
                return [other for other in documents if other is not document], document
    raise AssertionError(f"no example has a {kind.name} of {kind.api_version}")


def with_number(document: Any, path: tuple[Any, ...]) -> Any:
    changed = copy.deepcopy(document)
    inside = changed
    for step in path[:-1]:
        inside = inside[step] if isinstance(inside, list) else inside.setdefault(step, {})
    inside[path[-1]] = MANY
    return changed


def numbers(schema: Mapping[str, Any], document: Any) -> Iterator[tuple[Any, ...]]:
    """The paths of all numbers that a schema knows, in the mappings and lists of a document."""

    def below(rule: Any, value: Any, at: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
        while "$ref" in rule:
            rule = schema["$defs"][rule["$ref"].removeprefix("#/$defs/")]
        types = rule.get("type", ())
        if {"integer", "number"} & {types} if isinstance(types, str) else {"integer"} & {*types}:
            yield at
        for name, inner in rule.get("properties", {}).items():
            if name not in NOT_OURS:
                there = value.get(name, {}) if isinstance(value, dict) else {}
                yield from below(inner, there, (*at, name))
        if isinstance(each := rule.get("additionalProperties"), dict) and isinstance(value, dict):
            for key in value.keys() - rule.get("properties", {}).keys():
                yield from below(each, value[key], (*at, key))
        if isinstance(item := rule.get("items"), dict) and isinstance(value, list) and value:
            yield from below(item, value[0], (*at, 0))
        for name in ("allOf", "anyOf", "oneOf"):
            for other in rule.get(name, ()):
                yield from below(other, value, at)

    return iter(dict.fromkeys(below(schema, document, ())))
