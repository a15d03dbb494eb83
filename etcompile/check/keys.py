"""Private keys in objects that are about to leave.

Apart from the other checks of objects because it is the one that no option turns off
(reference/gitops.md 5).
"""

import marshal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import ValuePath
from etcompile.diagnostics.privatekeys import holds_key, is_suspicious


def may_contain_private_key(objects: Sequence[Any]) -> bool:
    """Whether it is worth looking closer; False for nearly all there is."""
    # Every text stands in these bytes as it is, those that objects share only once.
    starts = range(0, len(objects), 256)
    return any(is_suspicious(marshal.dumps([*objects[n : n + 256]])) for n in starts)


def contains_private_key(value: object) -> bool:
    """Whether a private key stands anywhere in a JSON value, in the clear or in base64."""
    return path_of_key(value) is not None


def path_of_key(value: object) -> ValuePath | None:
    """Where the first private key stands in a JSON value; None if there is none."""
    if not may_contain_private_key([value]):
        return None
    return next((path for path, text in _texts(value, ()) if holds_key(text)), None)


def _texts(value: object, at: ValuePath) -> Iterator[tuple[ValuePath, str]]:
    if isinstance(value, str):
        yield at, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield (*at, key), str(key)
            yield from _texts(inner, (*at, key))
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*at, index))
