"""Fields of a job that stand beside the mapping their kind reads them from.

Older operators, and tools that still write for them, have the run policy's fields directly under
`spec`. The Training Operator's API drops them there; here they are put where they belong, and
somebody is told. Apart from lowering, because a hand-over writes the result into a file.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from etcompile.check.document_rules import schema_rules
from etcompile.diagnostics import Diagnostic, ValuePath, codes, diagnose
from etcompile.diagnostics.spelling import bare
from etcompile.frontends import Kind
from etcompile.k8s.path import dotted, value_at
from etcompile.load import Document

_SPEC: ValuePath = ("spec",)
_POLICY: ValuePath = ("spec", "runPolicy")
_SCHEDULING: ValuePath = (*_POLICY, "schedulingPolicy")
_HOMES = (_SPEC, _POLICY, _SCHEDULING)

_OF_OTHERS = frozenset({"successPolicy", "mpiDistribution"})
"""Fields that other versions or kinds have: where a kind has none, it does nothing with them."""


class Placed(Struct, frozen=True):
    """A document with its fields where its kind reads them.

    Args:
        changes: What was done to it, for people: `spec.backoffLimit moves to spec.runPolicy...`.
        diagnostics: A warning, if anything was done.
    """

    document: Document
    changes: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()


class _Move(Struct, frozen=True):
    before: ValuePath
    after: ValuePath | None
    """None for a field that the kind does not have."""
    is_taken: bool = False
    """There is another value where it belongs."""

    @property
    def words(self) -> str:
        """What is done, for people."""
        if self.after is None:
            return f"{dotted(self.before)} is left out: this kind has no such field"
        if self.is_taken:
            return f"{dotted(self.before)} is left out: {dotted(self.after)} counts"
        return f"{dotted(self.before)} moves to {dotted(self.after)}"


def placed(document: Document, kind: Kind) -> Placed:
    """A document of a Kubeflow kind with run-policy fields that stand elsewhere in `runPolicy`.

    What stands where it belongs wins. The names of the fields, and where each belongs, are those
    of the kind's schema (reference/training-operator.md 1.1, 1.2).

    Args:
        document: The document; it need not be valid.
        kind: Its kind, one of Kubeflow's.

    Returns:
        The document, itself if nothing had to move.
    """
    homes = _homes(kind.schema)
    if not homes:
        return Placed(document)
    data: dict[str, Any] = document.data
    moves: list[_Move] = []
    sources: dict[ValuePath, ValuePath] = {}
    strays = [(before, _home(name, homes, kind)) for before, name in _strays(data, homes, kind)]
    if not strays:
        return Placed(document)
    from etcompile.load.relocated import (  # noqa: PLC0415 - few documents need it
        relocated,
        with_value,
        without_value,
    )

    # A whole mapping before the fields that go into it.
    for before, home in sorted(strays, key=lambda stray: len(stray[1] or ())):
        if home is None or not _is_open(data, home):
            continue
        value, data = value_at(data, before), without_value(data, before)
        if before[:-1] in (_POLICY, _SCHEDULING) and not value_at(data, before[:-1]):
            data = without_value(data, before[:-1])
        after = (*home, before[-1]) if home else None
        taken = after is not None and value_at(data, after) is not None
        moves.append(_Move(before, after, taken))
        if after is not None and not taken:
            made = (after[:length] for length in range(2, len(after) + 1))
            sources |= {path: before for path in made if value_at(data, path) is None}
            data = with_value(data, after, value)
    if not moves:
        return Placed(document)
    moves.sort(key=lambda move: [path for path, _ in strays].index(move.before))
    return Placed(
        relocated(document, data, sources),
        tuple(move.words for move in moves),
        (_warning(document, kind, moves),),
    )


def _home(name: str, homes: Mapping[ValuePath, frozenset[str]], kind: Kind) -> ValuePath | None:
    """Where a field belongs: empty for nowhere in this kind, None for one of which none knows."""
    home = next((at for at, names in homes.items() if name in names), None)
    if home == _SPEC and any(name == path[1] for path in kind.pod_templates):
        return None  # the API server wants it in its place
    return () if home is None and name in _OF_OTHERS else home


def _strays(
    data: Mapping[str, Any], homes: Mapping[ValuePath, frozenset[str]], kind: Kind
) -> Iterator[tuple[ValuePath, str]]:
    """The fields that stand where the kind has none of their name, with these names."""
    for at, names in homes.items():
        given = value_at(data, at)
        for name in given if isinstance(given, Mapping) else ():
            if name not in names:
                yield (*at, name), name
    for path in kind.templates_of(data):
        given = value_at(data, path[:-1])
        for name in given if isinstance(given, Mapping) else ():
            # Not what the replicas of another type may have, too.
            if name in homes[_POLICY]:
                yield (*path[:-1], name), name


@functools.cache
def _homes(schema: str | Path) -> Mapping[ValuePath, frozenset[str]]:
    """The fields that a kind has in each place; empty for a kind without a `runPolicy`."""
    whole = schema_rules(schema)
    found: dict[ValuePath, frozenset[str]] = {}
    for home in _HOMES:
        value = whole
        for step in home:
            value = _resolved(whole, value.get("properties", {}).get(step, {}))
        found[home] = frozenset(value.get("properties", ()))
    return found if found[_POLICY] else {}


def _resolved(whole: Mapping[str, Any], value: Mapping[str, Any]) -> Mapping[str, Any]:
    while reference := value.get("$ref"):
        value = whole["$defs"][reference.rpartition("/")[2]]
    return value


def _is_open(data: Mapping[str, Any], home: ValuePath) -> bool:
    """Whether a field can be put there: what is there is a mapping, or nothing.

    A mapping that is there under a misspelt name is not made a second time.
    """
    for length in range(1, len(home) + 1):
        value = value_at(data, home[:length])
        if not isinstance(value, Mapping | None):
            return False
        if value is None:
            beside = value_at(data, home[: length - 1]) or {}
            return all(bare(name) != bare(str(home[length - 1])) for name in beside)
    return True


def _warning(document: Document, kind: Kind, moves: list[_Move]) -> Diagnostic:
    operator = kind.operator.name if kind.operator else "operator"
    fields = [dotted(move.before) for move in moves]
    verb = "stands" if len(fields) == 1 else "stand"
    return diagnose(
        codes.MISPLACED_POLICY,
        document.locate(moves[0].before, key=True),
        fields=_listed(fields),
        verb=verb,
        operator=operator,
        them="it" if len(fields) == 1 else "them",
        advice="; ".join(_advice(moves)),
    )


def _advice(moves: list[_Move]) -> Iterator[str]:
    moved = [
        f"{dotted(move.before)} to {dotted(move.after)}"
        for move in moves
        if move.after and not move.is_taken
    ]
    if moved:
        yield f"move {_listed(moved)}; it is compiled so, and `etcompile migrate` writes it so"
    rest = [move for move in moves if move.is_taken or not move.after]
    yield from (f"remove {dotted(move.before)}: {_reason(move)}" for move in rest)


def _reason(move: _Move) -> str:
    return f"{dotted(move.after)} counts" if move.after else "this kind has no such field"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
