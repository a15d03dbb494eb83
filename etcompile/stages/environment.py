"""Overlay files to what an environment changes: settings, and edits of documents and objects.

Apart from the other stages because it is the only one that reads files other than the jobs'.
"""

from collections.abc import Iterator

from msgspec import Struct

from etcompile import backend, overlays
from etcompile.check import kubernetes, schema
from etcompile.diagnostics import Diagnostic, diagnose, has_errors
from etcompile.load import Document
from etcompile.model import Settings
from etcompile.options import Options


class Environment(Struct, frozen=True):
    """What the overlays of a run come to.

    Args:
        settings: The settings after overlays.
        settled_by: The relative names of the overlays that have settings.
        edits: What they do to documents and objects, in order.
        matched: The edits that changed an image of the settings.
        files: The overlays' files, as the user named them.
        documents: The overlays.
        diagnostics: What is wrong with the overlays.
    """

    settings: Settings
    settled_by: tuple[str, ...] = ()
    edits: tuple[overlays.Edit, ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    files: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def environment(options: Options) -> Environment:
    """The overlays of the run, read and checked."""
    if not options.overlays:
        undeclared = _undeclared(options.settings, options.explicit)
        return Environment(options.settings, diagnostics=tuple(undeclared))
    loaded = overlays.overlay_documents(options.overlays, options.limits)
    problems = [*loaded.diagnostics]
    for document in loaded.documents:
        problems += schema.check_document(document, overlays.SCHEMA)
    files = tuple(dict.fromkeys(document.file for document in loaded.documents))
    if has_errors(problems):
        return Environment(options.settings, files=files, diagnostics=tuple(problems))
    read = [overlays.overlay_of(document) for document in loaded.documents]
    explicit = options.explicit
    if explicit is None:
        explicit = overlays.explicit_settings(options.settings)
    settled = overlays.settled(options.settings, explicit, read, kubernetes.versions())
    if not settled.diagnostics and not any("kubernetesVersion" in o.settings for o in read):
        problems += _undeclared(settled.settings, options.explicit)
    return Environment(
        settings=settled.settings,
        settled_by=tuple(overlay.source.relative for overlay in read if overlay.settings),
        # A namespace asked for wins over an overlay's, as a setting does.
        edits=tuple(
            edit
            for overlay in read
            for edit in overlay.edits
            if options.namespace is None or not isinstance(edit.change, overlays.Placement)
        ),
        matched=settled.matched,
        files=files,
        documents=loaded.documents,
        diagnostics=(*problems, *settled.diagnostics),
    )


def _undeclared(settings: Settings, explicit: frozenset[str] | None) -> Iterator[Diagnostic]:
    """An error for a gang scheduler that another version of Kubernetes ignores, if none is said.

    Args:
        settings: The settings after overlays.
        explicit: The names of those that somebody asked for; None if a program did for all.
    """
    if explicit is None or "kubernetes_version" in explicit or settings.gang == "none":
        return
    if backend.gang.scheduler_of(settings.gang).declares_version:
        problem = "nobody said which version of Kubernetes the cluster has"
        advice = "pass --kubernetes-version, or set kubernetesVersion in an overlay"
        yield diagnose("ET2087", None, problem=problem, advice=advice)
