"""How many examples a random test tries, and values that nobody expects."""

import random
from typing import Any

from hypothesis import settings


def examples(most: int) -> settings:
    """Return the settings of a test that tries at most so many examples.

    A change is tried with the same examples each time, and with a third of them;
    `pytest --hypothesis-profile=explore` draws others, and all.
    """
    is_fixed = settings.default is not None and settings.default.derandomize
    return settings(max_examples=max(most // 3, 10) if is_fixed else most)


_ODD = [
    *(None, True, -1, 0, 10**11, 2**63, 10**400, 1e308, "", "..", "../../x", "x" * 5000),
    *(
        [],
        {},
        [[]],
        {"a": None},
        "0-3000000000",
        "runtime:",
        "\x00",
        "$(A)",
        "{{ 7*7 }}",
        "999999Gi",
    ),
]


def mutated(value: Any, dice: random.Random, *, odds: float = 0.06) -> Any:
    """Return a JSON value with some of its parts replaced, removed or doubled."""
    if dice.random() < odds:
        return dice.choice(_ODD)
    if isinstance(value, dict):
        left = {k: mutated(v, dice, odds=odds) for k, v in value.items() if dice.random() > odds}
        return left if dice.random() > odds else {**left, dice.choice(["name", "from", "to"]): 1}
    if isinstance(value, list):
        return [mutated(v, dice, odds=odds) for v in value] * dice.choice([1, 1, 1, 1, 2])
    return value
