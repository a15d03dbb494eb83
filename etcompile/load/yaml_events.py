"""The parse events of a YAML text, from which both its values and their positions are read.

Neither pays for the other, and both see the same text.
"""

from collections.abc import Iterator
from typing import Any

from yaml.events import Event

from etcompile.load.scalars import key_text, plain_key, tagged

try:
    from yaml import CBaseLoader as _Parser
except ImportError:  # PyYAML was built without libyaml
    from yaml import BaseLoader as _Parser  # type: ignore[assignment]


def yaml_events(content: str) -> Iterator[Event]:
    """The events of a YAML stream.

    Returns:
        The events; each mark's `index` is a character offset into the text.
    """
    return iter(_Parser(content).get_event, None)


def span(event: Any) -> tuple[int, int]:
    """The offsets of an event's first character, and of the one after its last."""
    return event.start_mark.index, event.end_mark.index


def mapping_key(event: Any) -> str:
    """The JSON key that a scalar is, as a mapping's key.

    Raises:
        NotJsonError: it is null, or has a tag that is not one of JSON's types.
    """
    if event.tag is not None:
        return key_text(tagged(event.tag, event.value))
    value: str = event.value
    return plain_key(value) if event.implicit[0] else value


def merged_in(written: dict[Any, Any], merges: list[tuple[int, list[dict[Any, Any]]]]) -> Any:
    """A mapping with its merges, as kubectl's parser makes it.

    It merges where the merge key stands: a key written below it wins, and one written above it
    loses. Of two mappings in one merge the earlier one wins.

    Args:
        merges: For each merge, how many keys stand above it, and the mappings it merges.
    """
    keys = list(written)
    value: dict[Any, Any] = {}
    done = 0
    for above, bases in merges:
        value.update((key, written[key]) for key in keys[done:above])
        for base in reversed(bases):
            value.update(base)
        done = above
    value.update((key, written[key]) for key in keys[done:])
    return value
