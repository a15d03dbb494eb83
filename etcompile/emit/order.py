"""Order objects as they are written and applied, and store them in that order.

A wave says what must exist first. Inside a wave the order only has to be stable and easy to read.
Design and reasons: reference/gitops.md 9.

A hundred thousand Pods are hundreds of megabytes as mappings, although a role's Pods differ in
little but their names. So they are stored as bytes, and become mappings again, a few hundred at a
time, while they are written.
"""

import functools
import heapq
import itertools
import marshal
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, overload

from etcompile.k8s.objects import FOREMOST_KINDS, wave
from etcompile.k8s.path import mapping_at
from etcompile.naming import Natural, natural

Manifest = Mapping[str, Any]

_natural_namespace = functools.lru_cache(maxsize=1024)(natural)
"""Cached, because few namespaces hold many objects."""

Place = tuple[int, int, str, Natural, Natural, str]
"""The sort key of an object in `ordered`."""


def identity(manifest: Manifest) -> tuple[str, str, str, str]:
    """Return API version, kind, namespace and name of an object, each empty if missing.

    Objects of other kinds are unchecked, so their metadata may contain anything. `generateName`
    counts as a name.
    """
    metadata = mapping_at(manifest, ("metadata",))
    return (
        _text(manifest.get("apiVersion")),
        _text(manifest.get("kind")),
        _text(metadata.get("namespace")),
        _text(metadata.get("name")) or _text(metadata.get("generateName")),
    )


def label(manifest: Manifest, key: str) -> str:
    return _text(mapping_at(manifest, ("metadata", "labels")).get(key))


def ordered(manifests: Iterable[Manifest]) -> list[Manifest]:
    """Sort objects as they are written and applied.

    By wave, kind, namespace and name. Numbers in names count as numbers, so worker-2 comes before
    worker-10. Namespaces and definitions of kinds come before other kinds of their wave, which may
    need them. The sort is stable, for objects with equal keys, such as those with `generateName`.
    """
    return sorted(manifests, key=place)


def place(manifest: Manifest) -> Place:
    api_version, kind, namespace, name = identity(manifest)
    rank = FOREMOST_KINDS.index(kind) if kind in FOREMOST_KINDS else len(FOREMOST_KINDS)
    where = _natural_namespace(namespace)
    return (wave(manifest), rank, kind, where, natural(name), api_version)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


# Stored objects ----------------------------------------------------------------------------------

_LARGEST = 256  # objects of a part, which are mappings at the same time


class _Part(NamedTuple):
    """Objects of one wave and kind, in order, and the sort keys of the first and the last."""

    first: Place
    last: Place
    size: int
    data: bytes


class Packed(Sequence[Manifest]):
    """Objects in the order of `ordered`.

    Each access creates new mappings, so changing one changes nothing here. What objects of a kind
    share, such as the spec of a role's Pods, they also share in the result of an access.
    """

    __slots__ = ("parts",)

    parts: tuple[_Part, ...]

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        placed = sorted(((place(manifest), manifest) for manifest in manifests), key=itemgetter(0))
        # A sort key begins with wave and kind.
        groups = itertools.groupby(enumerate(placed), lambda x: (x[0] // _LARGEST, *x[1][0][:3]))
        parts = []
        for _, group in groups:
            part = [entry for _, entry in group]
            # For JSON values, marshal is faster than pickle, and also preserves shared values.
            data = marshal.dumps([manifest for _, manifest in part])
            if len(data) > 1 << 23:  # each of a thousand Pods names all the others
                data = zlib.compress(data, 1)
            parts.append(_Part(part[0][0], part[-1][0], len(part), data))
        self.parts = tuple(parts)

    def __len__(self) -> int:
        return sum(part.size for part in self.parts)

    def __iter__(self) -> Iterator[Manifest]:
        return itertools.chain.from_iterable(map(_objects, self.parts))

    @overload
    def __getitem__(self, index: int) -> Manifest: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Manifest]: ...
    def __getitem__(self, index: int | slice) -> Manifest | Sequence[Manifest]:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Packed) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(part[:3] for part in self.parts))


def merged(several: Iterable[Packed]) -> Iterator[Manifest]:
    """Merge several sequences to one in the order of `ordered`.

    Few objects are in memory at a time, unless names of many jobs interleave.
    """
    parts = [part for sequence in several for part in sequence.parts]
    turn = {id(part): number for number, part in enumerate(parts)}
    for together in _overlapping(sorted(parts, key=itemgetter(0))):
        if len(together) == 1:
            yield from _objects(together[0])
        else:
            # Among equal objects, those of an earlier sequence come first.
            together.sort(key=lambda part: turn[id(part)])
            yield from heapq.merge(*map(_objects, together), key=place)


def _objects(part: _Part) -> Iterator[Manifest]:
    data = zlib.decompress(part.data) if part.data.startswith(b"x") else part.data
    values: list[dict[str, Any]] = marshal.loads(data)  # noqa: S302 - our own bytes
    return iter(values)


def _overlapping(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    together: list[_Part] = []
    for part in parts:
        if together and part.first > max(other.last for other in together):
            yield together
            together = []
        together.append(part)
    if together:
        yield together
