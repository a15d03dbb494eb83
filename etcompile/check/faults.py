"""Turn errors of a JSON Schema validator into faults in people's words, with fixes.

A validator speaks of keywords and patterns; a user needs to know which field is wrong, what it
should be and what the probable meaning is. The schemas of our kinds and those of Kubernetes share
this and differ in their codes.
"""

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import jsonschema_rs
from msgspec import Struct, structs

from etcompile.check.json_schemas import Validator
from etcompile.diagnostics import Diagnostic, Source, ValuePath
from etcompile.diagnostics.diagnostic import Fix, Quote, Rename, Replace
from etcompile.diagnostics.message_text import cut_value
from etcompile.diagnostics.spelling import bare, closest
from etcompile.k8s import quantity
from etcompile.k8s.objects import without_nulls
from etcompile.k8s.path import dotted, value_at

Problem = Literal["unknown", "missing", "type", "choice", "range", "form", "empty", "other"]

MOST_FAULTS = 200

_Error = jsonschema_rs.ValidationError
_Kind = jsonschema_rs.ValidationErrorKind
_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "null",
}
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})")
_LISTED = 8
"""Fields that a hint lists if none of them resembles the unknown one."""


class Fault(Struct, frozen=True):
    """Something wrong at one place of a value."""

    problem: Problem
    path: ValuePath
    # Values for a message: `where` and `advice` always; `field` if it is unknown or missing;
    # `expected` and `found`; `problem` for any other.
    facts: Mapping[str, str]
    at_key: bool = False
    definition: str | None = None  # the schema's definition that is violated, by its name
    # For an unknown field, the known one it resembles; for a missing one, its alternatives.
    fields: tuple[str, ...] = ()
    options: tuple[Any, ...] = ()

    @property
    def place(self) -> tuple[ValuePath, bool]:
        """Return the path to locate, and whether its key is meant.

        A mapping that lacks a field is shown by its key, where a reader would add the field.
        """
        keyed = self.problem == "missing" and bool(self.path) and isinstance(self.path[-1], str)
        return self.path, self.at_key or keyed

    @property
    def field_path(self) -> ValuePath:
        if self.problem == "missing":
            return (*self.path, self.fields[0] if self.fields else self.facts["field"])
        return self.path


def faults(validator: Validator, value: object, *, root: str, at: ValuePath = ()) -> list[Fault]:
    """Return all faults of a value, in which a field that is null counts as absent.

    Args:
        root: The name of the document itself, such as its kind.
    """
    # What is valid with its nulls is valid without them: no schema has the type null.
    if validator.compiled.is_valid(value):
        return []
    value = without_nulls(value)
    errors = [*itertools.islice(validator.compiled.iter_errors(value), MOST_FAULTS + 1)]
    # A value of the wrong type breaks other rules too; only the type is reported.
    mistyped = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
    view = _View(validator.rules, root, at, value)
    all_faults = [
        fault
        for error in errors
        if error.kind.name == "type" or tuple(error.instance_path) not in mistyped
        for fault in _faults(error, view)
    ]
    # If a number breaks two bounds, the bound of the intended form is the narrower one.
    bounds = {fault.path: fault for fault in all_faults if fault.problem == "range"}
    return without_echoes(
        [fault for fault in all_faults if fault.problem != "range" or bounds[fault.path] is fault]
    )


def without_echoes(all_faults: Sequence[Fault]) -> list[Fault]:
    """Drop faults that repeat another one."""
    # A misspelt field is also missing under its right name; only the misspelling is reported.
    misspelt = {
        (fault.path[:-1], field)
        for fault in all_faults
        if fault.problem == "unknown"
        for field in fault.fields
    }
    return [
        fault
        for fault in all_faults
        if fault.problem != "missing"
        or misspelt.isdisjoint((fault.path, field) for field in fault.fields)
    ]


# One error ------------------------------------------------------------------------------------


class _View(Struct, frozen=True):
    """The context of an error: the schema, and the place of the value in its document."""

    schema: Mapping[str, Any]
    root: str
    at: ValuePath
    value: Any

    def path(self, error: _Error) -> ValuePath:
        """Return the path of the error in the document.

        The validator reports the key '30' of a mapping as a number.
        """
        value, path = self.value, [*self.at]
        for step in error.instance_path:
            if isinstance(value, dict) and isinstance(step, int):
                same = (key for key in value if key.isdecimal() and int(key) == step)
                step = str(step) if str(step) in value else next(same, str(step))  # noqa: PLW2901
            value = value_at(value, (step,))
            path.append(step)
        return tuple(path)

    def rules(self, error: _Error) -> Mapping[str, Any]:
        node: Any = self.schema
        for step in error.schema_path[:-1]:
            node = node[step]
        return node if isinstance(node, Mapping) else {}


