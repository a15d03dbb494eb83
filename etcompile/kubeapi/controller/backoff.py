"""Say how long to wait after failures in a row."""

import random

FIRST = 0.05
LONGEST = 30.0
"""Seconds after the first failure, and at most."""
_MOST_DOUBLINGS = 30  # 2 to the power of a month of failures is no number


def backoff(failures: int, first: float = FIRST, longest: float = LONGEST) -> float:
    """Return the seconds to wait after so many failures in a row, with jitter."""
    doublings = max(0, min(failures - 1, _MOST_DOUBLINGS))
    return min(first * 2.0**doublings, longest) * random.uniform(0.5, 1.0)  # noqa: S311
