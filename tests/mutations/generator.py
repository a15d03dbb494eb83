"""One to three changes of an accepted input, the same for the same seed.

Apart from the corpus and the values so that what a change is can be read in one place.
"""

import copy
import random
from collections.abc import Iterator
from typing import Any

from mutations import corpus, values

_TEMPLATE = {"$ref": "#/$defs/core.v1.PodTemplateSpec"}
_METADATA = {"$ref": "#/$defs/meta.v1.ObjectMeta"}

Place = tuple[Any, Any, dict[str, Any] | None]
"""A mapping or list, a key of it, and the schema of what is there, if that is known."""


class Generator:
    """Makes mutated inputs.

    Args:
        seed: Two generators of one seed make the same inputs.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._inputs = corpus.inputs()

    def input(self, number: int) -> corpus.Documents:
        """The mutated input of a number, whatever was made before."""
        rng = random.Random(f"{self._seed}-{number}")
        documents = copy.deepcopy(rng.choice(self._inputs))
        for _ in range(rng.choice((1, 1, 2, 3))):
            _mutate(rng, documents)
        return documents


def _mutate(rng: random.Random, documents: corpus.Documents) -> None:
    document = rng.choice(documents)
    places = list(_places(document))
    if not places:
        return
    if rng.random() < 0.5 and (inner := [one for one in places if one[2] is not None]):
        places = inner
    seen = [box[key] for box, key, _ in places if isinstance(box[key], str | int)]
    mutation = rng.choices(
        (_replace, _remove, _repeat, _move, _add, _misspell, _retype), (35, 10, 6, 4, 35, 2, 8)
    )[0]
    mutation(rng, places, seen)


def _places(document: dict[str, Any]) -> Iterator[Place]:
    kind = values.schemas()[0].get(f"{document.get('apiVersion')}/{document.get('kind')}")
    schema = {"$ref": f"#/$defs/{kind}"} if kind else None
    yield from _below(document, schema)


def _below(box: Any, schema: dict[str, Any] | None) -> Iterator[Place]:
    for key in list(box) if isinstance(box, dict) else range(len(box)):
        inner = _schema_of(schema, key)
        if schema is None and key == "metadata":
            inner = _METADATA
        if schema is None and key in ("template", "podTemplate") and isinstance(box[key], dict):
            inner = _TEMPLATE
        yield box, key, inner
        if isinstance(box[key], dict | list):
            yield from _below(box[key], inner)


def _schema_of(schema: dict[str, Any] | None, key: Any) -> dict[str, Any] | None:
    if schema is None:
        return None
    _, schema = values.resolved(schema)
    sub_schema = schema.get("properties", {}).get(key)
    if sub_schema is None:
        sub_schema = (
            schema.get("items") if isinstance(key, int) else schema.get("additionalProperties")
        )
    return sub_schema if isinstance(sub_schema, dict) else None


def _replace(rng: random.Random, places: list[Place], seen: list[Any]) -> None:
    leaves = [one for one in places if not isinstance(one[0][one[1]], dict | list)]
    box, key, schema = rng.choice(leaves if leaves and rng.random() < 0.85 else places)
    field = _field(box, key)
    if schema is not None:
        box[key] = values.value(rng, schema, field, seen, 2)
    else:
        fresh = values.scalar(rng, field, seen)
        # Of the same type, more often than not.
        for _ in range(4):
            if type(fresh) is type(box[key]):
                break
            fresh = values.scalar(rng, field, seen)
        box[key] = fresh


def _field(box: Any, key: Any) -> str:
    return key if isinstance(key, str) else ""


def _remove(rng: random.Random, places: list[Place], _: list[Any]) -> None:
    box, key, _schema = rng.choice(places)
    del box[key]


def _repeat(rng: random.Random, places: list[Place], _: list[Any]) -> None:
    lists = [one for one in places if isinstance(one[0], list)]
    if lists:
        box, key, _schema = rng.choice(lists)
        box.insert(rng.randint(0, len(box)), copy.deepcopy(box[key]))


def _move(rng: random.Random, places: list[Place], _: list[Any]) -> None:
    """A field to where another one stands."""
    box, key, _schema = rng.choice(places)
    target, other, _schema = rng.choice(places)
    if isinstance(box, dict) and isinstance(target, dict) and target is not box:
        target[key] = copy.deepcopy(box[key])
        if rng.random() < 0.5:
            del box[key]
    elif isinstance(box, dict) and isinstance(target, dict):
        box[key], box[other] = box[other], box[key]


def _add(rng: random.Random, places: list[Place], seen: list[Any]) -> None:
    """A field that the schema knows, into an object that lacks it."""
    objects = []
    for box, key, schema in places:
        if schema is None or not isinstance(box[key], dict | list):
            continue
        _, rules = values.resolved(schema)
        objects.append((box[key], rules))
    if not objects:
        return _misspell(rng, places, seen)
    box, rules = rng.choice(objects)
    if isinstance(box, list):
        if isinstance(rules.get("items"), dict):
            box.append(values.value(rng, rules["items"], "", seen, 2))
        return None
    absent = [one for one in rules.get("properties", {}) if one not in box]
    if absent:
        field = rng.choice(absent)
        box[field] = values.value(rng, rules["properties"][field], field, seen, 1)
    elif isinstance(inner := rules.get("additionalProperties"), dict):
        box[str(values.scalar(rng, "key", seen))] = values.value(rng, inner, "", seen, 2)
    return None


def _misspell(rng: random.Random, places: list[Place], _: list[Any]) -> None:
    fields = [one for one in places if isinstance(one[0], dict)]
    if fields:
        box, key, _schema = rng.choice(fields)
        box[f"{key[:-1]}" if rng.random() < 0.5 else f"{key}s"] = box.pop(key)


def _retype(rng: random.Random, places: list[Place], seen: list[Any]) -> None:
    box, key, _schema = rng.choice(places)
    nothing = None if isinstance(box, dict) else ""  # the API server reads null in lists as empty
    box[key] = rng.choice(
        (
            nothing,
            True,
            [],
            {},
            "",
            0,
            1.5,
            [box[key]],
            {"a": box[key]},
            values.scalar(rng, "", seen),
        )
    )
