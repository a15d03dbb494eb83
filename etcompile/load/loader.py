"""Turn paths, text or Python values into documents.

`sources` reads bytes and `yaml_values` JSON values. This module flattens Lists, skips
kustomizations and separates objects from anything else, as kubectl does before it sends objects. A
document is a JSON value that remembers where it was written. It implements `diagnostics.Source`, so
that every later stage can point at a line without knowing YAML.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from msgspec import Struct, field, structs

from etcompile.diagnostics import (
    Diagnostic,
    Location,
    Source,
    ValuePath,
    codes,
    diagnose,
    has_errors,
)
from etcompile.digest import sha256
from etcompile.k8s.path import dotted, text_at, value_at
from etcompile.load import access
from etcompile.load.access import Limits
from etcompile.load.configuration import folder_of, root_of
from etcompile.load.positions import Origin, ignore_comments
from etcompile.load.python_values import json_value
from etcompile.load.source_text import Text, control_character, decoded
from etcompile.load.sources import (
    Identity,
    SourceFile,
    file_bytes,
    output_folder,
    shown_path,
    sources,
    stream_bytes,
    too_large,
)
from etcompile.load.yaml_values import line_and_column, read
from etcompile.model.protocol import JOB_LABEL, MANAGER

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment

_STDIN = "-"
_KUSTOMIZATION = codes.KUSTOMIZATION_INPUT
_MANAGED_BY = "app.kubernetes.io/managed-by"
_KUSTOMIZE_GROUP = "kustomize.config.k8s.io/"
_KUSTOMIZE_KINDS = ("Kustomization", "Component")
_FUNCTION_GROUP = "etcompile.dev/"
_FUNCTION_KINDS = ("EtcompileGenerator", "EtcompileTransformer")
"""Entries of a kustomization that compile jobs; see `etcompile.integrations.krm`."""
_STEP = r"([A-Za-z]\w*)|\[(\d+)\]|\['([^']*)'\]"
_PATH = r"(?<![\w.])(?:spec|runtime)(?:\.[A-Za-z]\w*|\[\d+\]|\['[^']*'\])+"
"""The path of a field in a message, as `dotted` writes it, and one step of it."""
KUSTOMIZE_FILES = ("kustomization.yaml", "kustomization.yml", "Kustomization")


class Places(Protocol):
    """Locates values: a text, or texts that override each other."""

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """Locate the value at `path` or its nearest parent; the key of it if `key`."""


class Document(Struct, frozen=True, eq=False):
    """One object of the input.

    Args:
        file: The file as shown to the user: the path as given, joined for the members of a
            directory; `-` for standard input.
        relative: A name that does not depend on the working directory: the path inside the
            directory that was named, else the file's base name.
        index: The document's number in its file, from 0; the items of a List count one by one.
        data: A JSON value, a mapping with apiVersion and kind. Treat it as immutable, because
            documents may share parts.
        origin: Where its values were written; None if they were not read from text.
        path: Its path in that text's document: `("items", 3)` for an item of a List.
        digest: The SHA-256 of its file, in hexadecimal; None if it comes from no file.
        comments: The comments of its file that suppress a warning.
        in_output: Its file is in an output folder.
    """

    file: str
    relative: str
    index: int
    data: dict[str, Any]
    origin: Places | None = field(default=None)
    path: ValuePath = ()
    digest: str | None = field(default=None)
    comments: "tuple[IgnoreComment, ...]" = ()
    in_output: bool = False

    @property
    def is_rendered(self) -> bool:
        """Report whether etcompile wrote it: such an object is never compiled again."""
        labels = value_at(self.data, ("metadata", "labels"))
        is_ours = isinstance(labels, dict) and labels.get(_MANAGED_BY) == MANAGER
        return self.in_output or (is_ours and JOB_LABEL in labels)

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        """Locate the value at `path` or its nearest parent; the file alone for a Python value."""
        if self.origin is None:
            return Location(self.file)
        return self.origin.locate((*self.path, *path), key=key)

    @property
    def api_version(self) -> str | None:
        return text_at(self.data, ("apiVersion",))

    @property
    def kind(self) -> str | None:
        return text_at(self.data, ("kind",))

    @property
    def name(self) -> str | None:
        return text_at(self.data, ("metadata", "name"))

    @property
    def namespace(self) -> str | None:
        return text_at(self.data, ("metadata", "namespace"))

    @property
    def label(self) -> str:
        name = self.name or text_at(self.data, ("metadata", "generateName")) or "(no name)"
        return f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"


class _MovedPlaces(Struct, frozen=True, eq=False):
    """The places of a document whose fields have moved.

    Args:
        moved: New paths to paths in the text.
    """

    written: Document
    moved: Mapping[ValuePath, ValuePath]

    def origin_of(self, path: ValuePath) -> tuple[Document, ValuePath, bool]:
        """Return the document as it was written, and the path of a value in it; see `Traced`."""
        for length in range(len(path), 0, -1):
            before = self.moved.get(path[:length])
            if before is not None:
                return self.written, (*before, *path[length:]), False
        return self.written, path, False

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:
        source, written, _ = self.origin_of(path)
        return source.locate(written, key=key)


def as_written(document: Source, problem: Diagnostic) -> Diagnostic:
    """Rename fields in a diagnostic to the paths that the document's author wrote.

    A field that has moved, or comes from a runtime, has another path in the compiled document than
    in the file. Fields that an overlay changes keep the path in the document.
    """
    if not hasattr(getattr(document, "origin", document), "origin_of"):
        return problem

    def written(match: re.Match[str]) -> str:
        steps = re.findall(_STEP, match[0])
        path: ValuePath = tuple(int(index) if index else name or key for name, index, key in steps)
        source: Any = document
        while origin_of := getattr(getattr(source, "origin", source), "origin_of", None):
            source, path, is_missing = origin_of(path)
            if is_missing:
                return match[0]
        return match[0] if source.data.get("kind") == "Overlay" else dotted(path)

    texts = (problem.message, problem.hint or "", problem.where)
    message, hint, where = (re.sub(_PATH, written, text) for text in texts)
    return structs.replace(problem, message=message, hint=hint or None, where=where)


def relocated(
    document: Document, data: Mapping[str, Any], moved: Mapping[ValuePath, ValuePath]
) -> Document:
    """Replace the data of a document whose fields have moved from the places in `moved.values()`.

    Fields of an older API version, or in the places of another tool, move to where the kind expects
    them before any other stage runs. Their diagnostics still point at the original lines.
    """
    places = _MovedPlaces(document, dict(moved))
    return structs.replace(document, data=dict(data), origin=places, path=())


Input = str | os.PathLike[str] | Mapping[str, Any] | Document
"""A path as on the command line, a mapping, or a loaded document."""


class Loaded(Struct, frozen=True):
    """The result of loading.

    Args:
        outputs: The output folders that were skipped.
    """

    documents: tuple[Document, ...]
    diagnostics: tuple[Diagnostic, ...]
    comments: "tuple[IgnoreComment, ...]" = ()
    outputs: tuple[str, ...] = ()


_DEFAULT = Limits()


def load(
    paths: Sequence[str | os.PathLike[str]],
    *,
    stdin: BinaryIO | None = None,
    limits: Limits = _DEFAULT,
    output: str | os.PathLike[str] | None = None,
    is_job: Callable[[Document], bool] = lambda _: False,
) -> Loaded:
    """Load the documents of files, directories, globs and standard input; bad input never raises.

    Output folders are skipped if a job was loaded from elsewhere; otherwise their files come last.
    With the folder `output` of this run, only output folders that paths name are read.
    """
    target = None if output is None else os.path.realpath(os.fsdecode(output))
    run = _Run(stdin, limits, target)
    for path in paths:
        run.add(os.fsdecode(path))
    has_jobs = any(map(is_job, run.documents))
    skipped = {each for each in run.outputs if has_jobs or (target and each not in run.named)}
    for folder, files in run.outputs.items():
        for source in () if folder in skipped else files:
            run.add_file(source, in_output=True)
    # A shell's glob may include files of comments: accept them if others hold documents.
    nothing = [] if any(run.fruitful.values()) else run.comments_only
    problems, others = (*run.diagnostics, *nothing), sorted(skipped - {target})
    return Loaded(tuple(run.documents), problems, tuple(run.comments), tuple(others))


def parse(
    text: str | bytes,
    *,
    file: str = _STDIN,
    limits: Limits = _DEFAULT,
) -> Loaded:
    """Load the documents of one text; bad input never raises."""
    loaded = _parsed(text, file, file, limits)
    if loaded.documents or has_errors(loaded.diagnostics):
        return loaded
    nothing = diagnose(codes.NO_DOCUMENTS, Location(file), what="this text")
    return Loaded((), (*loaded.diagnostics, nothing), loaded.comments)


def from_values(values: Iterable[Mapping[str, Any]], *, file: str = "<python>") -> Loaded:
    roots: list[Document] = []
    problems: list[Diagnostic] = []
    for value in values:
        copied, problem = json_value(value, file, _DEFAULT)
        problems += [problem] if problem else []
        roots.append(Document(file, file, 0, copied))
    documents, more = _documents(roots, _DEFAULT)
    return Loaded(tuple(documents), (*problems, *more))


class _Run(Struct):
    """The state of loading several paths.

    Args:
        fruitful: By file: it holds a document, or something to correct.
        blank: Files without any text, which may be a job that was lost on the way.
        comments_only: ET1011 for each named file that holds only comments or a kustomization.
        outputs: The files of each output folder.
        named: The output folders that named paths are in.
    """

    stdin: BinaryIO | None
    limits: Limits
    output: str | None
    documents: list[Document] = field(default_factory=list)
    diagnostics: list[Diagnostic] = field(default_factory=list)
    comments: "list[IgnoreComment]" = field(default_factory=list)
    fruitful: dict[Identity | str, bool] = field(default_factory=dict)
    blank: set[Identity | str] = field(default_factory=set)
    comments_only: list[Diagnostic] = field(default_factory=list)
    outputs: dict[str, list[SourceFile]] = field(default_factory=dict)
    named: set[str | None] = field(default_factory=set)

    def add(self, path: str) -> None:
        """Load what one path names, except files in output folders."""
        reported, exclude = self.diagnostics, self.limits.exclude
        if path == _STDIN:
            what, fruitful = "standard input", self._add_stdin()
        else:
            named = sources(path, self.limits.boundary)
            what = f"this {named.kind}"
            fruitful, blank = False, False
            top = root_of(folder_of(path))
            self.named.add(output_folder(folder_of(path), top))
            # Files below -d are inputs if a path names them and there is no lock.
            is_below = output_folder(folder_of(path), top, self.output) == self.output
            unlocked = None if is_below else self.output
            for source in named.files:
                if isinstance(source, Diagnostic):
                    self.diagnostics.append(source)
                    fruitful = True
                    continue
                if named.kind != "file" and exclude.matches(source.path):
                    continue
                folder = os.path.dirname(source.path)  # noqa: PTH120
                if output := output_folder(folder, top, unlocked):
                    self.outputs.setdefault(output, []).append(source)
                    fruitful = fruitful or output != self.output
                    continue
                self.add_file(source)
                fruitful = fruitful or self.fruitful[source.identity]
                blank = blank or source.identity in self.blank
            if named.kind == "file" and not blank:
                reported = self.comments_only
        if not fruitful:
            reported.append(diagnose(codes.NO_DOCUMENTS, Location(shown_path(path)), what=what))

    def add_file(self, source: SourceFile, *, in_output: bool = False) -> None:
        """Load a file that has not been loaded yet; do not report kustomizations in output."""
        if source.identity in self.fruitful:
            return
        limit, boundary = self.limits.file_bytes, self.limits.boundary
        data = file_bytes(source.path, source.shown, limit, boundary)
        known, reported = len(self.documents), len(self.diagnostics)
        self._add_text(data, source.shown, source.relative, source.identity)
        if in_output:
            objects = self.documents[known:]
            self.documents[known:] = (structs.replace(each, in_output=True) for each in objects)
            problems = self.diagnostics[reported:]
            self.diagnostics[reported:] = (p for p in problems if p.code != _KUSTOMIZATION)

    def _add_stdin(self) -> bool:
        if _STDIN not in self.fruitful:
            data: bytes | Diagnostic | None = access.replacement(_STDIN)
            stream = self.stdin or getattr(sys.stdin, "buffer", None)
            if data is None and stream is not None:
                data = stream_bytes(stream, _STDIN, self.limits.file_bytes)
            elif data is None:
                reason = "standard input is closed"
                data = diagnose(codes.UNREADABLE_FILE, Location(_STDIN), reason=reason)
            self._add_text(data, _STDIN, _STDIN, _STDIN)
        return self.fruitful[_STDIN]

    def _add_text(
        self, data: bytes | Diagnostic, file: str, relative: str, identity: Identity | str
    ) -> None:
        if isinstance(data, Diagnostic):
            self.diagnostics.append(data)
            self.fruitful[identity] = has_errors([data])
            return
        loaded = _parsed(data, file, relative, self.limits)
        digest = sha256(data)
        self.documents += (structs.replace(item, digest=digest) for item in loaded.documents)
        self.diagnostics += loaded.diagnostics
        self.comments += loaded.comments
        if not data.strip():
            self.blank.add(identity)
        self.fruitful[identity] = bool(loaded.documents) or has_errors(loaded.diagnostics)


def _parsed(data: str | bytes, file: str, relative: str, limits: Limits) -> Loaded:
    if len(data) > limits.file_bytes:
        return Loaded((), (too_large(file, limits.file_bytes),))
    text = (
        decoded(data, file) if isinstance(data, bytes) else Text(file, data.removeprefix("\ufeff"))
    )
    if isinstance(text, Diagnostic):
        return Loaded((), (text,))
    if (problem := control_character(text)) is not None:
        return Loaded((), (problem,))
    reading = read(text, limits)
    comments = () if reading.is_json else ignore_comments(text)
    roots = (
        Document(
            file, relative, 0, each.value, Origin(text, each.start, each.end), (), None, comments
        )
        for each in reading.documents
        if each.sound
    )
    documents, more = _documents(roots, limits)
    # Both brackets of a template are invalid keys; report the problem once.
    problems = tuple(dict.fromkeys(sorted((*reading.problems, *more), key=line_and_column)))
    if problems:
        from etcompile.load.placeholders import hints_for_text  # noqa: PLC0415 - few need it

        problems = tuple(hints_for_text(problems, text.content))
    # Drop the whole documents before a broken one, since half a file is never intended.
    if reading.broken or any(diagnostic.code == codes.TOO_MANY_DOCUMENTS for diagnostic in more):
        return Loaded((), problems, comments)
    return Loaded(tuple(documents), problems, comments)


def _documents(
    roots: Iterable[Document], limits: Limits
) -> tuple[list[Document], list[Diagnostic]]:
    """Return the objects in the documents of a text, numbered, and the problems of the others."""
    documents: list[Document] = []
    problems: list[Diagnostic] = []
    for root in roots:
        for item in _objects(root):
            if isinstance(item, Diagnostic):
                problems.append(item)
            elif len(documents) == limits.documents:
                facts = {"limit": limits.documents}
                problems.append(diagnose(codes.TOO_MANY_DOCUMENTS, item.locate(()), **facts))
                return [], problems
            else:
                number = len(documents)
                documents.append(structs.replace(item, index=number) if number else item)
    return documents, problems


def _objects(document: Document) -> Iterator[Document | Diagnostic]:
    """Yield the object that a document is, or the items of a list; nothing if it is empty."""
    value: Any = document.data
    if value is None:
        return
    if not isinstance(value, dict):
        shape = {str: "text", bool: "a boolean", int: "a number", float: "a number"}
        facts = {"found": shape.get(type(value), "a list"), "advice": _left_out(document.file)}
        yield diagnose(codes.NOT_AN_OBJECT, document.locate(()), **facts)
        return
    kind, version = value.get("kind"), value.get("apiVersion")
    if isinstance(kind, str) and (kind == "List" or (kind.endswith("List") and "items" in value)):
        yield from _items(document)
    elif kind in _KUSTOMIZE_KINDS and str(version).startswith(_KUSTOMIZE_GROUP):
        yield diagnose(_KUSTOMIZATION, document.locate(("kind",)), what="a kustomization")
    elif kind in _FUNCTION_KINDS and str(version).startswith(_FUNCTION_GROUP):
        yield diagnose(_KUSTOMIZATION, document.locate(("kind",)), what=f"an {kind}")
    elif kind is None and version is None and Path(document.file).name in KUSTOMIZE_FILES:
        # kustomize fills in apiVersion and kind itself.
        yield diagnose(_KUSTOMIZATION, document.locate(()), what="a kustomization")
    else:
        names = {name: value.get(name) for name in ("apiVersion", "kind")}
        lacking = [name for name, text in names.items() if not (isinstance(text, str) and text)]
        fields = (f"{each} that is text" if names[each] is not None else each for each in lacking)
        if not lacking:
            yield document
        else:
            facts = {"field": " and no ".join(fields), "advice": _left_out(document.file)}
            yield diagnose(codes.NO_KIND, document.locate((lacking[0],)), **facts)


def _left_out(file: str) -> str:
    add = "add apiVersion and kind"
    if file.startswith(("-", "<")):
        return add
    from etcompile.load.placeholders import helm_template  # noqa: PLC0415 - few need it

    if helm := helm_template(file):
        return f"the file is part of a chart: render that, for example {helm} | etcompile render -"
    exclude = f"exclude = [{json.dumps(Path(file).name, ensure_ascii=False)}]"
    return f"{add}; if the file is no Kubernetes object, write {exclude} into etcompile.toml"


def _items(document: Document) -> Iterator[Document | Diagnostic]:
    items = document.data.get("items")
    if not isinstance(items, list):
        yield diagnose(codes.LIST_ITEMS, document.locate(("items",)))
        return
    kind = document.data["kind"].removesuffix("List")
    for index, item in enumerate(items):
        path: ValuePath = ("items", index)
        if not isinstance(item, dict):
            yield diagnose(codes.LIST_ITEMS, document.locate(path))
            continue
        # The items of a typed list, such as PodList, need no kind.
        typed = item
        if kind and "kind" not in item and "apiVersion" not in item:
            typed = {"apiVersion": document.data.get("apiVersion"), "kind": kind, **item}
        yield from _objects(structs.replace(document, data=typed, path=document.path + path))
