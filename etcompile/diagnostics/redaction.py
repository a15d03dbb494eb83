"""Text without private keys and credentials.

Every message of a diagnostic is redacted when it is created, so that no form of output has to do
it. Whatever else shows files or objects calls this module.
"""

from collections.abc import Iterable
from typing import Any

from etcompile.diagnostics.credentials import (
    Span,
    credential_spans,
    private_key_spans,
    spoken_spans,
)
from etcompile.diagnostics.message_text import printable

HIDDEN = "(hidden)"
"""What replaces a private key or a credential."""
LONGEST = 4096
"""Characters of a message, or of a text from a cluster, that are shown."""


def secret_spans(text: str, *, spoken: bool = False) -> tuple[Span, ...]:
    """Where private keys and credentials are in a text, in order and without overlap.

    Args:
        spoken: Whether it is the output of a program, which names credentials in more ways.
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
    """A text without private keys and credentials."""
    return _without(text, secret_spans(text, spoken=spoken))


def without_private_keys(text: str) -> str:
    """A text without private keys, but with its credentials."""
    return _without(text, _merged(private_key_spans(text)))


def _without(text: str, spans: tuple[Span, ...]) -> str:
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], HIDDEN]
        end = stop
    return "".join((*parts, text[end:]))


def shown(text: object, longest: int = LONGEST, *, keep: str = "") -> str:
    r"""A text from a cluster, redacted, printable and cut.

    All text of a cluster passes through here before it is printed, logged or written, because a Pod
    can put a token, an escape sequence or a newline that fakes a log line into any of it.

    Args:
        keep: Characters to keep that are not printable, such as line breaks.
    """
    words = str(text)
    if not words or (words.isascii() and words.isalpha()):
        return words[:longest]  # nothing or `OOMKilled`, as nearly always
    return printable(cut(words, longest, spoken=True), keep=keep)


def cut(text: str, longest: int = LONGEST, *, spoken: bool = False) -> str:
    """A text, redacted and cut. What is not shown is not read, but for the end of a credential."""
    words = redacted(text[: 2 * max(longest, LONGEST)], spoken=spoken)
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def shown_value(value: Any) -> Any:
    """A JSON value with `shown` applied to each text in it; line breaks stay."""
    if isinstance(value, str):
        return shown(value, keep="\n\t")
    if isinstance(value, dict):
        return {key: shown_value(inner) for key, inner in value.items()}
    return [shown_value(inner) for inner in value] if isinstance(value, list | tuple) else value
