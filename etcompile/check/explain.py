"""What a JSON Schema validator found, as faults in people's words.

A validator speaks of keywords and patterns; a user wants to know which field is wrong, what it
should be and what they may have meant. Apart from `schema` and `kubernetes`, which share it and
differ in the codes they give.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import jsonschema_rs
from msgspec import Struct

from etcompile.check.validator import Validator
from etcompile.diagnostics import ValuePath
from etcompile.k8s.path import dotted, value_at

Problem = Literal["unknown", "missing", "type", "choice", "range", "form", "empty", "other"]

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
_BOOLEANS = {"true", "false", "yes", "no", "on", "off"}
_WIDEST = 60
"""Characters of a value that a message shows."""
MOST_FAULTS = 200
"""Faults of one value that are told."""
_KEYS_AT_A_TIME = 100
_LABELLINGS = frozenset({"labels", "annotations"})
"""Fields whose keys have a form, in the schemas of etcompile's own."""
_LISTED = 8
"""Fields that a hint names when none of them resembles the unknown one."""


class Fault(Struct, frozen=True):
    """Something wrong at one place of a value.

    Args:
        problem: What sort of fault; it decides the code.
        path: The place, from the root of the document.
        facts: What a message names: `where` and `advice` always; `field` of an unknown or
            missing one; `expected` and `found`; `problem` of any other.
        at_key: The key is wrong, not its value.
        definition: The schema's definition that says so, by its name; None outside of any.
        fields: Of an unknown field, the known one it resembles; of a missing one, those any of
            which would do.
        options: Values that would do, where there are few.
    """

    problem: Problem
    path: ValuePath
    facts: Mapping[str, str]
    at_key: bool = False
    definition: str | None = None
    fields: tuple[str, ...] = ()
    options: tuple[Any, ...] = ()

    @property
    def place(self) -> tuple[ValuePath, bool]:
        """What to locate: a path, and whether its key is meant.

        A mapping that lacks a field is shown by its own key, where a reader would add it.
        """
        keyed = self.problem == "missing" and bool(self.path) and isinstance(self.path[-1], str)
        return self.path, self.at_key or keyed


def faults(
    validator: Validator,
    value: object,
    *,
    root: str,
    at: ValuePath = (),
) -> list[Fault]:
    """Everything the validator has against a value.

    Args:
        validator: The schema.
        value: A JSON value.
        root: What to call the document itself, such as its kind.
        at: Where the value stands in its document.

    Returns:
        The faults, in the validator's order; none if the value is valid.
    """
    errors = list(itertools.islice(_errors(validator.whole, value), MOST_FAULTS + 1))
    # A value of the wrong type breaks other rules too; only the type is worth saying.
    mistyped = {tuple(error.instance_path) for error in errors if error.kind.name == "type"}
    found = [
        fault
        for error in errors
        if error.kind.name == "type" or tuple(error.instance_path) not in mistyped
        for fault in _faults(error, _View(validator.rules, root, at, value))
    ]
    # Of two bounds that a number breaks, that of the form that was meant is the narrower.
    bounds = {fault.path: fault for fault in found if fault.problem == "range"}
    found = [fault for fault in found if fault.problem != "range" or bounds[fault.path] is fault]
    return without_echoes(found)


def _errors(
    validator: jsonschema_rs.Validator, value: object
) -> Iterator[jsonschema_rs.ValidationError]:
    """The errors of a value, each once.

    An error about a key holds a copy of the whole mapping: those of thousands of labels would need
    gigabytes. So long mappings of labels are looked at a few keys at a time.
    """
    longest = max(map(len, _labellings(value)), default=0)
    if longest <= _KEYS_AT_A_TIME:
        yield from validator.iter_errors(value)
        return
    told: set[tuple[object, ...]] = set()
    for start in range(0, longest, _KEYS_AT_A_TIME):
        for error in validator.iter_errors(_sliced(value, start)):
            what = (*error.instance_path, None, *error.schema_path, None, _key_meant(error))
            if what not in told:
                told.add(what)
                yield error


def _key_meant(error: jsonschema_rs.ValidationError) -> str:
    """The key that an error is about; empty if it is about a value."""
    match error.kind:
        case _Kind.PropertyNames(error=inner):
            return str(inner.instance)
    return ""


