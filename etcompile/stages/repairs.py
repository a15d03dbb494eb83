"""A document with problems to documents without them, so that all other problems are found too.

A later stage can read a document only if it is valid. Rather than to stop at the first stage that
finds something, the faulty parts are replaced, in several ways: taken out, or given values that
would do. What a later stage then says of every one of these documents does not depend on the
faulty parts, so it is a problem of its own. Nothing is ever built from them.
"""

import marshal
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from msgspec import structs

from etcompile.check.document import Finding
from etcompile.diagnostics import Diagnostic, ValuePath
from etcompile.load import Document
from etcompile.overlays.traced import Traced

Check = Callable[[Any], Sequence[Finding]]
"""What is wrong with a document's value; the places of its findings are not looked at."""

WAYS = 3
"""In how many ways a document is repaired: without the faulty parts, and with two other values."""

_MOST = 16
"""Findings of a document that is repaired: of one with more, hardly anything is as it was meant."""
_ROUNDS = 12
_VERSION = re.compile(r"Kubernetes 1\.\d+")
_STOPGAPS: tuple[tuple[Any, ...], ...] = (
    (),
    ("x", 1, ["x"], {}, [], True, "x:1", "1"),
    ("y", 2, ["y", "y"], {"y": "y"}, [], False, "y:2", "2"),
)
"""By the way of repairing, what may do where nothing is known of a value."""


def repaired(
    document: Document, found: Sequence[Finding], check: Check, way: int
) -> Document | None:
    """The document with its faulty parts replaced.

    Args:
        document: The document as it was written.
        found: What is wrong with it.
        check: Finds what is still wrong.
        way: The number of the way, from 0 and below `WAYS`.

    Returns:
        A document whose other parts still know where they were written; None if so much of it is
        wrong that nothing can be said of the rest.
    """
    value = Traced(document.data, document)
    wrong = [finding for finding in found if finding.is_error]
    for attempt in range(_ROUNDS):
        if not wrong:
            return structs.replace(document, data=value.value, origin=value, path=())
        if len(wrong) > _MOST:
            return None
        # From the end, so that the indexes of the others stay true.
        for finding in sorted(wrong, key=lambda faulty: _order(faulty.path), reverse=True):
            changed = _changed(value, finding, check, way, attempt)
            if changed is None:
                return None
            value = changed
        wrong = [finding for finding in check(value.value) if finding.is_error]
    return None


def remembered(check: Check, value: Any, found: Sequence[Finding]) -> Check:
    """A check that looks at a value once: ways of repairing come by the same ones again and again.

    Args:
        check: What finds the problems of a value.
        value: The document's own value.
        found: What the check says of that.
    """
    known = {key(value): found}

    def check_once(value: Any) -> Sequence[Finding]:
        bytes_of = key(value)
        if bytes_of not in known:
            known[bytes_of] = check(value)
        return known[bytes_of]

    return check_once


def key(value: Any) -> bytes:
    """Bytes that two JSON values share if they are the same."""
    return marshal.dumps(value, 2)


def respelt(document: Document, found: Iterable[Finding]) -> Document | None:
    """The document with its misspelt fields under the names that were probably meant.

    Below a misspelt field no check looks, so what is wrong there shows only in this document.

    Returns:
        The document; None if there is no such field.
    """
    value = traced = Traced(document.data, document)
    for finding in found:
        if (
            finding.fault is not None
            and finding.fault.problem == "unknown"
            and finding.fault.fields
        ):
            value = next(_renamed(value, finding.path, finding.fault.fields[0]), value)
    if value is traced:
        return None
    return structs.replace(document, data=value.value, origin=value, path=())


def common(told: Iterable[Sequence[Diagnostic]]) -> list[Diagnostic]:
    """What is told every time.

    Args:
        told: The diagnostics for each way of repairing.
    """
    first, *others = [*told] or [()]
    known = [{_alike(diagnostic) for diagnostic in each} for each in others]
    return [diagnostic for diagnostic in first if all(_alike(diagnostic) in each for each in known)]


def _alike(diagnostic: Diagnostic) -> tuple[str, str, str]:
    """Its identity, whichever version of Kubernetes it was compiled for."""
    code, words, place = identity(diagnostic)
    return code, _VERSION.sub("", words), place


