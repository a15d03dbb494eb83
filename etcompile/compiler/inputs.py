"""What a run reads: documents, overlays, runtimes, templates and keys.

Everything is read before anything is compiled, so that a run reports all files that it cannot read.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct, structs

from etcompile import backend
from etcompile.compiler.encryption import KeySource, key_source
from etcompile.compiler.environment import Environment, environment
from etcompile.compiler.options import Input, Options
from etcompile.compiler.reporting import credential_notes, ignored_problems, selected_problems
from etcompile.compiler.runtimes import is_runtime, named_runtimes
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose, has_errors
from etcompile.k8s.objects import as_read
from etcompile.load import Document, Loaded, from_values, load
from etcompile.load.sources import unreadable

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment


class Sources(Struct, frozen=True):
    """What a run has read.

    Args:
        options: How to compile, with the settings that overlays leave.
        documents: The documents of the input.
        library: The runtimes of `--runtimes`.
        environment: What the overlays come to.
        texts: The templates of scripts.
        keys: What fills objects with what only the outside has.
        comments: The comments of all files that ask for silence about a warning.
        diagnostics: What is wrong with any of it.
    """

    options: Options
    documents: tuple[Document, ...]
    library: tuple[Document, ...]
    environment: Environment
    texts: backend.Texts
    keys: KeySource
    comments: "tuple[IgnoreComment, ...]"
    diagnostics: tuple[Diagnostic, ...]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that were read, as the user named them."""
        named = (document.file for document in (*self.documents, *self.library))
        return tuple(dict.fromkeys((*named, *self.environment.files)))


def read(inputs: Input | Iterable[Input], options: Options, stdin: BinaryIO | None) -> Sources:
    """Reads all that a run needs.

    Args:
        inputs: Files, directories, globs, `-` for standard input, or documents.
        options: How to compile.
        stdin: What `-` reads; the process's standard input if None.
    """
    given = loaded(inputs, options, stdin)
    overlaid, runtimes = environment(options), library(options)
    texts, notes = texts_of(options)
    keys = KeySource()
    if not has_errors(overlaid.diagnostics):
        options = structs.replace(options, settings=overlaid.settings)
        keys = key_source(options, overlaid.place_of("secret"))
    return Sources(
        options,
        given.documents,
        runtimes.documents,
        overlaid,
        texts,
        keys,
        (*given.comments, *overlaid.comments, *runtimes.comments),
        (
            *ignored_problems(options.ignore),
            *selected_problems(options.select),
            *(
                problem
                for problem in given.diagnostics
                if not (options.allow_empty and problem.code == codes.NO_DOCUMENTS)
            ),
            *overlaid.diagnostics,
            *runtimes.diagnostics,
            *credential_notes((*given.documents, *overlaid.documents, *runtimes.documents)),
            *notes,
            *keys.diagnostics,
        ),
    )


def loaded(inputs: Input | Iterable[Input], options: Options, stdin: BinaryIO | None) -> Loaded:
    """All documents of the input, in its order, without nulls (the API's word for absent)."""
    if isinstance(inputs, str | os.PathLike | Mapping | Document):
        inputs = [inputs]
    paths: list[str | os.PathLike[str]] = []
    values: list[Mapping[str, Any]] = []
    parts: list[Loaded] = []
    for given in inputs:
        if isinstance(given, Mapping):
            values.append(given)
        elif isinstance(given, Document):
            parts.append(Loaded((given,), (), given.comments))
        else:
            paths.append(given)
    if paths:
        parts.append(load(paths, stdin=stdin, limits=options.limits, output=options.output))
    if values:
        parts.append(from_values(values))
    return Loaded(
        tuple(
            structs.replace(document, data=as_read(document.data))
            for part in parts
            for document in part.documents
        ),
        tuple(problem for part in parts for problem in part.diagnostics),
        tuple(dict.fromkeys(comment for part in parts for comment in part.comments)),
    )


def library(options: Options) -> Loaded:
    """The runtimes of the options, in the order given.

    Nothing of them is compiled by itself: a runtime that no job names is looked at no further, so
    that a library may hold more than one repository needs.

    Args:
        options: How to compile; their `limits` say what may be opened.

    Returns:
        The documents that are runtimes, without nulls. What cannot be read is told as it is of an
        input, since nobody knows what it holds; what is no runtime is told as without effect.
    """
    if not options.runtimes:
        return Loaded((), ())
    parts = [loaded(given, options, None) for given in options.runtimes]
    # A file that is named twice, by itself and by its folder, is one.
    files: dict[Any, Document] = {}
    for document in (document for part in parts for document in part.documents):
        from_file = document.digest is not None
        key = (_real(document), document.index) if from_file else id(document)
        files.setdefault(key, document)
    problems = [problem for part in parts for problem in part.diagnostics]
    return Loaded(
        tuple(document for document in files.values() if is_runtime(document)),
        (*problems, *_strangers(files.values())),
        tuple(dict.fromkeys(comment for part in parts for comment in part.comments)),
    )


def without_library(
    documents: Sequence[Document], runtimes: Sequence[Document]
) -> tuple[Document, ...]:
    """The documents of the input without the runtimes that `--runtimes` names, too.

    Args:
        documents: The documents of the input.
        runtimes: Those of `--runtimes`.
    """
    files = {(_real(runtime), runtime.index) for runtime in runtimes if runtime.digest is not None}
    if not files:
        return tuple(documents)
    return tuple(
        document
        for document in documents
        if not (is_runtime(document) and (_real(document), document.index) in files)
    )


def wanted(documents: Sequence[Document], runtimes: Sequence[Document]) -> list[Document]:
    """The runtimes of `--runtimes` whose name a TrainJob among the documents gives.

    Args:
        documents: The documents of the input, after overlays.
        runtimes: Those of `--runtimes`.
    """
    named = named_runtimes(documents)
    return [runtime for runtime in runtimes if runtime.name in named]


def _real(document: Document) -> str:
    return os.path.realpath(document.file)


def _strangers(documents: Iterable[Document]) -> Iterator[Diagnostic]:
    """A warning for each document that is no runtime."""
    for document in documents:
        if not is_runtime(document):
            facts = {
                "where": f"{document.kind} {document.name or ''}".strip(),
                "reason": "--runtimes takes TrainingRuntimes and ClusterTrainingRuntimes only",
                "advice": "give it as an input, or keep it in another folder",
            }
            yield diagnose(codes.NO_EFFECT, document.locate(("kind",)), **facts)


def texts_of(options: Options) -> tuple[backend.Texts, tuple[Diagnostic, ...]]:
    """What renders the templates of a run, and what is wrong with the user's own.

    Returns:
        Nothing of the user's is rendered if the folder cannot be read. There is a warning for each
        template that is not used.
    """
    if options.templates is None:
        return backend.Texts(), ()
    from etcompile.load.templates import TemplateFolder  # noqa: PLC0415 - few runs have templates

    path = os.fspath(options.templates)
    folder = TemplateFolder(path, options.limits)
    try:
        folder.names()
    except (OSError, ValueError) as error:
        return backend.Texts(), (unreadable(path, error),)
    texts = backend.Texts(folder)
    notes = [
        diagnose(
            codes.UNUSED_TEMPLATE,
            Location(folder.file(name)),
            advice=f"did you mean {meant}?" if meant else "",
        )
        for name, meant in texts.unused()
    ]
    return texts, tuple(notes)
