"""Documents of API versions that no operator serves any more, as documents of today's.

Apart from lowering, which only says how such a document would read, because a hand-over writes it
into a file.
"""

from etcompile import frontends
from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.load import Document
from etcompile.load.relocated import relocated
from etcompile.stages.misplaced import placed

_MIGRATE = "`etcompile migrate` writes the converted file"


def current(document: Document) -> tuple[Document, tuple[str, ...]]:
    """A document in the version that is compiled, with its fields where they belong.

    Args:
        document: Any document.

    Returns:
        The document, itself if it is of a version of today, and what has changed, for people.

    Raises:
        NotConvertibleError: it is of a former version, and a part of it has no counterpart.
    """
    changes: tuple[str, ...] = ()
    kind = frontends.find(document.api_version, document.kind)
    if kind is None:
        # Only such documents pay for it.
        from etcompile.frontends import conversion  # noqa: PLC0415

        if not conversion.is_former(document.api_version, document.kind):
            return document, ()
        found = conversion.converted(document.data)
        version = f"apiVersion {document.api_version} to {found.data['apiVersion']}"
        document = relocated(document, found.data, found.moved)
        kind = frontends.find(document.api_version, document.kind)
        changes = (version, *found.changes)
    if kind is None:
        return document, changes
    in_place = placed(document, kind)
    return in_place.document, (*changes, *in_place.changes)


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
        now, changes = current(document)
    except conversion.NotConvertibleError as error:
        known = " or ".join(conversion.served_today(name))
        advice = f"rewrite it for {known}; it cannot be converted automatically: {error}"
    else:
        moves = f", with these changes: {'; '.join(changes[1:])}" if changes[1:] else ""
        advice = f"write apiVersion: {now.api_version}{moves}. {_MIGRATE}"
    place = document.locate(("apiVersion",))
    return [diagnose(codes.UNKNOWN_VERSION, place, kind=name, version=version, advice=advice)]
