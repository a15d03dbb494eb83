"""Hide private keys and credentials in texts.

Every message of a diagnostic is redacted when it is created, so that no form of output has to do
it. Other code that shows files or objects calls this module.
"""

import re
from collections.abc import Iterable
from typing import Any

from etcompile.diagnostics.credentials import (
    Span,
    credential_spans,
    private_key_spans,
    spoken_spans,
)
from etcompile.diagnostics.message_text import printable, with_texts

HIDDEN = "(hidden)"
LONGEST = 4096
"""Characters to show of a message or of a text from a cluster."""
_COLOR = re.compile(r"\x1b\[[0-9;:]{0,64}m")
"""A change of color: Python, pip and many loggers write them into logs (`FORCE_COLOR`)."""


def secret_spans(text: str, *, spoken: bool = False) -> tuple[Span, ...]:
    """Find private keys and credentials in a text, in order and without overlap.

    Args:
        spoken: The text is the output of a program, which names credentials in more ways.
    """
    more = spoken_spans(text) if spoken else ()
    return _merged((*private_key_spans(text), *credential_spans(text), *more))


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return tuple(merged)


def redacted(text: str, *, spoken: bool = False) -> str:
    return _without(text, secret_spans(text, spoken=spoken))


def without_private_keys(text: str) -> str:
    return _without(text, _merged(private_key_spans(text)))


def _without(text: str, spans: tuple[Span, ...]) -> str:
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], HIDDEN]
        end = stop
    return "".join((*parts, text[end:]))


def shown(text: object, longest: int = LONGEST, *, keep: str = "") -> str:
    r"""Redact a text from a cluster, cut it and make it printable.

    All text of a cluster passes through here before it is printed, logged or written, because a Pod
    can put a token, an escape sequence or a newline that fakes a log line into any of it.

    Args:
        keep: Unprintable characters to preserve, such as line breaks.
    """
    words = _COLOR.sub("", str(text))  # first, as one may stand inside a credential
    if not words or (words.isascii() and words.isalpha()):
        return words[:longest]  # nothing or `OOMKilled`, nearly always
    return printable(cut(words, longest, spoken=True), keep=keep)


def cut(text: str, longest: int = LONGEST, *, spoken: bool = False) -> str:
    """Redact and cut a text. Text after the cut is not read, except the end of a credential."""
    words = redacted(text[: 2 * max(longest, LONGEST)], spoken=spoken)
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def shown_value(value: Any) -> Any:
    return with_texts(value, lambda text: shown(text, keep="\n\t"))