def _labellings(value: object) -> Iterator[Mapping[str, Any]]:
    """The mappings of labels and annotations in a value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _LABELLINGS and isinstance(inner, Mapping):
                yield inner
            yield from _labellings(inner)
    elif isinstance(value, list):
        for item in value:
            yield from _labellings(item)


def _sliced(value: Any, start: int) -> Any:
    """The value with some of the keys of each mapping of labels or annotations."""
    if isinstance(value, Mapping):
        return {
            key: dict(itertools.islice(inner.items(), start, start + _KEYS_AT_A_TIME))
            if key in _LABELLINGS and isinstance(inner, Mapping)
            else _sliced(inner, start)
            for key, inner in value.items()
        }
    return [_sliced(item, start) for item in value] if isinstance(value, list) else value


def without_echoes(found: Sequence[Fault]) -> list[Fault]:
    """Faults without those that are another one, seen again.

    Args:
        found: The faults of one document, of one schema or of several that describe parts of it.
    """
    # A misspelt field is missing too, under its right name; only the misspelling is worth saying.
    misspelt = {
        (fault.path[:-1], field)
        for fault in found
        if fault.problem == "unknown"
        for field in fault.fields
    }
    return [
        fault
        for fault in found
        if fault.problem != "missing"
        or misspelt.isdisjoint((fault.path, field) for field in fault.fields)
    ]


def _steps(value: Any, path: Iterable[str | int]) -> Iterator[str | int]:
    """A path as the value has it: to the validator, the key '30' of a mapping is a number."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, int):
            same = (key for key in value if key.isdecimal() and int(key) == step)
            step = str(step) if str(step) in value else next(same, str(step))  # noqa: PLW2901
        value = value_at(value, (step,))
        yield step


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant, whatever its case; None if none is near."""
    import difflib  # noqa: PLC0415 - only a complaint needs it

    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[near[0]] if near else None


def shown(value: object) -> str:
    """A value as a message shows it: text in quotes, long text cut, lists and mappings named."""
    match value:
        case str():
            return f"'{value}'" if len(value) <= _WIDEST else f"'{value[:_WIDEST]}...'"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a mapping" if value else "an empty mapping"
        case _:
            return json.dumps(value)


# One error ------------------------------------------------------------------------------------


class _View(Struct, frozen=True):
    """What an error is looked at with: the schema, and where in a document the value stands."""

    schema: Mapping[str, Any]
    root: str
    at: ValuePath
    value: Any

    def path(self, error: jsonschema_rs.ValidationError) -> ValuePath:
        return (*self.at, *_steps(self.value, error.instance_path))

    def where(self, error: jsonschema_rs.ValidationError) -> str:
        return dotted(self.path(error)) or self.root

    def rules(self, error: jsonschema_rs.ValidationError) -> Mapping[str, Any]:
        """The part of the schema whose keyword failed."""
        node: Any = self.schema
        for step in error.schema_path[:-1]:
            node = node[step]
        return node if isinstance(node, Mapping) else {}


def _faults(error: jsonschema_rs.ValidationError, view: _View) -> Iterator[Fault]:
    match error.kind:
        case _Kind.AdditionalProperties(unexpected=names):
            yield from _unknown(error, names, view)
        case _Kind.UnevaluatedProperties(unexpected=names):
            yield from _unknown(error, names, view)
        case _Kind.PropertyNames(error=inner):
            yield _malformed_key(error, str(inner.instance), view)
        case _Kind.AnyOf(context=branches) | _Kind.OneOfNotValid(context=branches):
            yield from _alternatives(error, branches, view)
        case _Kind.Pattern() if error.instance == "" and "minLength" in view.rules(error):
            pass  # said already, as empty
        case _Kind.Required(property=name):
            facts = {"field": name, "advice": _wanted(error, name, view)}
            yield _fault(error, view, "missing", facts, fields=[name])
        case _:
            yield _fault(error, view, *_words(error, view.rules(error)))


def _fault(
    error: jsonschema_rs.ValidationError,
    view: _View,
    problem: Problem,
    facts: dict[str, str],
    *,
    fields: Sequence[str] = (),
) -> Fault:
    facts = {"where": view.where(error), "advice": "", **facts}
    path, definition = view.path(error), _definition(error)
    options = _options(error, view)
    return Fault(problem, path, facts, definition=definition, fields=tuple(fields), options=options)


def _options(error: jsonschema_rs.ValidationError, view: _View) -> tuple[Any, ...]:
    """Values that would do in the place of the one that is wrong or missing."""
    match error.kind:
        case _Kind.Enum(options=options):
            return tuple(options)
        case _Kind.Constant(expected_value=only):
            return (only,)
        case _Kind.Minimum(limit=limit) | _Kind.Maximum(limit=limit):
            return (limit,)
        case _Kind.Required(property=name):
            rules: Mapping[str, Any] = view.rules(error).get("properties", {}).get(name, {})
            const = (rules["const"],) if "const" in rules else ()
            return (*const, *rules.get("enum", ()), *rules.get("examples", ()))
    return ()


def _unknown(
    error: jsonschema_rs.ValidationError, names: Sequence[str], view: _View
) -> Iterator[Fault]:
    known = list(view.rules(error).get("properties", ()))
    for name in names:
        near = closest(name, known)
        facts = {"where": view.where(error), "field": name, "advice": _meant(near, known)}
        path, definition = (*view.path(error), name), _definition(error)
        fields = (near,) if near else ()
        yield Fault("unknown", path, facts, at_key=True, definition=definition, fields=fields)


def _wanted(error: jsonschema_rs.ValidationError, name: str, view: _View) -> str:
    """What to write in a missing field, where there is no choice."""
    rules = view.rules(error).get("properties", {}).get(name, {})
    if name == "name" and isinstance(error.instance, dict) and "generateName" in error.instance:
        return "write a name: generateName makes another one whenever it is applied"
    if "const" in rules:
        return f"write {name}: {json.dumps(rules['const'])}"
    examples = rules.get("examples", ())
    return f"write {name}, for example {name}: {examples[0]}" if examples else ""


def _malformed_key(error: jsonschema_rs.ValidationError, name: str, view: _View) -> Fault:
    facts = {
        "where": f"key of {view.where(error)}",
        "advice": "",
        "expected": view.rules(error).get("title") or "an allowed key",
        "found": _cut(name),
    }
    path = (*view.path(error), name)
    return Fault("form", path, facts, at_key=True, definition=_definition(error))


def _words(
    error: jsonschema_rs.ValidationError, rules: Mapping[str, Any]
) -> tuple[Problem, dict[str, str]]:
    """The sort of fault and its facts, for an error that is about one value."""
    found = error.instance
    match error.kind:
        case _Kind.Type(types=types):
            # In quotes it would be text, and still wrong.
            text = json.dumps(found) if isinstance(found, bool | int | float) else ""
            if text and "string" in types and text not in rules.get("enum", (text,)):
                return "choice", _choice(rules["enum"], found)
            return "type", _retyped(types, found)
        case _Kind.Enum(options=options):
            return "choice", _choice(options, found)
        case _Kind.Constant(expected_value=only):
            return "choice", _choice([only], found)
        case _Kind.Minimum(limit=limit):
            return "range", {"expected": f"at least {limit}", "found": shown(found)}
        case _Kind.Maximum(limit=limit):
            return "range", {"expected": f"at most {limit}", "found": shown(found)}
        case _Kind.ExclusiveMinimum(limit=limit):
            return "range", {"expected": f"above {limit}", "found": shown(found)}
        case _Kind.ExclusiveMaximum(limit=limit):
            return "range", {"expected": f"below {limit}", "found": shown(found)}
        case _Kind.Pattern() | _Kind.MinItems() | _Kind.MinLength() if not found:
            return "empty", {}
        case _Kind.MinProperties() if not found:
            return "empty", {}
        case _Kind.Not() if "title" in rules:
            return "other", {"problem": rules["title"]}
        case _Kind.Pattern(pattern=pattern):
            expected = rules.get("title") or f"of the form {pattern}"
            return "form", {"expected": expected, "found": _cut(str(found))}
    return "other", {"problem": _other(error)}


def _definition(error: jsonschema_rs.ValidationError) -> str | None:
    match error.schema_path:
        case ["$defs", str(name), *_]:
            return name
    return None


def _meant(near: str | None, known: Sequence[str]) -> str:
    if near:
        return f"did you mean '{near}'?"
    if known and len(known) <= _LISTED:
        return f"its fields are: {', '.join(known)}"
    return ""


def _choice(options: Sequence[Any], found: object) -> dict[str, str]:
    # Where the empty text is allowed it stands for absent, which nobody needs to be told.
    words = [
        shown(option)[1:-1] if isinstance(option, str) else shown(option)
        for option in options
        if option
    ]
    near = (
        closest(found, [option for option in options if option]) if isinstance(found, str) else None
    )
    return {
        "expected": words[0] if len(words) == 1 else f"one of {', '.join(words)}",
        "found": shown(found),
        "advice": f"did you mean '{near}'?" if near else "",
    }


def _types(types: Sequence[str]) -> str:
    return " or ".join(_TYPES[name] for name in types)


def _typed(value: object) -> str:
    return f"the text {shown(value)}" if isinstance(value, str) else shown(value)


def _retyped(types: Sequence[str], found: object) -> dict[str, str]:
    expected, advice = _types(types), _retype(types, found)
    return {"expected": expected, "found": _typed(found), "advice": advice}


def _retype(types: Sequence[str], found: object) -> str:
    """What to do about a value of the wrong type."""
    numeric = {"integer", "number"} & set(types)
    if "string" in types and not numeric and isinstance(found, bool | int | float):
        return "put it in quotes"
    if isinstance(found, str):
        number = numeric and re.fullmatch(r"-?\d+", found)
        if number or ("boolean" in types and found.lower() in _BOOLEANS):
            return f"remove the quotes: {found}"
    if list(types) == ["array"]:
        return "write a list: each item on its own line, after '- '"
    if list(types) == ["object"] and isinstance(found, list):
        return "remove the '- '"
    return ""


def _cut(words: str) -> str:
    return words if len(words) <= _WIDEST else f"{words[:_WIDEST]}..."


def _other(error: jsonschema_rs.ValidationError) -> str:
    found: Any = error.instance
    match error.kind:
        case _Kind.MinItems(limit=limit):
            return f"must have at least {limit} items, not {len(found)}"
        case _Kind.MaxItems(limit=limit):
            return f"must have at most {limit} items, not {len(found)}"
        case _Kind.MinLength(limit=limit):
            return f"must have at least {limit} characters, not {len(found)}"
        case _Kind.MaxLength(limit=limit):
            return f"must have at most {limit} characters, not {len(found)}"
        case _Kind.UniqueItems():
            return f"lists {_repeated(found)} twice"
        case _Kind.OneOfMultipleValid():
            return "fits more than one of the allowed forms, and may fit one only"
    return _cut(error.message)


def _repeated(items: Sequence[Any]) -> str:
    seen: set[str] = set()
    for item in items:
        key = json.dumps(item, sort_keys=True)
        if key in seen:
            return shown(item)
        seen.add(key)
    return "an item"


def _alternatives(
    error: jsonschema_rs.ValidationError,
    branches: Sequence[Sequence[jsonschema_rs.ValidationError]],
    view: _View,
) -> Iterator[Fault]:
    """What to say of a value that fits none of several forms: something about the one meant."""
    rules = view.rules(error)
    choices = rules.get("anyOf") or rules.get("oneOf") or ()
    if meant := [errors for errors in branches if not _is_another(errors, error)]:
        for inner in min(meant, key=len):
            yield from _faults(inner, view)
    elif all("required" in choice for choice in choices):
        wanted = [choice["required"] for choice in choices]
        words = "' or '".join(" and ".join(names) for names in wanted)
        alone = [names[0] for names in wanted if len(names) == 1]
        yield _fault(error, view, "missing", {"field": words}, fields=alone)
    elif all(inner.kind.name == "type" for errors in branches for inner in errors):
        types = [name for errors in branches for inner in errors for name in _type_names(inner)]
        yield _fault(error, view, "type", _retyped(types, error.instance))
    else:
        yield _fault(error, view, "other", {"problem": "fits none of the allowed forms"})


def _is_another(
    errors: Sequence[jsonschema_rs.ValidationError], whole: jsonschema_rs.ValidationError
) -> bool:
    """Whether a form is plainly not the one that was meant: its type or its fields are absent."""
    return any(
        error.kind.name in ("type", "required") and error.instance_path == whole.instance_path
        for error in errors
    )


def _type_names(error: jsonschema_rs.ValidationError) -> list[str]:
    return error.kind.types if isinstance(error.kind, _Kind.Type) else []
