"""Find and read the configuration file of a repository, and locate its values.

The file is `etcompile.toml`, or a `pyproject.toml` with a table `[tool.etcompile]`. The nearest one
above the input counts, as with ruff. The search ends at the root of the Git repository, so that no
file outside of it changes what is rendered. The commands know what the settings mean.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.digest import sha256
from etcompile.k8s.path import value_at
from etcompile.load import access
from etcompile.load.access import Boundary

FILE = "etcompile.toml"
_PROJECT = "pyproject.toml"
_TABLE = ("tool", "etcompile")
GLOB = re.compile(r"[*?\[]")
"""A character that makes a path a pattern."""
_AT = re.compile(r"\(at line (\d+), column (\d+)\)")
_LIMIT = 1 << 20
Place = tuple[str | int, ...]


class Configuration(Struct, frozen=True):
    """A configuration file.

    Args:
        file: Its path for messages: relative to the working directory if it is below that.
        folder: The folder to which its paths are relative.
        root: The folder that its paths must not leave: the root of the repository.
        table: The keys of its settings; empty if the whole file is settings.
    """

    file: str
    folder: str
    root: str
    text: str
    table: tuple[str, ...]
    values: Mapping[str, Any]

    @property
    def digest(self) -> str:
        """Return the SHA-256, in hexadecimal, of its settings without comments."""
        return sha256(repr(_sorted(self.values)).encode())

    def location(self, place: Place) -> Location:
        """Locate a value by the statement that sets it.

        The parser of the standard library reports no positions. But a file that is cut off after a
        statement is valid, so the first such part that has the value ends with its statement.
        """
        import tomllib  # noqa: PLC0415 - only diagnostics need it

        place = (*self.table, *place)
        lines = self.text.splitlines()
        keys = tuple(key for key in place if isinstance(key, str))
        start = 0
        for end in range(1, len(lines) + 1):
            try:
                part: Any = tomllib.loads("\n".join(lines[:end]) + "\n")
            except tomllib.TOMLDecodeError:
                continue
            if value_at(part, keys) is not None:
                value = value_at(part, place)
                return _in_statement(self.file, lines, range(start, end), place, value)
            start = end
        return Location(self.file)


def read(path: str, root: str) -> Configuration | Diagnostic | None:
    """Read a configuration file.

    The path is an `etcompile.toml` (or another name with that format) or a `pyproject.toml`, which
    returns None without the table. A missing file raises FileNotFoundError.
    """
    shown = from_here(path)
    try:
        content = access.content(path, Boundary(root), _LIMIT)
    except FileNotFoundError:
        raise
    except OSError as error:
        problem = (error.strerror or str(error)).lower()
        if isinstance(error, access.OutsideError):
            problem = f"it leads out of the repository {error.boundary.root}"
        elif isinstance(error, access.SpecialFileError):
            problem = f"it is {error.what}"
        return diagnose(codes.CONFIGURATION_SYNTAX, Location(shown), problem=problem)
    is_project = os.path.basename(path) == _PROJECT  # noqa: PTH119 - start quickly
    if is_project and _TABLE[-1].encode() not in content:
        return None
    import tomllib  # noqa: PLC0415 - most runs have no file to read

    try:
        text = content.decode("utf-8-sig")  # Windows writes a byte order mark
        values: Any = tomllib.loads(text)
    except UnicodeDecodeError:
        return diagnose(codes.CONFIGURATION_SYNTAX, Location(shown), problem="it is not UTF-8")
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return _syntax_error(shown, text, str(error))
    table = _TABLE if is_project else ()
    for key in table:
        values = values.get(key) if isinstance(values, dict) else None
    if values is None and is_project:
        return None
    folder = os.path.dirname(path) or "."  # noqa: PTH120
    configuration = Configuration(shown, folder, root, text, table, values)
    if not isinstance(values, dict):
        where = configuration.location(())
        return diagnose(codes.CONFIGURATION_SYNTAX, where, problem="tool.etcompile is no table")
    return configuration


def named(path: str) -> Configuration | Diagnostic:
    """Read the file that the user names; return what is wrong if it holds no settings."""
    repository = root_of(os.path.dirname(os.path.realpath(path)))  # noqa: PTH120
    result, problem = None, "it has no table [tool.etcompile]"
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        result = read(path, repository)
    if result is None and not os.path.exists(path):  # noqa: PTH110
        problem = "there is no such file"
    return result or diagnose(codes.CONFIGURATION_SYNTAX, Location(path), problem=problem)


def of_inputs(paths: Sequence[str], root: str | None) -> Configuration | Diagnostic | None:
    """Return the file that applies to all inputs; the problem if there are several.

    Args:
        root: The folder at which the search ends; that of each input's repository if None.
    """
    folders = dict.fromkeys(folder for path in paths for folder in folders_of(path))
    result: Configuration | None = None
    for number, folder in enumerate(folders):
        other = nearest(folder, root_of(folder) if root is None else os.path.realpath(root))
        if isinstance(other, Diagnostic):
            return other
        files = [each.file if each else "none" for each in (result, other)]
        if number and files[0] != files[1]:
            return diagnose(codes.SEVERAL_CONFIGURATIONS, None, first=files[0], second=files[1])
        result = other
    return result


def nearest(folder: str, root: str) -> Configuration | Diagnostic | None:
    for place in upwards(folder):
        for name in (FILE, _PROJECT):
            try:
                configuration = read(os.path.join(place, name), root)  # noqa: PTH118
            except (FileNotFoundError, NotADirectoryError):
                continue
            if configuration is not None:
                return configuration
        if place == root:
            break
    return None


def folder_of(path: str) -> str:
    """Return the folder, without links, at which the search for an input's configuration starts."""
    if path == "-":
        return os.path.realpath(".")
    if not os.path.exists(path):  # noqa: PTH110
        while GLOB.search(path):
            path = os.path.dirname(path)  # noqa: PTH120
    real = os.path.realpath(path or ".")
    return real if os.path.isdir(real) else os.path.dirname(real)  # noqa: PTH112, PTH120


