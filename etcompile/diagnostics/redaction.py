"""What may not be shown of a text: private keys and credentials, wherever somebody quotes them.

One place for all forms of output: a diagnostic is made of texts that have been here, so that no
form has to think of it, and what shows files or objects asks here too.
"""

from collections.abc import Iterable

from etcompile.diagnostics import privatekeys
from etcompile.diagnostics.credentials import Span, credential_spans

HIDDEN = "(hidden)"
"""What stands where something is not shown."""


def secret_spans(text: str) -> tuple[Span, ...]:
    """Where private keys and credentials stand in a text, in order and apart from each other."""
    return _merged((*privatekeys.spans(text), *credential_spans(text)))


def _merged(spans: Iterable[Span]) -> tuple[Span, ...]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        elif end > start:
            merged.append((start, end))
    return tuple(merged)


def redacted(text: str) -> str:
    """A text with what may not be shown left out."""
    return _without(text, secret_spans(text))


def without_private_keys(text: str) -> str:
    """A text without private keys; credentials stay."""
    return _without(text, _merged(privatekeys.spans(text)))


def _without(text: str, spans: tuple[Span, ...]) -> str:
    for start, end in reversed(spans):
        text = f"{text[:start]}{HIDDEN}{text[end:]}"
    return text
