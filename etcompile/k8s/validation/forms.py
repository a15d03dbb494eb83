"""The grammars of texts that the API server knows, as checks of rules.

Each check is true for a text that breaks its grammar. Apart from the tables, which share them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile.k8s.validation.rule import Broken, Check, Subject

LABEL_ADVICE = "use lower-case letters, digits and '-', at most 63"
SUBDOMAIN_ADVICE = "use lower-case letters, digits, '-' and '.', at most 253"
KEY_ADVICE = "letters, digits, '-', '_' and '.', at most 63, after an optional 'domain/'"
VALUE_ADVICE = "at most 63 letters, digits, '-', '_' and '.', no sign at either end"
PORT_NAME_ADVICE = "at most 15 lower-case letters, digits and '-', with a letter, without '--'"
INSIDE_ADVICE = "write it without a leading '/' and without '..'"


def is_inside(text: str) -> bool:
    """Whether a path stays inside the folder it starts from."""
    return not text.startswith("/") and ".." not in text.split("/")


def unless(form: Callable[[str], bool]) -> Check:
    """The check that a value has a form.

    Args:
        form: Whether a text has it.
    """
    return lambda value, _: not form(value)


def unless_empty_or(form: Callable[[str], bool]) -> Check:
    """The check that a value has a form, where an empty one is as good as none.

    Args:
        form: Whether a text has it.
    """
    return lambda value, _: value != "" and not form(value)


def outside(least: int, most: int) -> Check:
    """The check that a number is within bounds.

    Args:
        least: The smallest number that is allowed.
        most: The largest.
    """
    return lambda value, _: not least <= value <= most


def one_of(*choices: str) -> Check:
    """The check that a text is one of some."""
    return lambda value, _: value not in choices


def empty(value: Any, subject: Subject) -> bool:
    """True for an empty text or list."""
    del subject
    return not value


def lacks(*names: str) -> Check:
    """The check that a mapping has one of some fields, and not an empty text there.

    Args:
        names: The fields, any of which will do.
    """
    return lambda value, _: not any(value.get(name) not in (None, "") for name in names)


def given(value: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    """Those of some fields that a mapping has."""
    return [name for name in names if value.get(name) is not None]


def several(*names: str) -> Check:
    """The check that a mapping has at most one of some fields."""

    def check(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
        if len(found := given(value, names)) > 1:
            yield Broken((), {"found": " and ".join(found)})

    return check


def twice(*, name: str = "name") -> Check:
    """The check that no two mappings of a list have the same text in a field."""

    def check(value: list[Any], _: Subject) -> Iterator[Broken]:
        seen: set[str] = set()
        for index, item in enumerate(value):
            text = item.get(name) if isinstance(item, dict) else None
            if isinstance(text, str) and text:
                if text in seen:
                    yield Broken((index, name))
                seen.add(text)

    return check


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The mapping at a path of fields; an empty one where there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def mappings(value: Any, name: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The mappings in the list that a field holds, with their indexes."""
    found = value.get(name) if isinstance(value, dict) else None
    for index, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, dict):
            yield index, item


def texts(value: Any, name: str) -> Iterator[tuple[int, str]]:
    """The texts in the list that a field holds, with their indexes."""
    found = value.get(name) if isinstance(value, dict) else None
    for index, item in enumerate(found if isinstance(found, list) else ()):
        if isinstance(item, str):
            yield index, item
