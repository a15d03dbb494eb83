"""Overlay files to what an environment changes: settings, and edits of documents and objects.

Apart from the other stages because it is the only one that reads files other than the jobs'.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, structs

from etcompile import backend, overlays
from etcompile.check import kubernetes
from etcompile.check.document_rules import check_schema
from etcompile.compiler.options import Options
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose, has_errors
from etcompile.load import Document
from etcompile.model import Settings

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment


def _nowhere(_: str) -> Location | None:
    return None


class Environment(Struct, frozen=True):
    """What the overlays of a run come to.

    Args:
        settings: The settings after overlays.
        settled_by: The relative names of the overlays that have settings.
        place_of: From the name of a setting to where the overlay says it that decides it.
        edits: What they do to documents and objects, in order.
        matched: The edits that changed an image of the settings.
        files: The overlays' files, as the user named them.
        documents: The overlays.
        diagnostics: What is wrong with the overlays.
        comments: The comments of their files that ask for silence about a warning.
    """

    settings: Settings
    settled_by: tuple[str, ...] = ()
    place_of: Callable[[str], Location | None] = _nowhere
    edits: tuple[overlays.Edit, ...] = ()
    matched: frozenset[overlays.Edit] = frozenset()
    files: tuple[str, ...] = ()
    documents: tuple[Document, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    comments: "tuple[IgnoreComment, ...]" = ()


def environment(options: Options) -> Environment:
    """The overlays of the run, read and checked."""
    if not options.overlays:
        undeclared = _undeclared(options.settings, options.explicit, None)
        return Environment(options.settings, diagnostics=tuple(undeclared))
    loaded = overlays.overlay_documents(options.overlays, options.limits)
    problems = [*loaded.diagnostics]
    for document in loaded.documents:
        problems += check_schema(document, overlays.SCHEMA)
    files = tuple(dict.fromkeys(document.file for document in loaded.documents))
    if has_errors(problems):
        made = Environment(options.settings)
    else:
        made = _settled(loaded.documents, options, kubernetes.versions())
    return structs.replace(
        made,
        diagnostics=(*problems, *made.diagnostics),
        files=files,
        comments=loaded.comments,
    )


def _settled(
    documents: Sequence[Document], options: Options, versions: Sequence[str]
) -> Environment:
    """What overlays come to that their schema accepts."""
    from etcompile.overlays import settings  # noqa: PLC0415 - few runs have overlays

    read = [overlays.overlay_of(document) for document in documents]
    explicit = options.explicit
    if explicit is None:
        explicit = settings.explicit_settings(options.settings)
    settled = settings.settled(options.settings, explicit, read, versions)
    problems = [*settled.diagnostics]
    if not problems and not any("kubernetesVersion" in o.settings for o in read):
        problems += _undeclared(settled.settings, options.explicit, settled.place_of("gang"))
    return Environment(
        settings=settled.settings,
        settled_by=tuple(overlay.source.relative for overlay in read if overlay.settings),
        place_of=settled.place_of,
        # A namespace asked for wins over an overlay's, as a setting does.
        edits=tuple(
            edit
            for overlay in read
            for edit in overlay.edits
            if options.namespace is None or not isinstance(edit.change, overlays.Placement)
        ),
        matched=settled.matched,
        documents=tuple(documents),
        diagnostics=tuple(problems),
    )


def _undeclared(
    settings: Settings, explicit: frozenset[str] | None, place: Location | None
) -> Iterator[Diagnostic]:
    """An error for a gang scheduler that another version of Kubernetes ignores, if none is said.

    Args:
        settings: The settings after overlays.
        explicit: The names of those that somebody asked for; None if a program did for all.
        place: Where an overlay names the gang scheduler.
    """
    if explicit is None or "kubernetes_version" in explicit or settings.gang == "none":
        return
    if backend.gang.scheduler_of(settings.gang).declares_version:
        problem = "nobody said which version of Kubernetes the cluster has"
        advice = "set kubernetes-version in etcompile.toml, or kubernetesVersion in an overlay"
        yield diagnose(codes.GANG_NATIVE, place, problem=problem, advice=advice)
