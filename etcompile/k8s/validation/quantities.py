"""Quantities in rules: whether an amount is one, and which number it is.

Apart from `quantity`, which only knows the texts: here an amount may be any JSON value.
"""

from decimal import Decimal
from typing import Any

from etcompile.k8s.validation.rule import Subject
from etcompile.model import quantity


def is_amount(value: Any) -> bool:
    """Whether a value could be an amount at all."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def number(value: Any) -> Decimal | None:
    """The number that an amount stands for; None if it stands for none."""
    return quantity.number(value) if is_amount(value) else None


def negative(value: Any, _: Subject) -> bool:
    """An amount below zero."""
    found = number(value)
    return found is not None and found < 0


def not_positive(value: Any, _: Subject) -> bool:
    """An amount of zero or below."""
    found = number(value)
    return found is not None and found <= 0
