"""Documents of API versions that no operator serves any more, as documents of today's.

Apart from lowering, which only says how such a document would read, because a hand-over writes it
into a file.
"""

from collections.abc import Iterable

from msgspec import structs

from etcompile import frontends
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.diagnostics.fix import Fix, Replace
from etcompile.load import Document
from etcompile.load.relocated import relocated
from etcompile.stages.misplaced import Placed, placed

_MIGRATE = "`etcompile migrate` writes the converted file"


def current(document: Document) -> Placed:
    """A document in the version that is compiled, with its fields where they belong.

    Args:
        document: Any document.

    Returns:
        The document, itself if it is of a version of today, what has changed, for people, and a
        warning of fields that its operator does not look at.

    Raises:
        NotConvertibleError: it is of a former version, and a part of it has no counterpart.
    """
    changes: tuple[str, ...] = ()
    kind = frontends.find(document.api_version, document.kind)
    if kind is None:
        # Only such documents pay for it.
        from etcompile.frontends import conversion  # noqa: PLC0415

        if not conversion.is_former(document.api_version, document.kind):
            return Placed(document)
        found = conversion.converted(document.data)
        version = f"apiVersion {document.api_version} becomes {found.data['apiVersion']}"
        document = relocated(document, found.data, found.moved)
        kind = frontends.find(document.api_version, document.kind)
        changes = (version, *found.changes)
    if kind is None:
        return Placed(document, changes)
    in_place = placed(document, kind)
    return Placed(in_place.document, (*changes, *in_place.changes), in_place.diagnostics)


def in_versions_of_today(
    documents: Iterable[Document],
) -> tuple[list[Document], list[Diagnostic]]:
    """Documents that differ from today's only by their API version, as documents of today.

    Args:
        documents: Any documents; those that need more than that stay as they are.

    Returns:
        The documents, and a warning for each that an operator of today would not look at.
    """
    made: list[Document] = []
    told: list[Diagnostic] = []
    for document in documents:
        today = _renamed(document)
        made.append(document if today is None else today)
        if today is not None:
            place, version = document.locate(("apiVersion",)), today.api_version or ""
            facts = {"kind": document.kind, "version": document.api_version, "today": version}
            warning = diagnose(codes.FORMER_VERSION, place, **facts)
            fix = Fix(f"write apiVersion: {version}", (Replace(place, version),), is_safe=True)
            told.append(structs.replace(warning, fix=fix))
    return made, told


def _renamed(document: Document) -> Document | None:
    """A document of a former version in today's; None if it is of none, or that takes more."""
    from etcompile.frontends import conversion  # noqa: PLC0415

    if not conversion.is_former(document.api_version, document.kind):
        return None
    try:
        found = conversion.converted(document.data)
    except conversion.NotConvertibleError:
        return None
    if {**found.data, "apiVersion": document.api_version} != document.data:
        return None
    return relocated(document, found.data, {})


def former_version(document: Document) -> list[Diagnostic]:
    """An error for a document of a former version, which says how to write it today.

    Args:
        document: A document of no kind that is compiled.
    """
    from etcompile.frontends import conversion  # noqa: PLC0415

    version, name = document.api_version or "", document.kind or ""
    if not conversion.is_former(version, name):
        return []
    try:
        now = current(document)
    except conversion.NotConvertibleError as error:
        known = " or ".join(conversion.served_today(name))
        advice = f"rewrite it for {known}; it cannot be converted automatically: {error}"
    else:
        changes = now.changes[1:]
        more = f", with these changes: {'; '.join(changes)}" if changes else ""
        today = now.document.api_version or ""
        advice = f"write apiVersion: {today}{more}. {_MIGRATE}"
    place = document.locate(("apiVersion",))
    return [diagnose(codes.UNKNOWN_VERSION, place, kind=name, version=version, advice=advice)]
