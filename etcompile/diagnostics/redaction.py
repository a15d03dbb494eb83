"""What may not be shown of a text: private keys and credentials, wherever somebody quotes them.

One place for all forms of output: a diagnostic is made of texts that have been here, so that no
form has to think of it, and what shows files or objects asks here too.
"""

from collections.abc import Iterable
from typing import Any

from etcompile.diagnostics import privatekeys
from etcompile.diagnostics.credentials import Span, credential_spans, spoken_spans
from etcompile.diagnostics.output.characters import printable

HIDDEN = "(hidden)"
"""What stands where something is not shown."""
LONGEST = 4096
"""Characters of a text from outside that are shown."""
_LONGEST_READ = 256 * 1024
"""Characters of one that are looked at."""


def secret_spans(text: str, *, spoken: bool = False) -> tuple[Span, ...]:
    """Where private keys and credentials stand in a text, in order and apart from each other.

    Args:
        text: A file, a message or the output of a program.
        spoken: Whether it is the output of a program, which names credentials in more ways.
    """
    more = spoken_spans(text) if spoken else ()
    return _merged((*privatekeys.spans(text), *credential_spans(text), *more))


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return tuple(merged)


def redacted(text: str, *, spoken: bool = False) -> str:
    """A text with what may not be shown left out."""
    return _without(text, secret_spans(text, spoken=spoken))


def without_private_keys(text: str) -> str:
    """A text without private keys; credentials stay."""
    return _without(text, _merged(privatekeys.spans(text)))


def _without(text: str, spans: tuple[Span, ...]) -> str:
    parts, end = [], 0
    for start, stop in spans:
        parts += [text[end:start], HIDDEN]
        end = stop
    return "".join((*parts, text[end:]))


def shown(text: object, longest: int = LONGEST, *, keep: str = "") -> str:
    r"""A text from outside as people and records may have it: masked, printable and cut.

    Everything that a cluster says goes through here before it is printed, logged or written: a Pod
    can put a token, an escape sequence or a newline that looks like a log line into any of it.

    Args:
        text: A reason, a message, lines of a log.
        longest: Characters that are kept, from the beginning.
        keep: Characters to keep that are not printable, such as line breaks.
    """
    words = str(text)[:_LONGEST_READ]
    if not words or (words.isascii() and words.isalpha()):
        return words[:longest]  # nothing or `OOMKilled`, as nearly always
    words = printable(redacted(words, spoken=True), keep=keep)
    return words if len(words) <= longest else f"{words[: longest - 1]}…"


def shown_value(value: Any) -> Any:
    """A JSON value with each text in it as `shown`; line breaks stay."""
    if isinstance(value, str):
        return shown(value, keep="\n\t")
    if isinstance(value, dict):
        return {key: shown_value(inner) for key, inner in value.items()}
    return [shown_value(inner) for inner in value] if isinstance(value, list | tuple) else value
