"""Rows that several kinds of objects share, made from a path.

Apart from the tables, so that a selector, a number or a choice is worded in one place.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import structs

from etcompile.k8s.names import is_key, is_label_value, is_subdomain
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.rule import Broken, Rule, Subject

_EXPRESSION = "needs a list of values, as its operator is {operator}"
_NO_VALUES = "must not be there: the operator is {operator}"
SEGMENT_ADVICE = "use any name that is not '.' or '..' and has no '/' and no '%'"
CONFIG_KEY_ADVICE = "use letters, digits, '-', '_' and '.', at most 253, not '.' or '..'"


def choice(path: str, *choices: str, empty: bool = False) -> Rule:
    """A text that must be one of some.

    Args:
        path: Its place.
        choices: Those that are allowed; the first is the correction of the example.
        empty: Whether an empty text stands for none.
    """
    allowed = frozenset({*choices, ""} if empty else choices)
    named = ", ".join(choices)
    return Rule(
        path,
        lambda value, _: value not in allowed,
        f"must be {'one of ' if len(choices) > 1 else ''}{named}, not '{{value}}'",
        breaks="wrong",
        takes=choices[0],
        on=str,
    )


def at_least(path: str, least: int) -> Rule:
    """A number with a lower bound."""
    return Rule(
        path,
        lambda value, _: value < least,
        f"must be at least {least}, not {{value}}",
        breaks=str(least - 1),
        takes=str(least),
        on=int,
    )


def subdomain(path: str, *, empty: bool = False) -> Rule:
    """A text that must be a DNS subdomain.

    Args:
        path: Its place.
        empty: Whether an empty text stands for none.
    """
    check = forms.unless_empty_or if empty else forms.unless
    return Rule(
        path,
        check(is_subdomain),
        "'{value}' is not a DNS subdomain",
        breaks="A b",
        takes="a.b",
        advice=forms.SUBDOMAIN_ADVICE,
        on=str,
    )


def filled(path: str, takes: str) -> Rule:
    """A text or list that must not be empty.

    Args:
        path: Its place.
        takes: A value that is not.
    """
    listed = takes.startswith("[")
    return Rule(
        path,
        forms.empty,
        "must not be empty",
        breaks="[]" if listed else '""',
        takes=takes,
        on=list if listed else str,
    )


def labels(path: str) -> tuple[Rule, ...]:
    """Labels, or a selector that is made of them alone."""
    return (
        Rule(
            path,
            _bad_keys,
            "'{key}' is not a valid key",
            breaks="{a: b, A b: x}",
            takes="{a: b}",
            advice=forms.KEY_ADVICE,
        ),
        Rule(
            path,
            _bad_values,
            "'{value}' is not a label value",
            breaks="{a: b c}",
            takes="{a: b}",
            advice=forms.VALUE_ADVICE,
        ),
    )


def _bad_keys(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for key in value:
        if not is_key(key):
            yield Broken((key,), {"key": key}, at_key=True)


def _bad_values(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for key, text in value.items():
        if isinstance(text, str) and not is_label_value(text):
            yield Broken((key,))


def selector(path: str) -> tuple[Rule, ...]:
    """A label selector."""
    expressions = f"{path}.matchExpressions[*]"
    example = "{{key: a, operator: {}, values: {}}}".format
    return (
        *labels(f"{path}.matchLabels"),
        choice(f"{expressions}.operator", "Exists", "In", "NotIn", "DoesNotExist"),
        Rule(
            f"{expressions}.key",
            forms.unless(is_key),
            "'{value}' is not a valid key",
            breaks="A b",
            takes="a",
            advice=forms.KEY_ADVICE,
            on=str,
        ),
        Rule(
            expressions,
            _lacks_values,
            _EXPRESSION,
            breaks="{key: a, operator: In}",
            takes=example("In", "[b]"),
        ),
        Rule(
            expressions,
            _has_values,
            _NO_VALUES,
            breaks=example("Exists", "[b]"),
            takes="{key: a, operator: Exists}",
        ),
        Rule(
            expressions,
            _values_of_expression,
            "'{value}' is not a label value",
            breaks=example("In", "[b, b c]"),
            takes=example("In", "[b]"),
            advice=forms.VALUE_ADVICE,
        ),
    )


def _lacks_values(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if value.get("operator") in ("In", "NotIn") and not value.get("values"):
        yield Broken((), {"operator": value["operator"]})


def _has_values(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    if value.get("operator") in ("Exists", "DoesNotExist") and value.get("values"):
        yield Broken(("values",), {"operator": value["operator"]}, at_key=True)


def _values_of_expression(value: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    for index, text in forms.texts(value, "values"):
        if not is_label_value(text):
            yield Broken(("values", index))


def selects(selected: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a label selector matches labels."""
    wanted = forms.mapping(selected, "matchLabels")
    if any(found.get(key) != value for key, value in wanted.items()):
        return False
    return all(
        _fits(expression, found) for _, expression in forms.mappings(selected, "matchExpressions")
    )


def _fits(expression: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    key, values = (
        str(expression.get("key")),
        [text for _, text in forms.texts(expression, "values")],
    )
    match expression.get("operator"):
        case "In":
            return key in found and found[key] in values
        case "NotIn":
            return key not in found or found[key] not in values
        case "Exists":
            return key in found
        case "DoesNotExist":
            return key not in found
    return True  # said of the operator itself


def needs(*path: str) -> Rule:
    """A field without which an object is refused, although its schema can do without it.

    Args:
        path: The fields that lead to it.
    """

    def check(value: Any, _: Subject) -> bool:
        for name in path:
            if not isinstance(value, dict):
                return False  # the schema says so
            value = value.get(name)
            if value is None:
                return True
        return False

    return Rule(
        "",
        check,
        f"needs '{'.'.join(path)}'",
        breaks=f"{{{path[0]}: null}}",
        takes="{}",
    )


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()


def is_segment(text: str) -> bool:
    """Whether a text can be a part of a URL's path, as names of Roles must."""
    return text not in ("", ".", "..") and "/" not in text and "%" not in text


def is_config_key(text: str) -> bool:
    """Whether a text can be a key of a ConfigMap or Secret."""
    if not text or len(text) > 253 or text == "." or text.startswith(".."):
        return False
    return text.isascii() and all(character.isalnum() or character in "-_." for character in text)


def is_ip(text: str) -> bool:
    """Whether a text is an IP address, with leading zeros as Go had them."""
    return address(text) is not None


def address(text: str) -> Any:
    """The IP address that a text stands for; None if it is none."""
    import ipaddress  # noqa: PLC0415 - most runs need none

    parts = text.split(".")
    if len(parts) == 4 and all(_is_digits(part) and len(part) < 20 for part in parts):
        text = ".".join(str(int(part)) for part in parts)
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


def network(text: str) -> Any:
    """The network that a CIDR stands for; None if it is none."""
    import ipaddress  # noqa: PLC0415

    base, slash, bits = text.partition("/")
    found = address(base)
    if found is None or not slash or not _is_digits(bits) or len(bits) > 3:
        return None
    try:
        return ipaddress.ip_network((found, int(bits)), strict=False)
    except ValueError:
        return None


def moved(rules: Iterable[Rule], prefix: str) -> tuple[Rule, ...]:
    """The same rules for a value that stands inside another one.

    Args:
        rules: The rules, whose paths begin at the value.
        prefix: Where the value stands.
    """
    return tuple(structs.replace(rule, path=f"{prefix}.{rule.path}".rstrip(".")) for rule in rules)
