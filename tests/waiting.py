"""How tests wait for what others bring about."""

import time
from collections.abc import Callable
from typing import Any


def eventually(
    check: Callable[[], Any], seconds: float, why: Callable[[], str], *, pause: float = 0.5
) -> Any:
    """What `check` returns once it is true; fails the test, saying why, if that takes too long."""
    end = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < end, why()
        time.sleep(pause)
    return value