def _fault(
    error: _Error,
    view: _View,
    problem: Problem,
    facts: Mapping[str, str],
    *,
    fields: Sequence[str] = (),
    key: str | None = None,
) -> Fault:
    path = view.path(error)
    steps = error.schema_path
    options: Sequence[Any] = ()
    match error.kind:
        case _Kind.Enum(options=several):
            options = several
        case _Kind.Constant(expected_value=only):
            options = [only]
    return Fault(
        problem,
        path if key is None else (*path, key),
        {"where": dotted(path) or view.root, "advice": "", **facts},
        at_key=key is not None,
        definition=str(steps[1]) if len(steps) > 1 and steps[0] == "$defs" else None,
        fields=tuple(fields),
        options=tuple(options),
    )


def _faults(error: _Error, view: _View) -> Iterator[Fault]:
    rules = view.rules(error)
    match error.kind:
        case (
            _Kind.AdditionalProperties(unexpected=names)
            | _Kind.UnevaluatedProperties(unexpected=names)
        ):
            if {"patternProperties", "title"} <= rules.keys():  # labels and annotations
                where = f"key of {dotted(view.path(error)) or view.root}"
                for name in names:
                    facts = {"where": where, "expected": rules["title"], "found": cut_value(name)}
                    yield _fault(error, view, "form", facts, key=name)
                return
            known = list(rules.get("properties", ()))
            for name in names:
                near, advice = "", rules.get("x-elsewhere", {}).get(name, "")
                if not advice and (near := closest(name, known) or ""):
                    advice = f"did you mean '{near}'?"
                elif not advice and known and len(known) <= _LISTED:
                    advice = f"its fields are: {', '.join(known)}"
                facts = {"field": name, "advice": advice}
                fields = [near] if near else []
                yield _fault(error, view, "unknown", facts, fields=fields, key=name)
        case _Kind.AnyOf(context=branches) | _Kind.OneOfNotValid(context=branches):
            yield from _alternatives(error, branches, view)
        case _Kind.Pattern() if error.instance == "" and "minLength" in rules:
            pass  # reported as empty
        case _Kind.Required(property=name):
            field = rules.get("properties", {}).get(name, {})
            examples = field.get("examples", ())
            example = examples[0] if examples else ""
            example = example if isinstance(example, str) else json.dumps(example)
            advice = f"write {name}, for example {name}: {example}" if example else ""
            if name == "name" and value_at(error.instance, ("generateName",)) is not None:
                advice = "write a name: generateName makes another one whenever it is applied"
            elif "const" in field:
                advice = f"write {name}: {json.dumps(field['const'])}"
            yield _fault(error, view, "missing", {"field": name, "advice": advice}, fields=[name])
        case _:
            yield _fault(error, view, *_words(error, rules))


def _words(error: _Error, rules: Mapping[str, Any]) -> tuple[Problem, dict[str, str]]:
    value: Any = error.instance
    unit = "characters" if isinstance(value, str) else "items"
    match error.kind:
        case _Kind.Type(types=types):
            # In quotes it would be a text that is still not allowed.
            text = json.dumps(value) if isinstance(value, bool | int | float) else ""
            if text and "string" in types and text not in rules.get("enum", (text,)):
                return "choice", _choice(rules["enum"], value)
            return "type", _mistyped(types, value)
        case _Kind.Enum(options=options):
            return "choice", _choice(options, value)
        case _Kind.Constant(expected_value=only):
            return "choice", _choice([only], value)
        case _Kind.Minimum(limit=limit):
            return "range", {"expected": f"at least {limit}", "found": _shown(value)}
        case _Kind.Maximum(limit=limit):
            return "range", {"expected": f"at most {limit}", "found": _shown(value)}
        case _Kind.ExclusiveMinimum(limit=limit):
            return "range", {"expected": f"above {limit}", "found": _shown(value)}
        case _Kind.ExclusiveMaximum(limit=limit):
            return "range", {"expected": f"below {limit}", "found": _shown(value)}
        case _Kind.Pattern() | _Kind.MinItems() | _Kind.MinLength() if not value:
            return "empty", {}
        case _Kind.MinProperties() if not value:
            return "empty", {}
        case _Kind.Pattern(pattern=pattern):
            expected = rules.get("title") or f"of the form {pattern}"
            return "form", {"expected": expected, "found": cut_value(str(value))}
        case _Kind.Not() if "title" in rules:
            return "other", {"problem": rules["title"], "advice": rules.get("description", "")}
        case _Kind.MinItems(limit=limit) | _Kind.MinLength(limit=limit):
            problem = f"must have at least {limit} {unit}, not {len(value)}"
        case _Kind.MaxItems(limit=limit) | _Kind.MaxLength(limit=limit):
            problem = f"must have at most {limit} {unit}, not {len(value)}"
        case _Kind.UniqueItems():
            twice = (item for number, item in enumerate(value) if item in value[:number])
            problem = f"lists {_shown(next(twice))} twice"
        case _Kind.OneOfMultipleValid():
            problem = "fits more than one of the allowed forms, and may fit one only"
        case _:
            problem = cut_value(error.message)
    return "other", {"problem": problem}


