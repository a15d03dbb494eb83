"""Parse a YAML text into events, from which values and positions are read separately."""

from collections.abc import Iterator
from typing import Any

from yaml.events import Event

from etcompile.load.scalars import key_text, plain_key, tagged

try:
    from yaml import CBaseLoader as _Parser
except ImportError:  # PyYAML was built without libyaml
    from yaml import BaseLoader as _Parser  # type: ignore[assignment]


def yaml_events(content: str) -> Iterator[Event]:
    """Yield the events of a YAML stream; a mark's `index` is a character offset into the text."""
    return iter(_Parser(content).get_event, None)


def span(event: Any) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index


def mapping_key(event: Any) -> str:
    if event.tag is not None:
        return key_text(tagged(event.tag, event.value))
    value: str = event.value
    return plain_key(value) if event.implicit[0] else value


def merged_in(written: dict[Any, Any], merges: list[tuple[int, list[dict[Any, Any]]]]) -> Any:
    """Apply merges, each with the number of keys above it, as kubectl's parser does.

    A merge applies at the place of its merge key: a key written below it takes precedence over the
    merge, and a key above it does not. The earlier of two mappings in one merge takes precedence.
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
