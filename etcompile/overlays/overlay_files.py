"""Load overlays by the names that users write.

A name is a file, a folder, or the bare name of an overlay that ships with etcompile. The loader
reads all of them, so its limits and diagnostics apply.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import structs

from etcompile import data
from etcompile.diagnostics import Diagnostic, Location, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.load import Document, Input, Limits, Loaded, from_values, load
from etcompile.load.loader import KUSTOMIZE_FILES
from etcompile.load.sources import shown_path
from etcompile.overlays.overlay import API_VERSION, is_overlay

_FILE = "overlay.yaml"


def shipped() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in data.folder("overlays").glob(f"*/{_FILE}")))


def overlay_documents(
    inputs: Iterable[Input], limits: Limits
) -> tuple[tuple[Document, ...], list[Diagnostic]]:
    """Load the documents of overlays, in order, and report those that are none.

    Their nulls are preserved, because they have a meaning in patches.
    """
    documents: list[Document] = []
    problems: list[Diagnostic] = []
    for file in inputs:
        loaded = _loaded(file, limits)
        left_out = [p for p in loaded.diagnostics if p.code == codes.KUSTOMIZATION_INPUT]
        if left_out and not loaded.documents:
            # kustomize also calls a kustomization an overlay.
            place = left_out[0].location
            problems.append(diagnose(codes.KUSTOMIZATION_OVERLAY, place, version=API_VERSION))
            continue
        problems += loaded.diagnostics
        for document in loaded.documents:
            if is_overlay(document):
                documents.append(document)
                continue
            place, what = document.locate(("kind",)), f"{document.kind} ({document.api_version})"
            problems.append(diagnose(codes.NOT_AN_OVERLAY, place, found=what, version=API_VERSION))
    return tuple(documents), problems


def _loaded(overlay: Input, limits: Limits) -> Loaded:
    if isinstance(overlay, Document):
        return Loaded((overlay,), ())
    if isinstance(overlay, Mapping):
        return from_values([overlay])
    name = os.fsdecode(overlay)
    path = Path(name)
    # os.path, unlike Path, accepts names that no file can have.
    is_folder = os.path.isdir(name)  # noqa: PTH112
    if is_folder and (path / _FILE).is_file():
        return load([path / _FILE], limits=limits)
    if name in shipped() and not path.is_file():
        limits = structs.replace(limits, boundary=None)  # it is in our package, not in the inputs
        loaded = load([data.folder("overlays") / name / _FILE], limits=limits)
        relative = f"overlays/{name}/{_FILE}"
        named = (structs.replace(document, relative=relative) for document in loaded.documents)
        return structs.replace(loaded, documents=tuple(named))
    for kustomization in KUSTOMIZE_FILES if is_folder else ():
        if (path / kustomization).is_file():
            return load([path / kustomization], limits=limits)
    if name == "-" or is_folder or not os.path.lexists(name):
        near = probably(name, shipped())
        meant = f"did you mean {near}? Otherwise " if near else ""
        facts = {"known": ", ".join(shipped()), "near": meant}
        place = Location(shown_path(name))
        return Loaded((), (diagnose(codes.NO_SUCH_OVERLAY, place, **facts),))
    return load([path], limits=limits)
