"""Extract the files of a Git revision into a folder that can be read like any other.

Git is only asked for names and contents: no worktree, no checkout and no filters, so the repository
does not change. Files have the same paths as in the repository, so that relative paths, globs and
links work.
"""

import itertools
import os
import posixpath
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from msgspec import Struct, structs

from etcompile.load.configuration import root_of
from etcompile.load.sources import SUFFIXES

_LARGEST = 256 * 1024 * 1024  # the most bytes of all files together
_FILES = ("100644", "100755", "100664")
_LINK = "120000"


_BASES = {
    "GITHUB_BASE_REF": "origin/",
    "CI_MERGE_REQUEST_DIFF_BASE_SHA": "",
    "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "origin/",
}
"""Variables with which CI names the base of a pull request, each with Git's prefix for it."""


class RevisionError(Exception):
    """Git cannot read the revision."""


class Revision(Struct, frozen=True):
    """A commit of a repository."""

    name: str
    commit: str
    top: Path

    def within(self, path: str) -> str | None:
        # Resolve only the parent: a link in the repository is one of its files.
        whole = Path(os.path.abspath(path))  # noqa: PTH100
        whole = whole.parent.resolve() / whole.name if whole.name else whole
        top = self.top.resolve()
        return str(PurePosixPath(whole.relative_to(top))) if whole.is_relative_to(top) else None


def revision(name: str, directory: Path) -> Revision:
    """Return the commit of a branch, a tag, an id or `HEAD~3`."""
    top = Path(os.fsdecode(_git(directory, "rev-parse", "--show-toplevel").rstrip(b"\n")))
    spec = f"{name}^{{commit}}"
    try:
        commit = _git(top, "rev-parse", "--verify", "--quiet", "--end-of-options", spec)
    except RevisionError as error:
        raise RevisionError(f"'{name}' is no revision of {top}{_remedy(top)}") from error
    return Revision(name, commit.decode().strip(), top)


def base(name: str | None, output: Path) -> Revision | None:
    """Return the commit that a change is based on.

    Without a name, it is the commit at which HEAD left the base of CI's pull request, if there is
    one and the output folder is in a repository.
    """
    if name is not None:
        return revision(name, Path.cwd())
    names = (prefix + os.environ.get(variable, "") for variable, prefix in _BASES.items())
    name = next((name for name in names if name not in _BASES.values()), None)
    top = Path(root_of(os.path.realpath(output.parent)))
    if name is None or not (top / ".git").exists():
        return None
    of = revision(name, top)
    try:
        commit = _git(of.top, "merge-base", "HEAD", of.commit)
    except RevisionError as error:
        problem = f"the history since '{name}' is not in {of.top}{_remedy(of.top)}"
        raise RevisionError(problem) from error
    return structs.replace(of, commit=commit.decode().strip())


def _remedy(top: Path) -> str:
    if _git(top, "rev-parse", "--is-shallow-repository").strip() != b"true":
        return ""
    return ", a shallow clone: fetch all (actions/checkout: fetch-depth: 0; GitLab: GIT_DEPTH: 0)"


def unpack(of: Revision, paths: Iterable[str], folder: Path, *, every: bool = False) -> list[str]:
    """Write files of a revision to a folder, and return the paths that exist.

    Paths have `/`. A folder, or the folder where a glob starts, means its YAML and JSON files, or
    `every` file.
    """
    existing: list[str] = []
    blobs: dict[str, str] = {}
    links: dict[str, str] = {}
    total = 0
    named = list(dict.fromkeys(paths))
    waiting = [*named]
    seen = {*named}
    for path in waiting:
        entries = _entries(of, path)
        if path in named and (entries or _start(path) == "."):
            existing.append(path)
        for entry in entries:
            name = entry.name
            if entry.mode in _FILES and (every or name == path or name.endswith(SUFFIXES)):
                total += 0 if name in blobs else entry.size
                blobs[name] = entry.blob
        if total > _LARGEST:
            raise RevisionError(f"its files have {total // 1024 // 1024} MB: name fewer paths")
        targets = _links(of, path, [entry for entry in entries if entry.mode == _LINK])
        links |= targets
        waiting += [where for where in dict.fromkeys(targets.values()) if where not in seen]
        seen |= {*targets.values()}
    for name, content in zip(blobs, _contents(of.top, blobs.values()), strict=True):
        _put(folder, name, content)
    # Create links after the files, so that no file is written through a link.
    for name, where in links.items():
        _put(folder, name, PurePosixPath(posixpath.relpath(where, posixpath.dirname(name) or ".")))
    return existing


class _Entry(NamedTuple):
    """A file or a link of a tree."""

    mode: str
    blob: str
    size: int
    name: str


def _entries(of: Revision, path: str) -> list[_Entry]:
    start = _start(path)
    arguments = ["ls-tree", "-r", "-l", "-z", "--full-tree", of.commit]
    literal = [] if start == "." else ["--", start]
    entries: list[_Entry] = []
    for line in _git(of.top, "--literal-pathspecs", *arguments, *literal).split(b"\0"):
        if line:
            facts, _, name = line.partition(b"\t")
            mode, _, blob, size = facts.decode().split()
            number = int(size) if size.isdigit() else 0
            entries.append(_Entry(mode, blob, number, os.fsdecode(name)))
    return entries


def _links(of: Revision, path: str, entries: list[_Entry]) -> dict[str, str]:
    targets = {}
    texts = _contents(of.top, [entry.blob for entry in entries])
    for entry, text in zip(entries, map(os.fsdecode, texts), strict=True):
        name = entry.name
        folder = posixpath.dirname(name)
        where = posixpath.normpath(posixpath.join(folder, text))
        if not posixpath.isabs(where) and where.split("/")[0] != "..":
            targets[name] = where
        # Report a link out of the repository if it could lead to a folder or an input.
        elif name == path or name.endswith(SUFFIXES) or (of.top / folder / text).is_dir():
            raise RevisionError(f"its '{name}' is a link to {text}, which is in no revision")
    return targets


def _put(folder: Path, name: str, content: bytes | PurePosixPath) -> None:
    # Git refuses to write such names and trees, but other programs do.
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise RevisionError(f"it holds a file of the name '{name}'")
    file = folder / name
    twice = f"it holds several files of the name '{name}'"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            if file.is_symlink():
                raise RevisionError(twice)
            file.write_bytes(content)
        elif not file.is_symlink():
            file.symlink_to(content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise RevisionError(twice) from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise RevisionError(f"its file '{name}' cannot be written: {reason}") from error


def _start(path: str) -> str:
    """Return the folder where a glob starts; another path as it is."""
    parts = PurePosixPath(path).parts
    plain = itertools.takewhile(lambda part: not set(part) & set("*?["), parts)
    return str(PurePosixPath(*plain))


def _contents(top: Path, blobs: Iterable[str]) -> list[bytes]:
    request = "".join(f"{blob}\n" for blob in blobs).encode()
    if not request:
        return []
    answer = _git(top, "cat-file", "--batch", input=request)
    contents, place = [], 0
    for _ in range(request.count(b"\n")):
        end = answer.index(b"\n", place)
        size = int(answer[place:end].split()[2])
        contents.append(answer[end + 1 : end + 1 + size])
        place = end + 1 + size + 1
    return contents


def _git(directory: Path, *arguments: str, input: bytes | None = None) -> bytes:  # noqa: A002
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, input=input, capture_output=True, check=False)  # noqa: S603
    except OSError as error:
        raise RevisionError(f"git cannot be run: {error.strerror}") from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise RevisionError(words[0].removeprefix("fatal: ") if words else "git says no")
    return done.stdout