def _choice(options: Sequence[Any], value: object) -> dict[str, str]:
    # If the empty text is allowed it means absent, which is no useful choice.
    written = [option for option in options if option]
    words = [
        _shown(option)[1:-1] if isinstance(option, str) else _shown(option) for option in written
    ]
    near = closest(value, written) if isinstance(value, str) else None
    return {
        "expected": words[0] if len(words) == 1 else f"one of {', '.join(words)}",
        "found": _shown(value),
        "advice": f"did you mean '{near}'?" if near else "",
    }


def _mistyped(types: Sequence[str], value: object) -> dict[str, str]:
    advice = ""
    numeric = not {"integer", "number"}.isdisjoint(types)
    if isinstance(value, str):
        number = numeric and re.fullmatch(r"-?\d+", value)
        if number or ("boolean" in types and value.lower() in _TRUE | _FALSE):
            advice = f"remove the quotes: {value}"
    elif "string" in types and not numeric and isinstance(value, bool | int | float):
        advice = "put it in quotes"
    if not advice and list(types) == ["array"]:
        advice = "write a list: each item on its own line, after '- '"
    elif list(types) == ["object"] and isinstance(value, list):
        advice = "remove the '- '"
    shown = f"the text {_shown(value)}" if isinstance(value, str) else _shown(value)
    expected = " or ".join(_TYPES[name] for name in types)
    return {"expected": expected, "found": shown, "advice": advice}


def _alternatives(
    error: _Error, branches: Sequence[Sequence[_Error]], view: _View
) -> Iterator[Fault]:
    rules = view.rules(error)
    choices = rules.get("anyOf") or rules.get("oneOf") or ()
    # A form whose type or fields are absent is not the intended one.
    meant = [
        errors
        for errors in branches
        if not any(
            inner.kind.name in ("type", "required") and inner.instance_path == error.instance_path
            for inner in errors
        )
    ]
    inner_errors = [inner for errors in branches for inner in errors]
    if meant:
        for inner in min(meant, key=len):
            yield from _faults(inner, view)
    elif all("required" in choice for choice in choices):
        required = [choice["required"] for choice in choices]
        words = "' or '".join(" and ".join(names) for names in required)
        alone = [names[0] for names in required if len(names) == 1]
        yield _fault(error, view, "missing", {"field": words}, fields=alone)
    elif all(inner.kind.name == "type" for inner in inner_errors):
        types: list[str] = []
        for inner in inner_errors:
            types += inner.kind.types if isinstance(inner.kind, _Kind.Type) else ()
        yield _fault(error, view, "type", _mistyped(types, error.instance))
    else:
        yield _fault(error, view, "other", {"problem": "fits none of the allowed forms"})


def _shown(value: object) -> str:
    match value:
        case str():
            return f"'{cut_value(value)}'"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case _:
            return json.dumps(value)


# Corrections ----------------------------------------------------------------------------------


def with_fix(diagnostic: Diagnostic, fault: Fault, source: Source) -> Diagnostic:
    """Add the fix of a fault to its diagnostic, if it is unambiguous.

    A fix is safe if it keeps the author's words and changes only their spelling or type. A word
    that resembles a known one is a likely fix, which the user should check.
    """
    value, advice = value_at(source.data, fault.path), fault.facts.get("advice", "")
    meant: str | int | None = None
    is_safe = True
    if fault.problem == "unknown" and fault.fields:
        mapping, name = value_at(source.data, fault.path[:-1]), fault.path[-1]
        meant = fault.fields[0]
        # If two fields resemble the same one, the intended one is unknown.
        similar = [key for key in mapping or () if key != name and bare(key) == bare(meant)]
        if not isinstance(mapping, dict) or meant in mapping or similar:
            return diagnostic
        change = Rename(source.locate(fault.path, key=True), meant)
        is_safe = bare(str(name)) == bare(meant)
        return structs.replace(
            diagnostic, fix=Fix(f"rename '{name}' to '{meant}'", (change,), is_safe)
        )
    if not fault.path or fault.at_key:
        return diagnostic
    place = source.locate(fault.path)
    if fault.problem == "type" and advice == "put it in quotes":
        return structs.replace(diagnostic, fix=Fix(advice, (Quote(place),), is_safe))
    if not isinstance(value, str):
        return diagnostic
    if fault.problem == "type" and advice.startswith("remove the quotes"):
        if _NUMBER.fullmatch(value):
            meant = int(value)
        elif value.lower() in _TRUE | _FALSE:
            meant = value.lower() in _TRUE
    elif fault.problem == "choice":
        words = [option for option in fault.options if isinstance(option, str) and option]
        same = [word for word in words if bare(word) == bare(value)]
        is_safe = len(same) == 1
        meant = same[0] if is_safe else closest(value, words)
    elif fault.problem == "form" and fault.definition == "api.resource.Quantity":
        meant, is_safe = quantity.probably(value), False
    if meant is None:
        return diagnostic
    title = f"write {meant if isinstance(meant, str) else json.dumps(meant)}"
    return structs.replace(diagnostic, fix=Fix(title, (Replace(place, meant),), is_safe))
