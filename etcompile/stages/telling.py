"""The diagnostics of a run in the order in which a reader wants them, each told once."""

import re
from collections.abc import Collection, Sequence

from etcompile.diagnostics import Diagnostic

_INDEX = re.compile(r"\[[0-9]+\]")


def in_order(
    diagnostics: Sequence[Diagnostic], files: Sequence[str], overlay_files: Collection[str]
) -> tuple[Diagnostic, ...]:
    """The diagnostics in the order in which a reader meets the places they speak of.

    Args:
        diagnostics: All diagnostics of a run.
        files: The files that were read, in order.
        overlay_files: Those that are overlays: one mistake there may show in many objects.
    """
    places = {file: number for number, file in enumerate(files)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        location = diagnostic.location
        if location is None:
            return (len(places) + 1, 0, 0)
        file = places.get(location.file, -1)
        return (file, location.line or 0, location.column or 0)

    return tuple(sorted(_told_once(diagnostics, overlay_files), key=place))


def _told_once(diagnostics: Sequence[Diagnostic], files: Collection[str]) -> list[Diagnostic]:
    """The diagnostics; one in an overlay only once, however many objects it is about."""
    told: dict[object, Diagnostic] = {}
    for number, one in enumerate(diagnostics):
        place = one.location
        # What never was text has no lines, by which to tell two mistakes apart.
        if not (place and place.file in files and (place.line or one.code.startswith("ET6"))):
            told[number] = one
            continue
        # A failed patch names the object, and a place in a list may differ between objects.
        words = "" if one.code == "ET6007" else _INDEX.sub("", one.message)
        told.setdefault((one.code, place, words), one)
    return list(told.values())
