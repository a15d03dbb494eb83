"""How many examples a random test tries."""

from hypothesis import settings


def examples(most: int) -> settings:
    """Return the settings of a test that tries at most so many examples.

    A change is tried with the same examples each time, and with a third of them;
    `pytest --hypothesis-profile=explore` draws others, and all.
    """
    is_fixed = settings.default is not None and settings.default.derandomize
    return settings(max_examples=max(most // 3, 10) if is_fixed else most)
