"""What frontends of all kinds say of a field: that it changes nothing, or is not compiled."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, Location, Source, ValuePath, codes, diagnose
from etcompile.k8s.path import dotted, value_at


def unused(place: Location, where: str, reason: str, advice: str = "remove it") -> Diagnostic:
    """A warning for something that changes nothing."""
    return diagnose(codes.NO_EFFECT, place, where=where, reason=reason, advice=advice)


def no_effect(
    source: Source,
    path: ValuePath,
    reason: str,
    advice: str = "remove it",
    *,
    where: str = "",
    when: str = "",
) -> Iterator[Diagnostic]:
    """A warning for a field that changes nothing, if the document has it.

    Args:
        source: The document.
        path: The field.
        reason: Why it changes nothing.
        advice: What to do instead.
        where: What messages call it; the path if empty.
        when: Where that is so, if not everywhere.
    """
    if value_at(source.data, path) is not None:
        place = source.locate(path, key=True)
        yield unused(place, (where or dotted(path)) + when, reason, advice)


def not_compiled(place: Location, where: str, reason: str, advice: str) -> Diagnostic:
    """An error for something that is refused."""
    return diagnose(codes.NOT_COMPILED, place, where=where, reason=reason, advice=advice)
