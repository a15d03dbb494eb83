"""Check values against the rules of `schemas/kubernetes/rules.yaml`, whose head describes a row.

The rules are compiled to `rules.json`: a list of rules, and for each kind a tree of fields that
says which rules hold where. A walk over a value meets only the rules of the fields it has.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from etcompile import data
from etcompile.diagnostics.message_text import cut_value
from etcompile.k8s.listkeys import key_values
from etcompile.k8s.names import is_key, is_label, is_label_value, is_port_name, is_subdomain
from etcompile.k8s.path import value_at
from etcompile.k8s.validation import checks
from etcompile.k8s.validation.checks import Broken, Path, Subject

NEWEST = 999
"""The minor version of a rule that is still in force."""


class Rule(Struct, frozen=True):
    """A row of `rules.yaml` without its place and its examples."""

    demand: str  # the name of a function below
    of: Any  # the argument of that function: the name of a form, the choices
    message: str  # what is wrong, after the place; `{value}` is the value, shortened
    hint: str
    # Paths below its place that it checks, all of them.
    fields: list[list[str]] = field(default_factory=lambda: [[]])
    # Fields of the value at its place, with values that they must (True) or must not (False) have.
    when: list[tuple[tuple[str, ...], bool, list[Any]]] = field(default_factory=list)
    since: int = 0  # the first minor version that has the rule with its default feature gates
    until: int = NEWEST  # the last one
    pods_only: bool = False  # the API server ignores it in templates of controllers
    show_key: bool = False  # show the key of the place, not its value

    def is_about(self, value: Any) -> bool:
        conditions = self.when if isinstance(value, dict) else ()
        return len(conditions) == len(self.when) and all(
            (value_at(value, path) in values) == included for path, included, values in conditions
        )


class Problem(Struct, frozen=True):
    """Something that the API server would refuse."""

    path: Path
    message: str
    hint: str
    at_key: bool
    rule: Rule


class Tree(Struct):
    """The rules of one place, by number, and the trees of the places below it."""

    rules: list[int] = field(default_factory=list)
    fields: "dict[str, Tree]" = field(default_factory=dict)
    items: "Tree | None" = None


class _Rules(Struct):
    rules: list[Rule]
    kinds: dict[str, Tree]


_DECODER = msgspec.json.Decoder(_Rules)


def pod_problems(subject: Subject) -> Iterator[Problem]:
    """Yield what the API server would refuse in a Pod, or in a Pod template.

    Values of a wrong type are skipped, because the schema reports them.
    """
    rules = _in_force(subject.minor, pod=subject.pod)
    return _walk(_rules().kinds["Pod template"], rules, subject.value, (), subject)


def object_problems(
    value: Mapping[str, Any], minor: int, *, namespaced: bool = True
) -> Iterator[Problem]:
    """Yield what the API server would refuse in an object, outside of its Pod templates.

    A kind that `rules.yaml` does not name is checked by its schema and the rules of metadata only;
    the API server checks the rest.
    """
    kind, api_version = str(value.get("kind")), str(value.get("apiVersion"))
    if kind.endswith(("Review", "List")) or kind == "TokenRequest":
        return  # a question to the API server
    table = f"{api_version}/{kind}"
    tables = ["any namespaced object"] if namespaced else []
    if table != "v1/Pod":  # the rules of its template include those of metadata
        tables.append("any object")
    if table in _rules().kinds:
        tables.append(table)
    else:
        group = api_version.rpartition("/")[0]
        is_custom = "." in group and not group.endswith(".k8s.io")
        tables.append("any custom resource" if is_custom else "any other object")
    rules, subject = _in_force(minor, pod=True), Subject(value, minor=minor)
    for name in tables:
        yield from _walk(_rules().kinds[name], rules, value, (), subject)


def templates_of(value: Mapping[str, Any]) -> tuple[Path, ...]:
    is_job = (value.get("apiVersion"), value.get("kind")) == ("batch/v1", "Job")
    return (("spec", "template"),) if is_job else ()


@functools.cache
def _rules() -> _Rules:
    path = data.folder("schemas") / "kubernetes" / "rules.json"
    return _DECODER.decode(path.read_bytes())


@functools.cache
def _in_force(minor: int | None, *, pod: bool) -> Mapping[int, Rule]:
    """Return the rules of a minor version by number; for None, the rules of all versions."""
    least, most = (0, NEWEST) if minor is None else (minor, minor)
    return {
        number: rule
        for number, rule in enumerate(_rules().rules)
        if rule.since <= least and most <= rule.until and (pod or not rule.pods_only)
    }


def _walk(
    tree: Tree, rules: Mapping[int, Rule], value: Any, at: Path, subject: Subject
) -> Iterator[Problem]:
    for number in tree.rules:
        rule = rules.get(number)
        if rule and (not rule.when or rule.is_about(value)):
            for steps in rule.fields:
                for path, inner, of_key in _below(value, steps, at):
                    at_key = of_key or rule.show_key
                    yield from _breaches(rule, path, inner, subject, at_key=at_key)
    if isinstance(value, dict):
        for name, below in tree.fields.items():
            if (inner := value.get(name)) is not None:
                yield from _walk(below, rules, inner, (*at, name), subject)
    elif isinstance(value, list) and tree.items is not None:
        for index, item in enumerate(value):
            yield from _walk(tree.items, rules, item, (*at, index), subject)


def _below(value: Any, steps: list[str], at: Path) -> Iterator[tuple[Path, Any, bool]]:
    if value is None:
        return
    if not steps:
        yield at, value, False
        return
    step, *rest = steps
    if step == "[*]":
        for index, item in enumerate(value if isinstance(value, list) else ()):
            yield from _below(item, rest, (*at, index))
    elif not isinstance(value, dict):
        return
    elif step == "{key}":
        yield from (((*at, key), key, True) for key in value)
    elif step == "{*}":
        for key, inner in value.items():
            yield from _below(inner, rest, (*at, key))
    else:
        yield from _below(value.get(step), rest, (*at, step))


def _breaches(
    rule: Rule, at: Path, value: Any, subject: Subject, *, at_key: bool
) -> Iterator[Problem]:
    try:
        places = [*_violations(rule.demand, rule.of, value, subject)]
    except (AttributeError, TypeError):
        return  # a value has a wrong type, which the schema reports
    for broken in places:
        facts = {"value": cut_value(str(value_at(value, broken.path))), **broken.facts}
        yield Problem(
            path=(*at, *broken.path),
            message=rule.message.format_map(facts),
            hint=rule.hint.format_map(facts),
            at_key=at_key or broken.at_key,
            rule=rule,
        )


# Demands: a place that does not meet them is broken ---------------------------------------------

FORMS: Mapping[str, Callable[[str], bool]] = {
    "annotation key": lambda text: is_key(text.lower()),
    "key": is_key,
    "label": is_label,
    "label value": is_label_value,
    "port name": is_port_name,
    "service name": lambda text: is_label(text) and text[:1].isalpha(),
    "subdomain": is_subdomain,
}
"""Forms of texts that `rules.yaml` does not write as patterns."""


def _violations(demand: str, of: Any, value: Any, subject: Subject) -> Iterable[Broken]:
    """Yield where a value does not meet a demand; a value of another type meets it."""
    is_broken = False
    match demand, value:
        case "check", _:
            places: Any = getattr(checks, of)(value, subject)
            if not isinstance(places, bool):
                checked: Iterable[Broken] = places
                return checked
            is_broken = places
        case "unique", list():
            return _duplicate_keys(of, value)
        case "at_most_one", dict():
            present = [name for name in of if value.get(name) is not None]
            return [Broken((), {"found": " and ".join(present)})] if len(present) > 1 else ()
        case "exactly_one", dict():
            is_broken = sum(value.get(name) is not None for name in of) != 1
        case "needs", dict():
            fields = (value_at(value, tuple(name.split("."))) for name in of)
            is_broken = all(field in (None, "", []) for field in fields)
        case "form", str():
            form = of.removesuffix(" or empty").removeprefix("prefix of ")
            is_prefix = "prefix of " in of and value.endswith("-")
            is_empty = not value and of.endswith(" or empty")
            is_broken = not (is_empty or FORMS[form](f"{value[:-1]}a" if is_prefix else value))
        case "pattern", str():
            is_broken = re.fullmatch(of, value) is None
        case "one_of", _:
            is_broken = type(value) is type(of[0]) and value not in of
        case "none_of", _:
            is_broken = type(value) is type(of[0]) and value in of
        case ("range", int()) | ("length", str() | list()) if not isinstance(value, bool):
            number = value if isinstance(value, int) else len(value)
            least, most = of
            too_few = least is not None and number < least
            is_broken = too_few or (most is not None and number > most)
        case "empty", str() | list() | dict():
            is_broken = bool(value)
        case "refused", _:
            is_broken = True
    return [Broken()] if is_broken else ()


def _duplicate_keys(names: list[str], items: list[Any]) -> Iterator[Broken]:
    seen: set[str] = set()
    for index, item in enumerate(items):
        values = key_values(item, names) if isinstance(item, dict) else [None]
        key = "/".join(map(str, values))
        if not all(values):
            continue  # no key, so nothing to compare
        if key in seen:
            yield Broken((index, names[0]) if len(names) == 1 else (index,), {"value": key})
        seen.add(key)
