"""Private keys in any text: in the clear, in base64, and in base64 of base64.

The check of objects and the redaction of messages use it. Nearly every text contains none, so a
search for a few constant strings comes first.
"""

import base64
import itertools
import re
from collections.abc import Iterator

# Not compiled, as nearly no run uses them.
_PRIVATE_KEY = r"-{4,5} ?BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}|PuTTY-User-Key-File-\d"
_RUN = r"[A-Za-z0-9+/]{16,}(?:[ \t]*\r?\n[ \t]*[A-Za-z0-9+/]+)*"
"""A stretch of base64, lines of it together."""
_DEEPEST = 2
_END = r"-{4,5} ?END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)? ?-{4,5}|Private-(?:MAC|Hash):[^\n]*"
_LINES = (
    r"[A-Za-z0-9+/=]{16,}(?:[ \t]*+(?:\\n)?\\?[ \t]*+\r?\n[ \t]*"
    r"[A-Za-z0-9+/=]+(?=[ \t]*(?:[\\\"',\r\n]|\Z)))*"
)
"""A stretch of base64 as a file has it, lines of a quoted text together too."""


def _in_base64(text: bytes) -> Iterator[bytes]:
    """A text inside base64, at each of its three alignments, without the ends that vary."""
    for before in range(3):
        written = base64.b64encode(b"\0" * before + text)
        start = -(-before * 8 // 6)
        yield written[start : (before + len(text)) * 8 // 6]


_PLAIN = (b"PRIVATE KEY", b"PuTTY-User-Key-File")
_ENCODED = tuple(itertools.chain.from_iterable(map(_in_base64, _PLAIN)))
_SIGNS = (*_PLAIN, *_ENCODED, *itertools.chain.from_iterable(map(_in_base64, _ENCODED)))
"""Every text with a private key contains one of these."""


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where private keys are in a text; one without an end extends to the end of the text."""
    if not is_suspicious(text.encode(errors="replace")):
        return
    stop = 0
    while begin := re.compile(_PRIVATE_KEY).search(text, stop):
        end = re.compile(_END).search(text, begin.end())
        stop = end.end() if end else len(text)
        yield begin.start(), stop
    for lines in re.finditer(_LINES, text):
        # A part of a key is secret too, so the sign alone is enough.
        if any(sign in lines[0].encode() for sign in _SIGNS):
            yield lines.span()


def holds_key(text: str, depth: int = _DEEPEST) -> bool:
    """Whether a text contains a private key, in the clear or in base64."""
    if not is_suspicious(text.encode(errors="replace")):
        return False
    if re.search(_PRIVATE_KEY, text):
        return True
    if not depth:
        return False
    return any(holds_key(decoded, depth - 1) for decoded in _decoded(text))


def is_suspicious(text: bytes) -> bool:
    """Whether a text may contain a private key; False for nearly every text."""
    for sign in _SIGNS:  # noqa: SIM110 - `any` takes three times as long, and nearly all is short
        if sign in text:
            return True
    return False


def _decoded(text: str) -> Iterator[str]:
    """The stretches of base64 in a text, decoded from each possible start."""
    for run in re.findall(_RUN, text):
        letters = "".join(run.split())
        for start in range(4):
            whole = letters[start : start + (len(letters) - start) // 4 * 4]
            yield base64.b64decode(whole).decode("latin-1")
