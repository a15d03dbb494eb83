"""Writes new files to a folder that may hold others, and never overwrites one."""

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from etcompile.diagnostics import Diagnostic
from etcompile.emit.files import write_files


class Existing(Struct, frozen=True):
    """What of some files is there already.

    Args:
        same: Those with the same text.
        other: Those with another text, and what cannot be a folder.
    """

    same: frozenset[str]
    other: tuple[str, ...]


def existing(folder: Path, files: Mapping[str, str]) -> Existing:
    """Which of the files are there.

    Raises:
        OSError: the system does not let us look.
    """
    same, other = set(), []
    for path, text in files.items():
        place = folder / path
        if above := _in_the_way(folder, path):
            other.append(above)
        elif place.is_file() and place.read_bytes() == text.encode():
            same.add(path)
        elif place.exists() or place.is_symlink():
            other.append(path)
    return Existing(frozenset(same), tuple(dict.fromkeys(other)))


def write(folder: Path, files: Mapping[str, str]) -> list[Diagnostic]:
    """Writes files that are not there; the folders are made.

    Returns:
        ET5023 for each link in the way; ET5003 if one is there after all, or the system refuses.
    """
    return write_files(folder, {path: text.encode() for path, text in files.items()}, only_new=True)


def _in_the_way(folder: Path, path: str) -> str | None:
    """What stands where a folder of the path should be."""
    for part in reversed(Path(path).parents[:-1]):
        place = folder / part
        if place.is_symlink() and not place.exists():
            return part.as_posix()
        if place.exists() and not place.is_dir():
            return part.as_posix()
    return None
