"""The rules of tolerations, which Pods and RuntimeClasses have (ValidateTolerations)."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etcompile.k8s.names import is_key, is_label_value
from etcompile.k8s.validation import forms
from etcompile.k8s.validation.rule import Broken, Rule, Subject

Toleration = Mapping[str, Any]
_EQUAL = (None, "", "Equal")


def _everything(toleration: Toleration, _: Subject) -> bool:
    return not toleration.get("key") and toleration.get("operator") in _EQUAL


def _bad_key(toleration: Toleration, _: Subject) -> Iterator[Broken]:
    key = toleration.get("key")
    if isinstance(key, str) and key and not is_key(key):
        yield Broken(("key",))


def _operator(*known: str) -> Callable[[Toleration, Subject], Iterator[Broken]]:
    def check(toleration: Toleration, _: Subject) -> Iterator[Broken]:
        operator = toleration.get("operator")
        if isinstance(operator, str) and operator and operator not in known:
            yield Broken(("operator",))

    return check


def _seconds(toleration: Toleration, _: Subject) -> Iterator[Broken]:
    given = toleration.get("tolerationSeconds") is not None
    if given and toleration.get("effect") != "NoExecute":
        yield Broken(("tolerationSeconds",), at_key=True)


def _value_of_exists(toleration: Toleration, _: Subject) -> Iterator[Broken]:
    if toleration.get("operator") == "Exists" and toleration.get("value"):
        yield Broken(("value",))


def _value_of_equal(toleration: Toleration, _: Subject) -> Iterator[Broken]:
    value, equal = toleration.get("value"), toleration.get("operator") in _EQUAL
    if equal and isinstance(value, str) and not is_label_value(value):
        yield Broken(("value",))


def toleration_rules(at: str, example: Callable[[str], str]) -> tuple[Rule, ...]:
    """The rules for one toleration.

    Args:
        at: Where tolerations stand.
        example: Puts the fields of one there.
    """
    return (
        Rule(
            at,
            _bad_key,
            "'{value}' is not a valid key",
            example("key: a b, operator: Exists"),
            example("key: a-b, operator: Exists"),
            forms.KEY_ADVICE,
        ),
        Rule(
            at,
            _everything,
            "needs a key, or the operator Exists to tolerate every taint",
            example("effect: NoSchedule"),
            example("effect: NoSchedule, operator: Exists"),
            "add operator: Exists",
        ),
        Rule(
            at,
            _operator("Exists", "Equal"),
            "must be Exists or Equal, not '{value}'",
            example("key: a, operator: In"),
            example("key: a, operator: Equal"),
            until=34,
        ),
        Rule(
            at,
            _operator("Exists", "Equal", "Lt", "Gt"),
            "must be Exists or Equal, not '{value}'",
            example("key: a, operator: In"),
            example("key: a, operator: Equal"),
            since=35,
        ),
        Rule(
            at,
            _seconds,
            "tolerationSeconds needs the effect NoExecute",
            example("key: a, operator: Exists, effect: NoSchedule, tolerationSeconds: 1"),
            example("key: a, operator: Exists, effect: NoExecute, tolerationSeconds: 1"),
        ),
        Rule(
            at,
            _value_of_exists,
            "must be absent, because the operator is Exists",
            example("key: a, operator: Exists, value: b"),
            example("key: a, operator: Exists"),
            "remove it, or use the operator Equal",
        ),
        Rule(
            at,
            _value_of_equal,
            "'{value}' is not a label value",
            example("key: a, value: b c"),
            example("key: a, value: b-c"),
            forms.VALUE_ADVICE,
        ),
    )
