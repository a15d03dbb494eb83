"""Private keys in any text: in the clear, in base64, and in base64 of base64.

Apart from the other checks of objects because it is the one that no option turns off
(reference/gitops.md 5), and because it has to be quick: nearly every text holds none.
"""

import base64
import itertools
import marshal
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_PRIVATE_KEY = re.compile(
    r"-{4,5} ?BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d"
)
_RUN = re.compile(r"[A-Za-z0-9+/]{16,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/]+)*")
"""A stretch of base64, lines of it together."""
_DEEPEST = 2


def _in_base64(text: bytes) -> Iterator[bytes]:
    """How a text reads inside base64, at each of its three alignments, without ragged ends."""
    for before in range(3):
        written = base64.b64encode(b"\0" * before + text)
        start = -(-before * 8 // 6)
        yield written[start : (before + len(text)) * 8 // 6]


_PLAIN = (b"PRIVATE KEY", b"PuTTY-User-Key-File")
_ENCODED = tuple(itertools.chain.from_iterable(map(_in_base64, _PLAIN)))
_SIGNS = (*_PLAIN, *_ENCODED, *itertools.chain.from_iterable(map(_in_base64, _ENCODED)))
"""What a text that holds a private key holds too."""


def may_contain_private_key(objects: Sequence[Mapping[str, Any]]) -> bool:
    """Whether it is worth looking closer; False for nearly all there is."""
    # Every text stands in these bytes as it is, those that objects share only once.
    return _is_suspicious(marshal.dumps(list(objects)))


def contains_private_key(value: object) -> bool:
    """Whether a private key stands anywhere in a JSON value, in the clear or in base64."""
    return any(_holds_key(text, _DEEPEST) for text in _texts(value))


def _holds_key(text: str, depth: int) -> bool:
    if _PRIVATE_KEY.search(text):
        return True
    if not depth or not _is_suspicious(text.encode()):
        return False
    return any(_holds_key(decoded, depth - 1) for decoded in _decoded(text))


def _is_suspicious(text: bytes) -> bool:
    return any(sign in text for sign in _SIGNS)


def _decoded(text: str) -> Iterator[str]:
    """What the stretches of base64 in a text say; where one begins is not certain."""
    for run in _RUN.findall(text):
        letters = "".join(run.split())
        for start in range(4):
            whole = letters[start : start + (len(letters) - start) // 4 * 4]
            yield base64.b64decode(whole).decode("latin-1")


def _texts(value: object) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
