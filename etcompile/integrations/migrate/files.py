"""Writes the files of a hand-over, unless somebody has changed them.

The first line of each has a digest of the rest, so that a second run replaces what the first one
wrote, and nothing else.
"""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.emit.files import refused, write_files

_MARK = "Written by etcompile migrate"
_FIRST = re.compile(rf"(?:# |<!-- ){_MARK}; digest (?P<digest>[0-9a-f]{{12}})(?: -->)?")


def marked(name: str, text: str) -> str:
    """The text of a file with its first line."""
    line = f"{_MARK}; digest {_digest(text)}"
    return f"<!-- {line} -->\n{text}" if name.endswith(".md") else f"# {line}\n{text}"


def written(folder: Path, files: Mapping[str, str]) -> list[Diagnostic]:
    """Writes files into a folder, all of them or none.

    Args:
        folder: The folder; made if it is not there.
        files: Name to text, as `marked` made it.

    Returns:
        An error for each file that is in the way, or cannot be written.
    """
    problems = refused(folder, files)
    for name in files:
        path = folder / name
        if path.exists() and not path.is_symlink() and not _is_ours(path):
            problems.append(diagnose(codes.FOREIGN_FILE, None, path=str(path)))
    return problems or write_files(folder, {name: text.encode() for name, text in files.items()})


def _is_ours(path: Path) -> bool:
    """Whether a file is as it was written."""
    try:
        first, _, rest = path.read_bytes().decode().partition("\n")
    except (OSError, UnicodeDecodeError):
        return False
    found = _FIRST.fullmatch(first)
    return found is not None and found["digest"] == _digest(rest)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
