"""The diagnostics of a run in the order in which a reader wants them, each told once."""

import marshal
import re
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from etcompile.diagnostics import Diagnostic, codes
from etcompile.diagnostics.credentials import may_hold_credential
from etcompile.load import Document

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment

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
    if not diagnostics:
        return ()
    from etcompile.compiler.placeholders import with_placeholder_hint  # noqa: PLC0415

    places = {file: number for number, file in enumerate(files)}

    def place(diagnostic: Diagnostic) -> tuple[int, int, int]:
        location = diagnostic.location
        if location is None:
            return (len(places) + 1, 0, 0)
        file = places.get(location.file, -1)
        return (file, location.line or 0, location.column or 0)

    told = map(with_placeholder_hint, _told_once(diagnostics, overlay_files))
    return tuple(sorted(told, key=place))


def _told_once(diagnostics: Sequence[Diagnostic], files: Collection[str]) -> list[Diagnostic]:
    """The diagnostics; one in an overlay only once, however many objects it is about."""
    told: dict[object, Diagnostic] = {}
    for number, diagnostic in enumerate(diagnostics):
        place = diagnostic.location
        # What never was text has no lines, by which to tell two mistakes apart.
        if not (
            place and place.file in files and (place.line or diagnostic.code.startswith("ET6"))
        ):
            told[number] = diagnostic
            continue
        # A failed patch names the object, and a place in a list may differ between objects.
        words = "" if diagnostic.code == codes.OVERLAY_PATCH else _INDEX.sub("", diagnostic.message)
        told.setdefault((diagnostic.code, place, words), diagnostic)
    return list(told.values())


def divided(
    diagnostics: Sequence[Diagnostic],
    comments: Sequence["IgnoreComment"],
    ignored: str | Iterable[str],
    *,
    whole: bool,
    unheard: Collection[str] = (),
) -> tuple[Sequence[Diagnostic], Sequence[Diagnostic]]:
    """The diagnostics that are told, and those that somebody asked not to be told.

    Args:
        diagnostics: All diagnostics of a run.
        comments: The comments of the files that were read.
        ignored: The codes of `--ignore`.
        whole: Whether every stage ran.
        unheard: Codes that the run did not ask about.
    """
    if not (ignored or comments):
        return diagnostics, ()
    from etcompile.diagnostics.suppression import marked  # noqa: PLC0415 - few runs need it

    result = marked(diagnostics, comments, ignored, whole=whole, unheard=unheard)
    return (
        [diagnostic for diagnostic in result if diagnostic.suppressed is None],
        [diagnostic for diagnostic in result if diagnostic.suppressed is not None],
    )


def ignored_problems(ignored: str | Iterable[str]) -> list[Diagnostic]:
    """An error for each code of `--ignore` that cannot be ignored."""
    if not ignored:
        return []
    from etcompile.diagnostics.suppression import option_problems  # noqa: PLC0415

    return option_problems(ignored)


def selected_problems(selected: Collection[str]) -> list[Diagnostic]:
    """An error for each code of `--select` that cannot be selected."""
    if not selected:
        return []
    from etcompile.diagnostics.selection import option_problems  # noqa: PLC0415 - few runs need it

    return option_problems(selected)


def credential_notes(documents: Sequence[Document]) -> list[Diagnostic]:
    """A warning for each credential that stands in plain text."""
    doubtful = [
        document for document in documents if may_hold_credential(marshal.dumps(document.data))
    ]
    if not doubtful:
        return []
    from etcompile.check.plain_credentials import check_credentials  # noqa: PLC0415

    return [*check_credentials(doubtful)]
