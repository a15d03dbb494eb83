"""Annotations of our own prefix: a misspelt one would steer nothing, and nobody would know."""

from collections.abc import Collection, Iterator

from etcompile.diagnostics import Diagnostic, Source, diagnose
from etcompile.diagnostics.spelling import probably

PREFIX = "etcompile.dev/"


def unknown_annotations(source: Source, known: Collection[str]) -> Iterator[Diagnostic]:
    """A warning for each annotation of our prefix that the document's kind does not know.

    Args:
        source: The document.
        known: The annotations that its kind reads.
    """
    for name in source.data["metadata"].get("annotations", {}):
        if name.startswith(PREFIX) and name not in known:
            close = probably(name, known)
            place = source.locate(("metadata", "annotations", name), key=True)
            yield diagnose(
                "ET2041",
                place,
                where=f"annotation {name}",
                reason="there is no such annotation for this kind",
                advice=f"did you mean '{close}'?" if close else "",
            )
