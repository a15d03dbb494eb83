"""The file that a name given as an overlay means, and its documents.

Overlays come as files of the user's or by the bare name of one that ships with etcompile; both
are read by the loader, so its limits and diagnostics hold for them too.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import structs

from etcompile import data
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.load import Document, Limits, Loaded, from_values, load
from etcompile.load.sources import shown_path
from etcompile.overlays.overlay import API_VERSION, KIND

if TYPE_CHECKING:
    from etcompile.diagnostics.suppression import IgnoreComment

_FILE = "overlay.yaml"
_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_LEFT_OUT = codes.KUSTOMIZATION_INPUT

Given = str | os.PathLike[str] | Mapping[str, Any] | Document
"""A file, a folder with an `overlay.yaml`, the name of a shipped overlay, or a document: as a
mapping, or as one that was loaded."""


def shipped() -> tuple[str, ...]:
    """The names of the overlays that come with etcompile."""
    return tuple(sorted(path.parent.name for path in data.folder("overlays").glob(f"*/{_FILE}")))


def overlay_documents(given: Iterable[Given], limits: Limits) -> Loaded:
    """The documents of overlays, in the order given.

    Args:
        given: The overlays.
        limits: How much to read of each.

    Returns:
        The documents that are overlays, nulls and all (in a patch they mean something), and
        what is wrong with the others.
    """
    documents: list[Document] = []
    problems: list[Diagnostic] = []
    comments: list[IgnoreComment] = []
    for file in given:
        loaded = _loaded(file, limits)
        if (kustomization := _kustomization(loaded)) is not None:
            problems.append(kustomization)
            continue
        comments += loaded.comments
        documents += (document for document in loaded.documents if is_overlay(document))
        problems += loaded.diagnostics
        problems += (_stranger(other) for other in loaded.documents if not is_overlay(other))
    return Loaded(tuple(documents), tuple(problems), tuple(dict.fromkeys(comments)))


def is_overlay(document: Document) -> bool:
    """Whether a document is an overlay, not something to compile."""
    return (document.api_version, document.kind) == (API_VERSION, KIND)


def _loaded(given: Given, limits: Limits) -> Loaded:
    if isinstance(given, Document):
        return Loaded((given,), (), given.comments)
    if isinstance(given, Mapping):
        return from_values([given])
    name = os.fsdecode(given)
    path = Path(name)
    if not _can_be(name):
        facts = {"known": ", ".join(shipped())}
        return Loaded(
            (), (diagnose(codes.NO_SUCH_OVERLAY, Location(shown_path(name)), **facts, near=""),)
        )
    if path.is_dir() and (path / _FILE).is_file():
        return load([path / _FILE], limits=limits)
    if name in shipped() and not path.is_file():
        own = structs.replace(limits, boundary=None)  # it is in our package, not among the inputs
        loaded = load([data.folder("overlays") / name / _FILE], limits=own)
        relative = f"overlays/{name}/{_FILE}"
        found = (structs.replace(document, relative=relative) for document in loaded.documents)
        return structs.replace(loaded, documents=tuple(found))
    for kustomization in _KUSTOMIZATIONS if path.is_dir() else ():
        if (path / kustomization).is_file():
            return load([path / kustomization], limits=limits)
    if name == "-" or path.is_dir() or not os.path.lexists(path):
        known = ", ".join(shipped())
        near = probably(name, shipped())
        meant = f"did you mean {near}? Otherwise " if near else ""
        return Loaded(
            (), (diagnose(codes.NO_SUCH_OVERLAY, Location(name), known=known, near=meant),)
        )
    return load([path], limits=limits)


def _can_be(name: str) -> bool:
    """Whether a file can have this name: too long a name, for example, is an error to ask for."""
    try:
        os.lstat(name)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return True
    except (OSError, ValueError):
        return False
    return True


def _kustomization(loaded: Loaded) -> Diagnostic | None:
    """ET6010 if what was given is a kustomization, which kustomize calls an overlay, too."""
    if loaded.documents:
        return None
    found = next(
        (diagnostic for diagnostic in loaded.diagnostics if diagnostic.code == _LEFT_OUT), None
    )
    return (
        diagnose(codes.KUSTOMIZATION_OVERLAY, found.location, version=API_VERSION)
        if found
        else None
    )


def _stranger(document: Document) -> Diagnostic:
    place = document.locate(("kind",))
    found = f"{document.kind} ({document.api_version})"
    return diagnose(codes.NOT_AN_OVERLAY, place, found=found, version=API_VERSION)