def identity(diagnostic: Diagnostic) -> tuple[str, str, str]:
    """What tells a diagnostic from another: its code, its words and its place."""
    return diagnostic.code, diagnostic.message, str(diagnostic.location)


def _order(path: ValuePath) -> tuple[tuple[int, str], ...]:
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in path)


def _changed(
    value: Traced, finding: Finding, check: Check, way: int, attempt: int
) -> Traced | None:
    """The value with one faulty part replaced; None if that part cannot be spared."""
    path = finding.path
    fault_is_unknown = finding.fault is not None and finding.fault.problem == "unknown"
    if attempt == 0:
        before = {other.path for other in check(value.value)}
        for candidate in _candidates(value, finding, way):
            if not any(_touches(other.path, path, before) for other in check(candidate.value)):
                return candidate
    # Without the part; if it is missing, or still wrong, without what it belongs to.
    there = value.at(path) is not None
    shorter = path if there and attempt < 2 else path[: max(len(path) - 1, 0)]
    while shorter and value.at(shorter) is None:
        shorter = shorter[:-1]
    spare = len(shorter) > 1 or (shorter == path and fault_is_unknown)
    return _without(value, shorter) if spare else None


def _touches(path: ValuePath, replaced: ValuePath, before: set[ValuePath]) -> bool:
    """Whether a finding is about what was replaced, or about what lacks it now."""
    if path[: len(replaced)] == replaced:
        return True
    return path == replaced[: len(path)] and path not in before


def _candidates(value: Traced, finding: Finding, way: int) -> Iterator[Traced]:
    path, fault = finding.path, finding.fault
    is_missing = fault is not None and fault.problem == "missing"
    if fault is not None and fault.problem == "unknown":
        if way and fault.fields:
            yield from _renamed(value, path, fault.fields[0])
        return
    if way == 0 and not is_missing and len(path) > 1 and value.at(path) is not None:
        yield _without(value, path)
    options = fault.options if fault else ()
    # Another one for each way, so that nothing depends on which it is.
    turned = options[way % len(options) :] + options[: way % len(options)] if options else ()
    for stopgap in (*turned, *_meant(value, path), *_STOPGAPS[max(way, 1)]):
        if (with_it := _with(value, path, stopgap)) is not None:
            yield with_it


def _meant(value: Traced, path: ValuePath) -> Iterator[Any]:
    """What a value of the wrong type probably means."""
    part = value.at(path)
    given = part.value if part else None
    if isinstance(given, str) and len(given) < 10 and given.isdecimal():
        yield int(given)
    if isinstance(given, str) and given.lower() in ("true", "false"):
        yield given.lower() == "true"
    # What became a boolean may have been `y`, `on` or `true`.
    if isinstance(given, int | float) and not isinstance(given, bool):
        yield str(given)
    if isinstance(given, str):
        yield [given]


def _renamed(value: Traced, path: ValuePath, name: str) -> Iterator[Traced]:
    parent, part = value.at(path[:-1]), value.at(path)
    if parent is None or part is None or parent.part(name) is not None:
        return

    def change(mapping: Traced) -> Traced:
        parts = {step: part for step, part in mapping.parts().items() if step != path[-1]}
        return mapping.with_fields({**parts, name: part})

    yield value.changed(path[:-1], change)


def _with(value: Traced, path: ValuePath, new: Any) -> Traced | None:
    """The value with another part at a path; None if there is nothing that could hold it."""
    if not path:
        return None
    parent = value.at(path[:-1])
    if parent is None:
        return None
    place = value.at(path) or parent
    made = Traced(new, place.source, place.path)

    def change(holder: Traced) -> Traced:
        if isinstance(path[-1], int):
            items = holder.items()
            items[path[-1]] = made
            return holder.with_items(items)
        return holder.with_fields({**holder.parts(), path[-1]: made})

    is_list = isinstance(parent.value, list) and isinstance(path[-1], int)
    fits = isinstance(parent.value, dict) or (is_list and parent.part(path[-1]) is not None)
    return value.changed(path[:-1], change) if fits else None


def _without(value: Traced, path: ValuePath) -> Traced:
    def change(holder: Traced) -> Traced:
        if isinstance(path[-1], int):
            items = holder.items()
            del items[path[-1]]
            return holder.with_items(items)
        parts = {step: part for step, part in holder.parts().items() if step != path[-1]}
        return holder.with_fields(parts)

    return value.changed(path[:-1], change)
