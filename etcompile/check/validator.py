"""A JSON Schema to hold values against, compiled no further than the values need.

Compiling all of a Pod template's schema takes twenty times as long as reading a job does, and a
job uses a twentieth of it. So the first values are held against the rules of their own fields;
only a run of many jobs, or a fault to explain, compiles the whole.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jsonschema_rs

from etcompile.check.bundled import needed

_FEW = 8
"""Values that are held against the rules of their own fields, before the whole is compiled."""
_SMALL = 2_000
"""Values within a value: finding the rules of more takes longer than compiling all."""
_DEFINITION = "#/$defs/"


class Validator:
    """A schema (draft 2020-12) that stands alone: its references lead to its own `$defs`.

    Args:
        rules: The schema; not to be changed afterwards.
    """

    def __init__(self, rules: dict[str, Any]) -> None:
        self.rules = rules
        self._asked = 0

    @functools.cached_property
    def whole(self) -> jsonschema_rs.Validator:
        """The schema, compiled.

        Raises:
            ValueError: it is not a JSON Schema.
        """
        return jsonschema_rs.Draft202012Validator(self.rules)

    def is_valid(self, value: object) -> bool:
        """Whether a JSON value is as the schema wants it.

        Raises:
            ValueError: what the value needs of the schema is not a JSON Schema.
        """
        self._asked += 1
        part = part_for(value, self.rules) if self._asked <= _FEW else None
        compiled = self.whole if part is None else jsonschema_rs.Draft202012Validator(part)
        return compiled.is_valid(value)


def part_for(value: object, rules: Mapping[str, Any]) -> dict[str, Any] | None:
    """The part of a schema that decides about a value.

    Fields that the value does not have are left out, and what is needed of a definition stands
    in place of the reference to it. Every other keyword stays as it is, with the definitions
    that it refers to.

    Args:
        value: A JSON value.
        rules: The schema; its references lead to its own `$defs`.

    Returns:
        A schema that finds the value valid if, and only if, the whole one does; it says nothing
        about other values. None for a value so large that all of the schema is found sooner.
    """
    definitions = rules.get("$defs", {})
    cut = _Cut(definitions)
    part = cut.part([value], {key: rule for key, rule in rules.items() if key != "$defs"})
    if cut.seen > _SMALL:
        return None
    return {**part, "$defs": {name: definitions[name] for name in needed(part, definitions)}}


class _Cut:
    """What is taken over from a schema.

    Args:
        definitions: Those of the schema.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        self.seen = 0

    def part(self, values: Sequence[object], rules: Any) -> dict[str, Any]:
        """What decides about values at the same place, such as the items of a list.

        Args:
            values: JSON values that stand at that place.
            rules: What the schema says of that place: keywords, or true or false.
        """
        part: dict[str, Any] = {}
        self.seen += len(values)
        if not values or self.seen > _SMALL or rules is True:
            return part
        if rules is False:
            return {"not": {}}
        for keyword, wanted in rules.items():
            if keyword == "properties":
                part[keyword] = {
                    field: self.part(of_field, wanted[field])
                    for field, of_field in _by_field(values).items()
                    if field in wanted
                }
            elif keyword == "items" and isinstance(wanted, dict):
                items = [item for value in values if isinstance(value, list) for item in value]
                part[keyword] = self.part(items, wanted)
            elif keyword == "additionalProperties" and isinstance(wanted, dict):
                known = rules.get("properties", ())
                fields = _by_field(values).items()
                others = [item for field, here in fields if field not in known for item in here]
                part[keyword] = self.part(others, wanted)
            elif keyword == "$ref" and wanted.startswith(_DEFINITION):
                meant = self._definitions[wanted.removeprefix(_DEFINITION)]
                part["allOf"] = [*part.get("allOf", ()), self.part(values, meant)]
            else:
                part[keyword] = [*part.get(keyword, ()), *wanted] if keyword == "allOf" else wanted
        return part


def _by_field(values: Iterable[object]) -> dict[str, list[object]]:
    """What stands under each field of the mappings among values."""
    found: dict[str, list[object]] = {}
    for value in values:
        if isinstance(value, dict):
            for field, item in value.items():
                found.setdefault(field, []).append(item)
    return found
