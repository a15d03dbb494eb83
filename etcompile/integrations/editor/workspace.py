"""The files of an editor as the compiler sees them: open files count as they are on the screen."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field, structs
from yaml.nodes import ScalarNode

from etcompile import frontends
from etcompile.compiler import Compilation, compile  # noqa: A004
from etcompile.compiler.options import Options
from etcompile.compiler.runtimes import RUNTIME_KINDS, RUNTIME_VERSION
from etcompile.diagnostics import Diagnostic, Location
from etcompile.diagnostics.fix import TextEdit
from etcompile.fixes import fixed_files, text_edits, with_edits
from etcompile.fixes.nodes import Entry, composed, entries
from etcompile.integrations.editor import outline
from etcompile.k8s.path import value_at
from etcompile.load import Document, access, load

_SUFFIXES = (".yaml", ".yml", ".json")
_MOST_NEIGHBOURS = 200
"""Files beside one that names another document; in a larger folder it is looked at alone."""
_REFERENCES: Mapping[str, tuple[tuple[outline.Path, tuple[str, ...]], ...]] = {
    "ScaleOut": ((("spec", "selector", "name"), ()),),
    "ScaleIn": ((("spec", "selector", "name"), ()),),
    "ScalePlan": ((("spec", "ownerJob"), ("ElasticJob",)),),
    "TrainJob": ((("spec", "runtimeRef", "name"), RUNTIME_KINDS),),
}
"""By kind, the fields that name another document, and of which kinds that is; of any if none."""
_OURS = re.compile(
    # At the start of a line, as an item of a list or in brackets; as JSON has it, anywhere. What is
    # indented otherwise is in another document's text.
    r"""(?:(?:^|[\r\n])(?:[ ]*-[ ]+)?|[{,]\s*)apiVersion\s*:\s*['"]?([^\s'"#,}]+)"""
    r"""|"apiVersion"\s*:\s*"([^"]+)\""""
)
_REFERRING = re.compile(rf"""\bkind["']?\s*:\s*["']?(?:{"|".join(_REFERENCES)})\b""")


class Target(Struct, frozen=True):
    """Where a document says its name.

    Args:
        file: Its path.
        line: From 0.
        start: The first character of the name, from 0.
        end: The character after it.
    """

    file: str
    line: int
    start: int
    end: int


OptionsOf = Callable[[str], tuple[Options, Sequence[Diagnostic]]]
"""How the file of a path is compiled, and what is wrong with its configuration."""


class Workspace(Struct):
    """What an editor has open."""

    options: OptionsOf
    texts: dict[str, str] = field(default_factory=dict)

    def is_ours(self, path: str) -> bool:
        """Whether a file has a document of a kind that is compiled, or of one of its groups."""
        groups = {k.api_version.partition("/")[0] for k in frontends.kinds()}
        groups.add(RUNTIME_VERSION.partition("/")[0])
        said = (version[1] or version[2] for version in _OURS.finditer(self.text(path)))
        return any(version.partition("/")[0] in groups for version in said)

    def refers(self, path: str, other: str) -> bool:
        """Whether a file may name a document of another one, beside which it lies."""
        is_beside = os.path.dirname(path) == os.path.dirname(other)  # noqa: PTH120
        return is_beside and _REFERRING.search(self.text(path)) is not None

    def text(self, path: str) -> str:
        """What a file holds; nothing if it cannot be read."""
        if path in self.texts:
            return self.texts[path]
        try:
            return access.content(path).decode(errors="replace")
        except OSError:
            return ""

    def lines(self, path: str) -> list[str]:
        """The same, line by line."""
        return re.split(r"\r\n|\r|\n", self.text(path))

    def findings(self, path: str) -> list[Diagnostic]:
        """What is wrong with a file, with the edits that put it right."""
        if not self.is_ours(path):
            return []
        with access.instead_of(self._held()):
            found = self._compiled(path).findings
            told = (d for d in found if d.suppressed is None and _is_in(d.location, path))
            return [*map(_elsewhere, self.options(path)[1]), *with_edits(told)]

    def safe_edits(self, path: str) -> list[TextEdit]:
        """The edits that put all of a file right that can only have been meant one way."""

        def check() -> list[Diagnostic]:
            return [d for d in self._compiled(path).findings if _is_in(d.location, path)]

        with access.instead_of(self._held()):
            files = [file for file in fixed_files(check) if file.file == path]
        texts = [(file.before.decode(), file.after.decode()) for file in files]
        return [edit for before, after in texts for edit in text_edits(before, after)]

    def rendered(self, path: str) -> Compilation:
        """What a file compiles to, with the documents beside it that it names."""
        with access.instead_of(self._held()):
            return self._compiled(path)

    def summary(self, path: str) -> list[tuple[int, str]]:
        """For each job of a file, the line on which it begins, from 0, and what it compiles to."""
        told: dict[int, Counter[str]] = {}
        starts: dict[str, int] = {}
        for found in self.documents(path):
            said = {field.path: field for field in found}
            name, kind = said.get(("metadata", "name")), said.get(("kind",))
            if name and kind and frontends.find(*outline.header(found)) is not None:
                starts.setdefault(name.value, kind.line)
        for group in self.rendered(path).groups:
            if group.name in starts:
                counts = told.setdefault(starts[group.name], Counter())
                counts.update(str(value["kind"]) for value in group.objects)
        return [
            (line, ", ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in counts.items()))
            for line, counts in told.items()
        ]

    def target(self, path: str, line: int) -> Target | None:
        """The document that the field on a line, which counts from 0, names."""
        for found in self.documents(path):
            kind = outline.header(found)[1]
            for place, kinds in _REFERENCES.get(kind, ()):
                names = [f.value for f in found if f.line == line and f.path == place]
                if names:
                    return next(self._named(path, names[0], kinds, without=kind), None)
        return None

    def documents(self, path: str) -> list[list[outline.Field]]:
        """The fields of a file by its documents, those in brackets too while it is YAML."""
        text = self.text(path)
        nodes = composed(text)
        if nodes is not None:
            made: list[list[outline.Field]] = [[] for _ in nodes]
            for entry in entries(nodes):
                if entry.key is not None:
                    made[int(entry.path[0])].append(_field(entry))
            return made
        lines, found, start = self.lines(path), [], 0
        while start < len(lines):
            first, end = outline.document_at(lines, start)
            own = outline.fields(lines[first:end])
            found.append([structs.replace(field, line=first + field.line) for field in own])
            start = end + 1
        return found

    def _named(
        self, path: str, name: str, kinds: tuple[str, ...], *, without: str
    ) -> Iterator[Target]:
        """The documents of that name in a file and beside it."""
        for file in (path, *_beside(path)):
            for found in self.documents(file):
                kind = outline.header(found)[1]
                fits = kind in kinds if kinds else frontends.is_known(kind) and kind != without
                for own in found if fits else ():
                    if own.path == ("metadata", "name") and own.value == name:
                        at = self.lines(file)[own.line].index(name, own.end)
                        yield Target(file, own.line, at, at + len(name))

    def _held(self) -> dict[str, bytes]:
        return {path: text.encode() for path, text in self.texts.items()}

    def _compiled(self, path: str) -> Compilation:
        options = structs.replace(self.options(path)[0], without_keys=True, lint=True)
        documents = load([path]).documents
        if any(document.kind in _REFERENCES for document in documents):
            beside = _beside(path)
            wanted = [file for file in beside if self._may_be_named(file, documents)]
            return compile([path, *wanted], options)
        return compile([path], options)

    def _may_be_named(self, file: str, documents: tuple[Document, ...]) -> bool:
        """Whether a neighbour has a document of a name that one of the documents gives."""
        names = {
            value
            for document in documents
            for place, _ in _REFERENCES.get(document.kind or "", ())
            if isinstance(value := value_at(document.data, place), str)
        }
        text = self.text(file)
        return any(name in text for name in names)


def _field(entry: Entry) -> outline.Field:
    key, value = entry.key, entry.value
    assert key is not None  # noqa: S101 - documents and items were left out
    text = value.value if isinstance(value, ScalarNode) else ""
    mark = key.start_mark
    end = key.end_mark.column
    return outline.Field(entry.path[1:], mark.line, mark.column, end, text)


def _beside(path: str) -> list[str]:
    """The other files in the folder of a file that may hold documents."""
    try:
        names = access.names(os.path.dirname(path) or ".")  # noqa: PTH120 - as it was named
    except OSError:
        return []
    folder = Path(path).parent
    own = Path(path).name
    found = sorted(name for name in names if name.endswith(_SUFFIXES) and name[0] != ".")
    if len(found) > _MOST_NEIGHBOURS:
        return []
    return [str(folder / name) for name in found if name != own]


def _elsewhere(diagnostic: Diagnostic) -> Diagnostic:
    """What is wrong with the configuration file, told where the file that is open is shown."""
    words = f"{diagnostic.location}: {diagnostic.message}"
    return structs.replace(diagnostic, location=None, message=words)


def _is_in(place: Location | None, path: str) -> bool:
    return place is None or place.file == path
