"""Paths, text or Python values to documents: the three ways in.

This module only strings the others together: bytes come from `sources`, JSON values from
`values`, objects from `objects`.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct, field, structs

from etcompile.diagnostics import Diagnostic, Location, codes, diagnose, has_errors
from etcompile.digest import sha256
from etcompile.load import access
from etcompile.load.document import Document
from etcompile.load.limits import Limits
from etcompile.load.objects import Node, documents
from etcompile.load.positions import Origin
from etcompile.load.python_values import json_value
from etcompile.load.sources import (
    Identity,
    SourceFile,
    file_bytes,
    shown_path,
    sources,
    stream_bytes,
    too_large,
)
from etcompile.load.text import Text, control_character, decoded
from etcompile.load.values import Events, read

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment

_STDIN = "-"


class Loaded(Struct, frozen=True):
    """What was loaded.

    Args:
        documents: The documents, in the order of the paths and of the files.
        diagnostics: Everything wrong with the input, in the same order.
        comments: The comments of the files that ask for silence about a warning.
    """

    documents: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]
    comments: "tuple[IgnoreComment, ...]" = ()


_DEFAULT = Limits()


def load(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    limits: Limits = _DEFAULT,
    output: str | os.PathLike[str] | None = None,
) -> Loaded:
    """The documents of files, directories, globs and standard input.

    Args:
        paths: Paths as on the command line; `-` is standard input. A file that several of them
            reach is loaded once.
        stdin: What `-` reads; the process's standard input if None.
        limits: How much to accept.
        output: A folder that directories and globs pass over: where the result goes.

    Returns:
        The documents and the diagnostics. Never raises for bad input.
    """
    run = _Run(stdin, limits, None if output is None else os.path.realpath(os.fsdecode(output)))
    for path in paths:
        run.add(os.fsdecode(path))
    # A shell's glob names files of comments, too: one that says so may stand beside others.
    nothing = [] if any(run.fruitful.values()) else run.comments_only
    return Loaded(
        tuple(run.documents),
        (*run.diagnostics, *nothing),
        tuple(run.comments),
    )


def parse(
    text: str | bytes,
    *,
    file: str = _STDIN,
    relative: str | None = None,
    limits: Limits = _DEFAULT,
) -> Loaded:
    """The documents of one text.

    Args:
        text: YAML, or JSON objects one after another.
        file: What diagnostics call it.
        relative: Its name independent of the working directory; `file` if None.
        limits: How much to accept.

    Returns:
        The documents and the diagnostics. Never raises for bad input.
    """
    loaded = _parsed(text, file, file if relative is None else relative, limits)
    if loaded.documents or has_errors(loaded.diagnostics):
        return loaded
    nothing = diagnose(codes.NO_DOCUMENTS, Location(file), what="this text")
    return Loaded((), (*loaded.diagnostics, nothing), loaded.comments)


def from_values(values: Iterable[Mapping[str, Any]], *, file: str = "<python>") -> Loaded:
    """The documents that Python mappings are.

    Args:
        values: Kubernetes objects; they are copied.
        file: What diagnostics call their origin; there are no lines to name.

    Returns:
        The documents and the diagnostics. Never raises for bad values.
    """
    nodes: list[Node] = []
    problems: list[Diagnostic] = []
    for value in values:
        copied, problem = json_value(value, file, _DEFAULT)
        problems += [problem] if problem else []
        nodes.append(Node(copied, None))
    found, more = documents(nodes, file, file, _DEFAULT)
    return Loaded(tuple(found), (*problems, *more))


class _Run(Struct):
    """A run over several paths: what was found, and which files were already read."""

    stdin: BinaryIO | None
    limits: Limits
    output: str | None
    documents: list[Document] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    comments: "list[IgnoreComment]" = field(default_factory=list)
    # Whether each file that was read held a document, or something to correct.
    fruitful: dict[Identity | str, bool] = field(default_factory=dict)
    # Those that hold not one byte to read: perhaps somebody's job, lost on the way.
    blank: set[Identity | str] = field(default_factory=set)
    # ET1011 for each file that was named and holds comments, or a kustomization, and no more.
    comments_only: list[Diagnostic] = field(default_factory=list)

    def add(self, path: str) -> None:
        """Loads what one path names."""
        told = self.diagnostics
        if path == _STDIN:
            what, fruitful = "standard input", self._add_stdin()
        else:
            found = sources(path, self.limits.boundary)
            what = f"this {found.kind}"
            files = [
                file for file in found.files if found.kind == "file" or not self._is_output(file)
            ]
            fruitful = any([self._add_source(file) for file in files])  # noqa: C419 - all of them
            if found.kind == "file" and not self._is_blank(files):
                told = self.comments_only
        if not fruitful:
            told.append(diagnose(codes.NO_DOCUMENTS, Location(shown_path(path)), what=what))

    def _is_blank(self, files: Iterable[SourceFile | Diagnostic]) -> bool:
        return any(isinstance(file, SourceFile) and file.identity in self.blank for file in files)

    def _is_output(self, source: SourceFile | Diagnostic) -> bool:
        if self.output is None or isinstance(source, Diagnostic):
            return False
        return os.path.realpath(source.path).startswith(f"{self.output}{os.sep}")

    def _add_stdin(self) -> bool:
        if _STDIN not in self.fruitful:
            stream = self.stdin or getattr(sys.stdin, "buffer", None)
            if (held := access.held(_STDIN)) is not None:
                self._add_text(held, _STDIN, _STDIN, _STDIN)
            elif stream is None:
                closed = diagnose(
                    codes.UNREADABLE_FILE, Location(_STDIN), reason="standard input is closed"
                )
                self._add_text(closed, _STDIN, _STDIN, _STDIN)
            else:
                data = stream_bytes(stream, _STDIN, self.limits.file_bytes)
                self._add_text(data, _STDIN, _STDIN, _STDIN)
        return self.fruitful[_STDIN]

    def _add_source(self, source: SourceFile | Diagnostic) -> bool:
        if isinstance(source, Diagnostic):
            self.diagnostics.append(source)
            return True
        if source.identity not in self.fruitful:
            data = file_bytes(
                source.path, source.shown, self.limits.file_bytes, self.limits.boundary
            )
            self._add_text(data, source.shown, source.relative, source.identity)
        return self.fruitful[source.identity]

    def _add_text(
        self, data: bytes | Diagnostic, file: str, relative: str, identity: Identity | str
    ) -> None:
        loaded = (
            Loaded((), (data,))
            if isinstance(data, Diagnostic)
            else _parsed(data, file, relative, self.limits)
        )
        found = None if isinstance(data, Diagnostic) else sha256(data)
        self.documents += (structs.replace(document, digest=found) for document in loaded.documents)
        self.diagnostics += loaded.diagnostics
        self.comments += loaded.comments
        if not isinstance(data, Diagnostic) and not data.strip():
            self.blank.add(identity)
        self.fruitful[identity] = bool(loaded.documents) or has_errors(loaded.diagnostics)


def _parsed(data: str | bytes, file: str, relative: str, limits: Limits) -> Loaded:
    """The documents of a text, which may be none at all."""
    if len(data) > limits.file_bytes:
        return Loaded((), (too_large(file, limits.file_bytes),))
    text = (
        decoded(data, file) if isinstance(data, bytes) else Text(file, data.removeprefix("\ufeff"))
    )
    if isinstance(text, Diagnostic):
        return Loaded((), (text,))
    problem = control_character(text)
    return Loaded((), (problem,)) if problem else _documents(text, relative, limits)


def _documents(text: Text, relative: str, limits: Limits) -> Loaded:
    reading = read(text, limits)
    nodes = [
        Node(document.value, Origin(text, document.start, document.end, reading.events))
        for document in reading.documents
        if document.sound
    ]
    found, more = documents(nodes, text.file, relative, limits)
    problems = [*reading.problems, *more]
    comments = _ignore_comments(text, reading.events)
    if comments:
        found = [structs.replace(document, comments=comments) for document in found]
    # Both brackets of a template are keys that cannot be.
    told = tuple(dict.fromkeys(sorted(problems, key=_line_and_column)))
    # Half a file is nobody's intention, though the documents beside the broken one are whole.
    if reading.broken or any(diagnostic.code == codes.TOO_MANY_DOCUMENTS for diagnostic in more):
        return Loaded((), told, comments)
    return Loaded(tuple(found), told, comments)


def _ignore_comments(text: Text, events: Events) -> "tuple[IgnoreComment, ...]":
    """The comments that ask for silence; most files have no comment that speaks to etcompile."""
    if "etcompile:" not in text.content:
        return ()
    from etcompile.load.comments import ignore_comments  # noqa: PLC0415 - few files need it

    return ignore_comments(text, events)


def _line_and_column(problem: Diagnostic) -> tuple[int, int]:
    place = problem.location
    return (place.line or 0, place.column or 0) if place else (0, 0)
