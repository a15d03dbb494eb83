"""What `etcompile render --check` says about an output folder that is not up to date.

Apart from the command because a folder that is up to date needs none of it.
"""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from etcompile.diagnostics.redaction import redacted
from etcompile.emit import LOCK, Comparison
from etcompile.emit.difference import unified

_LONGEST_DIFF = 200
_LONGEST_FILE = 60
"""Lines, of all files and of each: who wants more can render and ask Git."""

_STYLES = {"---": "1", "+++": "1", "@": "36", "-": "31", "+": "32"}


def difference(
    directory: Path, comparison: Comparison, files: Mapping[str, str], *, color: bool
) -> Iterator[str]:
    """The lines that say how the folder differs.

    Args:
        directory: The output folder, as the user named it.
        comparison: How it differs.
        files: What it should hold: texts by path.
        color: Use ANSI escapes.

    Yields:
        A line for each file that differs, then a diff of them all, cut where it gets long.
    """
    outdated = {
        **dict.fromkeys(comparison.changed, "changed"),
        **dict.fromkeys(comparison.missing, "missing"),
        **dict.fromkeys(comparison.stale, "stale"),
    }
    for path, state in sorted(outdated.items()):
        by_hand = f" ({comparison.edited[path]})" if path in comparison.edited else ""
        yield f"{state:<8} {directory / path}{by_hand}"
    # A file that is gone or new is long and says little, and the lock says nothing that the
    # others do not.
    paths = sorted(
        (*comparison.changed, *comparison.stale, *comparison.missing),
        key=lambda path: str(path) == LOCK,
    )
    lines = (line for path in paths for line in _diff(directory, path, files))
    for line in _first(lines, _LONGEST_DIFF):
        style = next((style for start, style in _STYLES.items() if line.startswith(start)), None)
        yield f"\x1b[{style}m{line}\x1b[0m" if color and style else line


def _diff(directory: Path, path: PurePosixPath, files: Mapping[str, str]) -> Iterator[str]:
    """The difference of a file, with nothing in it that a terminal would act on."""
    file = directory / path
    old = file.read_text("utf-8", errors="replace") if file.is_file() else ""
    lines = unified(str(file), redacted(old), redacted(files.get(str(path), "")))
    for line in _first(lines, _LONGEST_FILE):
        yield "".join(
            char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}"
            for char in line
        )


def _first(lines: Iterator[str], count: int) -> Iterator[str]:
    """The first lines, and how many more there are."""
    yield from itertools.islice(lines, count)
    if more := sum(1 for _ in lines):
        yield f"… {more} more lines"
