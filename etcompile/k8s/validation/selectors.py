"""The rules of label selectors, which many objects have (ValidateLabelSelector)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_key, is_label_value
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.rule import Broken, Rule, Subject

Example = Callable[[str], str]
"""Puts the text of a selector's fields where the selector stands."""


def bad_label_keys(labels: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    """Keys that are no qualified names."""
    for key in labels:
        if not is_key(key):
            yield Broken((key,), {"value": key}, at_key=True)


def bad_label_values(labels: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    """Values that labels cannot have."""
    for key, value in labels.items():
        if isinstance(value, str) and not is_label_value(value):
            yield Broken((key,))


def bad_annotation_keys(annotations: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    """Keys that are no qualified names, even when written in lower case."""
    for key in annotations:
        if not is_key(key.lower()):
            yield Broken((key,), {"value": key}, at_key=True)


def no_values(requirement: Mapping[str, Any], _: Subject) -> bool:
    """Whether `In` or `NotIn` has nothing to compare with."""
    return requirement.get("operator") in ("In", "NotIn") and not requirement.get("values")


def needless_values(requirement: Mapping[str, Any], _: Subject) -> Iterator[Broken]:
    """Values of an operator that compares with none."""
    if requirement.get("operator") in ("Exists", "DoesNotExist") and requirement.get("values"):
        yield Broken(("values",), at_key=True)


def requirement_rules(at: str, example: Example) -> tuple[Rule, ...]:
    """The rules for one requirement of a selector.

    Args:
        at: Where the requirements stand.
        example: Puts a requirement there.
    """
    return (
        Rule(
            at,
            no_values,
            "needs 'values', because its operator is In or NotIn",
            example("{key: a, operator: In}"),
            example("{key: a, operator: In, values: [b]}"),
        ),
        Rule(
            at,
            needless_values,
            "cannot have values, because its operator is Exists or DoesNotExist",
            example("{key: a, operator: Exists, values: [b]}"),
            example("{key: a, operator: Exists}"),
            "remove them, or use the operator In",
        ),
        Rule(
            f"{at}.key",
            forms.unless(is_key),
            "'{value}' is not a valid key",
            example("{key: a b, operator: Exists}"),
            example("{key: a-b, operator: Exists}"),
            forms.KEY_ADVICE,
            on=str,
        ),
    )


def selector_rules(at: str, example: Example, *, since: int = 0) -> tuple[Rule, ...]:
    """The rules for a label selector.

    Args:
        at: Where it stands.
        example: Puts the fields of a selector there.
        since: The first minor version that looks at its values.
    """

    def requirement(text: str) -> str:
        return example(f"matchExpressions: [{text}]")

    return (
        Rule(
            f"{at}.matchLabels",
            bad_label_keys,
            "'{value}' is not a valid key",
            example("matchLabels: {a b: c}"),
            example("matchLabels: {a-b: c}"),
            forms.KEY_ADVICE,
        ),
        Rule(
            f"{at}.matchLabels",
            bad_label_values,
            "'{value}' is not a label value",
            example("matchLabels: {a: b c}"),
            example("matchLabels: {a: b-c}"),
            forms.VALUE_ADVICE,
        ),
        *requirement_rules(f"{at}.matchExpressions[*]", requirement),
        Rule(
            f"{at}.matchExpressions[*].values[*]",
            forms.unless(is_label_value),
            "'{value}' is not a label value",
            requirement("{key: a, operator: In, values: [b c]}"),
            requirement("{key: a, operator: In, values: [b-c]}"),
            forms.VALUE_ADVICE,
            on=str,
            since=since,
        ),
    )