def folders_of(path: str) -> Iterator[str]:
    """Yield the folders, without links, whose configurations may apply to files of an input."""
    yield folder_of(path)
    if path == "-":
        return
    if not os.path.exists(path) and GLOB.search(path):  # noqa: PTH110
        import glob  # noqa: PLC0415 - start quickly

        for match in sorted(glob.iglob(path, recursive=True)):  # noqa: PTH207
            yield folder_of(match)
        return
    for place, folders, files in os.walk(os.path.realpath(path)):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if FILE in files or _PROJECT in files:
            yield place


def from_here(path: str) -> str:
    """Return a path from the working directory if it is below that, else as it is."""
    short = os.path.relpath(path or ".")
    return path if short.startswith(os.pardir) else short


def root_of(folder: str) -> str:
    """Return the root of the repository around a folder: the nearest that has a `.git`.

    Without a repository it is the working directory if that contains the folder, else the folder
    itself, because the folders above belong to other people.
    """
    for place in upwards(folder):
        if os.path.lexists(os.path.join(place, ".git")):  # noqa: PTH118
            return place
    here = os.path.realpath(".")
    return here if folder == here or folder.startswith(here.rstrip(os.sep) + os.sep) else folder


def upwards(folder: str) -> Iterator[str]:
    yield folder
    while (above := os.path.dirname(folder)) != folder:  # noqa: PTH120
        folder = above
        yield folder


def _syntax_error(file: str, text: str, problem: str) -> Diagnostic:
    match = _AT.search(problem)
    words = _AT.sub("", problem).strip()
    words = f"{words[:1].lower()}{words[1:]}"
    lines = text.splitlines() or [""]
    line, column = (int(match[1]), int(match[2])) if match else (len(lines), len(lines[-1]) + 1)
    line = min(line, len(lines))
    where = Location(file, line, column, lines[line - 1])
    return diagnose(codes.CONFIGURATION_SYNTAX, where, problem=words)


def _in_statement(
    file: str, lines: Sequence[str], numbers: range, place: Place, value: Any
) -> Location:
    first = next(
        (n for n in numbers if lines[n].strip() and not lines[n].lstrip().startswith("#")),
        numbers[-1],
    )
    if place and isinstance(place[-1], int) and isinstance(value, str):
        for number in range(first, numbers.stop):
            after = lines[number].find("=") + 1 if number == first else 0
            for quote in ('"', "'"):
                column = lines[number].find(f"{quote}{value}{quote}", after)
                if column >= 0:
                    width = len(value) + 2
                    return Location(file, number + 1, column + 1, lines[number], width)
    key = str(next((key for key in reversed(place) if isinstance(key, str)), ""))
    column = lines[first].find(key)
    width = len(key) if key and column >= 0 else 1
    return Location(file, first + 1, max(column, 0) + 1, lines[first], width)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _sorted(value[key])) for key in sorted(value)]
    return [_sorted(item) for item in value] if isinstance(value, list) else value
