"""The runtimes of `--runtimes`: files of no job, from which the jobs take what they name.

Apart from the inputs, because nothing of them is compiled by itself: a runtime that no job names is
looked at no further, so that a library may hold more than one repository needs.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import structs

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.objects import as_read
from etcompile.load import Document, Loaded, from_values, load
from etcompile.options import Options
from etcompile.stages.runtimes import is_runtime, named_runtimes

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment


def library(options: Options) -> Loaded:
    """The runtimes of the options, in the order given.

    Args:
        options: How to compile; their `limits` say what may be opened.

    Returns:
        The documents that are runtimes, without nulls. What cannot be read is told as it is of an
        input, since nobody knows what it holds; what is no runtime is told as without effect.
    """
    if not options.runtimes:
        return Loaded((), ())
    documents: list[Document] = []
    diagnostics: list[Diagnostic] = []
    comments: list[IgnoreComment] = []
    for given in options.runtimes:
        if isinstance(given, Document):
            documents.append(given)
            comments += given.comments
            continue
        if isinstance(given, Mapping):
            read = from_values([given])
        else:
            read = load([given], limits=options.limits, output=options.output)
        documents += read.documents
        diagnostics += read.diagnostics
        comments += read.comments
    # A file that is named twice, by itself and by its folder, is one.
    files: dict[Any, Document] = {}
    for document in documents:
        from_file = document.digest is not None
        key = (_real(document), document.index) if from_file else id(document)
        files.setdefault(key, document)
    runtimes = [
        structs.replace(document, data=as_read(document.data))
        for document in files.values()
        if is_runtime(document)
    ]
    told = [*diagnostics, *_strangers(files.values())]
    return Loaded(tuple(runtimes), tuple(told), tuple(dict.fromkeys(comments)))


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


def _strangers(documents: Any) -> Iterator[Diagnostic]:
    """A warning for each document that is no runtime."""
    for document in documents:
        if not is_runtime(document):
            facts = {
                "where": f"{document.kind} {document.name or ''}".strip(),
                "reason": "--runtimes takes TrainingRuntimes and ClusterTrainingRuntimes only",
                "advice": "give it as an input, or keep it in another folder",
            }
            yield diagnose(codes.NO_EFFECT, document.locate(("kind",)), **facts)
