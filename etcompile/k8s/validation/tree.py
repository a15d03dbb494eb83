"""A table of rules as a tree keyed by field, so that a walk over a value meets only its rows.

Apart from the rows: there are hundreds of them and a template has a few dozen fields, so what is
not there must cost nothing.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from etcompile.k8s.validation.rule import Broken, Path, Rule, Subject

_WIDEST = 60
"""Characters of a value that a message shows."""


class Problem(Struct, frozen=True):
    """Something that the API server would refuse.

    Args:
        path: The place, from the value that was checked.
        message: What is wrong.
        advice: What to do; may be empty.
        at_key: The key is wrong, not its value.
        rule: The row that says so.
    """

    path: Path
    message: str
    advice: str
    at_key: bool
    rule: Rule


class Tree(Struct):
    """The rules of one place, and the trees of the places below it.

    Args:
        rules: Rules for the value itself.
        fields: The trees of its fields.
        items: The tree of all its items, if it is a list.
    """

    rules: list[Rule] = field(default_factory=list)
    fields: dict[str, "Tree"] = field(default_factory=dict)
    items: "Tree | None" = None


def tree(rules: Iterable[Rule]) -> Tree:
    """The tree of a table."""
    known: dict[str, list[Tree]] = {"": [Tree()]}
    for rule in rules:
        for place in _places(rule.path, known):
            place.rules.append(rule)
    return known[""][0]


def _places(path: str, known: dict[str, list[Tree]]) -> list[Tree]:
    """The trees of a path. Many rows share their paths, or the beginnings of these."""
    found = known.get(path)
    if found is None:
        found = known[path] = [*_made(path, known)]
    return found


def _made(path: str, known: dict[str, list[Tree]]) -> Iterator[Tree]:
    if path.endswith("[*]"):
        for place in _places(path[:-3], known):
            if place.items is None:
                place.items = Tree()
            yield place.items
        return
    parent, _, last = path.rpartition(".")
    for place in _places(parent, known):
        for name in last.strip("()").split("|"):
            yield place.fields.setdefault(name, Tree())


def problems(table: Tree, subject: Subject) -> list[Problem]:
    """What the API server would refuse in a value.

    What has the wrong type is passed over: the schema says so.

    Args:
        table: The rules.
        subject: The value, and what is known about it.

    Returns:
        A problem for each place where a rule is broken.
    """
    found: list[Problem] = []
    _walk(table, subject.value, (), subject, found)
    return found


def _walk(place: Tree, value: Any, at: Path, subject: Subject, found: list[Problem]) -> None:
    for rule in place.rules:
        if isinstance(value, rule.on) and rule.applies(subject) and _is_of(value, rule):
            try:
                if broken := rule.check(value, subject):
                    if isinstance(broken, bool):
                        broken = (Broken(at_key=rule.at_key),)
                    found += [*_problems_of(rule, broken, value, at)]
            except (AttributeError, TypeError):
                # Something below has another type than the rule reads, which the schema has said.
                continue
    if isinstance(value, dict):
        for name, below in place.fields.items():
            if (inner := value.get(name)) is not None:
                _walk(below, inner, (*at, name), subject, found)
    elif isinstance(value, list) and place.items is not None:
        for index, item in enumerate(value):
            _walk(place.items, item, (*at, index), subject, found)


def _is_of(value: Any, rule: Rule) -> bool:
    """True and False are numbers to Python only."""
    return not isinstance(value, bool) or rule.on is bool


def _problems_of(rule: Rule, found: Iterable[Broken], value: Any, at: Path) -> Iterator[Problem]:
    for broken in found:
        facts = {"value": _shown(_at(value, broken.path)), **broken.facts}
        yield Problem(
            path=(*at, *broken.path),
            message=rule.message.format_map(facts),
            advice=rule.advice.format_map(facts),
            at_key=broken.at_key,
            rule=rule,
        )


def _at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _shown(value: Any) -> str:
    """A value as a message shows it."""
    text = str(value)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
