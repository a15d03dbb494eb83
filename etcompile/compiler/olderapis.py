"""Convert documents of older operators to the form that their kind has today.

The API versions are those of tf-operator, pytorch-operator, mxnet-operator, xgboost-operator and
mpi-operator before their kinds became `kubeflow.org/v1`. Such a document is read as a current one,
with a warning; its schema refuses fields that no longer exist. Fields that have moved since are
moved by the kind (`Kind.prepare`).
"""

from msgspec import Struct, structs

from etcompile import frontends
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.diagnostic import Fix, Replace
from etcompile.frontends import Kind
from etcompile.load import Document
from etcompile.load.loader import relocated


class Placed(Struct, frozen=True):
    """A document with its fields where its kind reads them.

    Args:
        changes: The changes, for people: `spec.backoffLimit moves to spec.runPolicy...`.
        diagnostics: A warning, if anything changed.
    """

    document: Document
    changes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


def current(document: Document) -> Placed:
    """Return a document in its current form, for a hand-over."""
    today, _ = in_current_version(document)
    kind = frontends.find(today.api_version, today.kind)
    in_place = Placed(today) if kind is None else placed(today, kind)
    if today is document:
        return in_place
    renamed = f"apiVersion {document.api_version} becomes {today.api_version}"
    return structs.replace(in_place, changes=(renamed, *in_place.changes))


def in_current_version(document: Document) -> tuple[Document, list[Diagnostic]]:
    before, name = document.api_version or "", document.kind or ""
    if frontends.find(before, name) is not None:
        return document, []
    versions = frontends.older_versions(name)
    today = next((row.today for row in versions if row.version == before), "")
    if not today:
        return document, []
    place = document.locate(("apiVersion",))
    facts = {"kind": name, "version": before, "today": today}
    fix = Fix(f"write apiVersion: {today}", (Replace(place, today),), is_safe=True)
    warning = structs.replace(diagnose(codes.FORMER_VERSION, place, **facts), fix=fix)
    return relocated(document, {**document.data, "apiVersion": today}, {}), [warning]


def placed(document: Document, kind: Kind) -> Placed:
    """Move the fields of a document to where its kind reads them."""
    if (prepared := kind.prepare(document)) is None:
        return Placed(document)
    moved = relocated(document, prepared.data, prepared.moved)
    return Placed(moved, prepared.changes, (prepared.warning,))
