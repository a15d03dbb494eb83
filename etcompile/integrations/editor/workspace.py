"""Compile the files of an editor; open files count as they are on the screen."""

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field, structs

from etcompile import frontends
from etcompile.compiler.choices import Options
from etcompile.compiler.pipeline import Compilation, compile  # noqa: A004
from etcompile.diagnostics import Diagnostic, Location, ValuePath
from etcompile.diagnostics.diagnostic import TextEdit
from etcompile.fixes import fixed_files, text_edits, with_edits
from etcompile.frontends.trainer.runtimes import RUNTIME_VERSION
from etcompile.k8s.path import value_at
from etcompile.load import Document, access, load
from etcompile.load.sources import SUFFIXES

_MOST_FILES = 200
"""Files of a folder; in a larger one a file is compiled alone, whatever it refers to."""
_OURS = re.compile(
    # At the start of a line, as an item of a list or in brackets; in JSON, anywhere. A line with
    # other indentation is in another document's text.
    r"""(?:(?:^|[\r\n])(?:[ ]*-[ ]+)?|[{,]\s*)apiVersion\s*:\s*['"]?([^\s'"#,}]+)"""
    r"""|"apiVersion"\s*:\s*"([^"]+)\""""
)

_NAMES = "|".join(kind.name for kind in frontends.kinds() if kind.refers_by)
_REFERRING = re.compile(rf"""\bkind["']?\s*:\s*["']?(?:{_NAMES})\b""")

OptionsOf = Callable[[str], tuple[Options, Sequence[Diagnostic]]]
"""Returns the options for the file of a path, and the problems of its configuration."""


class Workspace(Struct):
    options: OptionsOf
    texts: dict[str, str] = field(default_factory=dict)

    def is_ours(self, path: str) -> bool:
        """Return True if a file has a document of a compiled kind, or of one of its groups."""
        groups = {kind.group for kind in frontends.kinds()}
        groups.add(RUNTIME_VERSION.partition("/")[0])
        versions = (match[1] or match[2] for match in _OURS.finditer(self.text(path)))
        return any(version.partition("/")[0] in groups for version in versions)

    def refers(self, path: str, other: str) -> bool:
        same_folder = os.path.dirname(path) == os.path.dirname(other)  # noqa: PTH120
        return same_folder and _REFERRING.search(self.text(path)) is not None

    def text(self, path: str) -> str:
        if path in self.texts:
            return self.texts[path]
        try:
            return access.content(path).decode(errors="replace")
        except OSError:
            return ""

    def findings(self, path: str) -> list[Diagnostic]:
        if not self.is_ours(path):
            return []
        problems = []
        for problem in self.options(path)[1]:
            # The configuration file may not be open, so its problems show in this one.
            message = f"{problem.location}: {problem.message}"
            problems.append(structs.replace(problem, location=None, message=message))
        with access.instead_of(self._contents()):
            diagnostics = self._of_file(path)
            shown = (each for each in diagnostics if each.suppressed is None)
            return [*problems, *with_edits(shown)]

    def safe_edits(self, path: str) -> list[TextEdit]:
        with access.instead_of(self._contents()):
            files = fixed_files(lambda: self._of_file(path))
        edits: list[TextEdit] = []
        for file in files:
            if file.file == path:
                edits += text_edits(file.before.decode(), file.after.decode())
        return edits

    def rendered(self, path: str) -> Compilation:
        """Compile a file with the documents of its folder that it names."""
        with access.instead_of(self._contents()):
            return self._compiled(path)

    def summary(self, path: str) -> list[tuple[int, str]]:
        """Return the line of the kind of each job, from 1, and what it compiles to."""
        lines: dict[str, int] = {}
        for document in self.documents(path):
            line = document.locate(("kind",)).line
            if line and frontends.find(document.api_version, document.kind) is not None:
                lines.setdefault(str(document.name), line)
        counts: dict[int, Counter[str]] = {}
        for group in self.rendered(path).groups:
            if group.name in lines:
                kinds = counts.setdefault(lines[group.name], Counter())
                kinds.update(str(value["kind"]) for value in group.objects)
        return [
            (line, ", ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in kinds.items()))
            for line, kinds in counts.items()
        ]

    def target(self, path: str, line: int) -> Location | None:
        """Return the name of the document that the field on a line, from 1, refers to."""
        for document in self.documents(path):
            reference, kinds = _reference(document)
            if not reference or document.locate(reference).line != line:
                continue
            name = value_at(document.data, reference)
            for file in (path, *_others(path)):
                for other in self.documents(file):
                    kind = other.kind or ""
                    fits = kind in kinds if kinds else frontends.is_known(kind)
                    if fits and kind != document.kind and other.name == name:
                        return other.locate(("metadata", "name"))
        return None

    def documents(self, path: str) -> tuple[Document, ...]:
        with access.instead_of(self._contents()):
            return load([path]).documents

    def _contents(self) -> dict[str, bytes]:
        return {path: text.encode() for path, text in self.texts.items()}

    def _of_file(self, path: str) -> list[Diagnostic]:
        """Return the diagnostics of a file without those of files compiled with it."""
        return [
            diagnostic
            for diagnostic in self._compiled(path).findings
            if diagnostic.location is None or diagnostic.location.file == path
        ]

    def _compiled(self, path: str) -> Compilation:
        """Compile a file with those of its folder that may contain a document that it names."""
        options = structs.replace(self.options(path)[0], without_keys=True, lint=True)
        names = set()
        for document in load([path]).documents:
            reference, _ = _reference(document)
            if reference and isinstance(name := value_at(document.data, reference), str):
                names.add(name)
        texts = {other: self.text(other) for other in _others(path)} if names else {}
        named = [file for file, text in texts.items() if any(name in text for name in names)]
        return compile([path, *named], options)


def _reference(document: Document) -> tuple[ValuePath, tuple[str, ...]]:
    """Return the field that names another document, and its kinds; any if there are none."""
    rows = (kind for kind in frontends.kinds() if kind.name == document.kind)
    return next(((row.reference(document.data), row.refers_to) for row in rows), ((), ()))


def _others(path: str) -> list[str]:
    folder = Path(path).parent
    try:
        names = access.names(os.path.dirname(path) or ".")  # noqa: PTH120 - as it was named
    except OSError:
        return []
    files = sorted(name for name in names if name.endswith(SUFFIXES) and name[0] != ".")
    if len(files) > _MOST_FILES:
        return []
    return [str(folder / name) for name in files if name != Path(path).name]
