"""The parse events of a text.

Values and positions are both read from libyaml's events, so that neither pays for the other and
both see the same text. JSON has a reader of its own that yields the same events (`json_events`).
"""

import re
from collections.abc import Iterator

from yaml.events import Event

try:
    from yaml import CBaseLoader as _Parser
except ImportError:  # PyYAML was built without libyaml
    from yaml import BaseLoader as _Parser  # type: ignore[assignment]

_FIRST = re.compile(r"[ \t\r\n]*([{\[])")


class NotJsonTextError(ValueError):
    """The text is not JSON from `start` on.

    Args:
        problem: What is wrong there.
        start: Offset to point at.
        reached: Offset at which that was noticed; `start` if None.
    """

    def __init__(self, problem: str, start: int, reached: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.start = start
        self.reached = start if reached is None else reached


def looks_like_json(content: str) -> bool:
    """Whether the first character that is not blank opens an object or a list."""
    return _FIRST.match(content) is not None


def yaml_events(content: str) -> Iterator[Event]:
    """The events of a YAML stream.

    Returns:
        The events; each mark's `index` is a character offset into the text.

    Raises:
        yaml.YAMLError: while iterating, where the text is not YAML.
    """
    return iter(_Parser(content).get_event, None)
