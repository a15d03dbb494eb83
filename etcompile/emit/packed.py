"""Objects in order, stored as bytes until they are read.

A hundred thousand Pods are hundreds of megabytes as mappings, although a role's Pods differ in
little but their names. They become mappings again, a few hundred at a time, while they are written.
"""

import heapq
import itertools
import marshal
import zlib
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, overload

from etcompile.emit.order import Manifest, Place, place

_LARGEST = 256  # objects of a part: they are mappings at one time


class _Part(NamedTuple):
    """Objects of one wave and kind, in order, and the places of the first and the last."""

    first: Place
    last: Place
    size: int
    data: bytes


class Packed(Sequence[Manifest]):
    """Objects in the order of `ordered`.

    Each look makes new mappings, so changing one changes nothing here. What objects of a kind
    share, such as the spec of a role's Pods, they share in what a look makes too.

    Args:
        manifests: Kubernetes objects, JSON values, in any order.
    """

    __slots__ = ("parts",)

    parts: tuple[_Part, ...]

    def __init__(self, manifests: Iterable[Manifest]) -> None:
        placed = sorted(((place(manifest), manifest) for manifest in manifests), key=itemgetter(0))
        # By wave and kind: these come first in a place.
        alike = itertools.groupby(enumerate(placed), lambda x: (x[0] // _LARGEST, *x[1][0][:3]))
        self.parts = tuple(_part([entry for _, entry in found]) for _, found in alike)

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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self)!r})"


def merged(several: Iterable[Packed]) -> Iterator[Manifest]:
    """The objects of several sequences in the order of `ordered`.

    Yields:
        Each object. Few are in memory at a time, unless names of many jobs interleave.
    """
    parts = [part for sequence in several for part in sequence.parts]
    turn = {id(part): number for number, part in enumerate(parts)}
    for together in _overlapping(sorted(parts, key=itemgetter(0))):
        if len(together) == 1:
            yield from _objects(together[0])
        else:
            # Of objects that compare equal, those of an earlier sequence come first.
            together.sort(key=lambda part: turn[id(part)])
            yield from heapq.merge(*map(_objects, together), key=place)


def _part(placed: Sequence[tuple[Place, Manifest]]) -> _Part:
    # For JSON values, marshal is quicker than pickle and keeps what is shared shared, too.
    data = marshal.dumps([manifest for _, manifest in placed])
    if len(data) > 1 << 23:  # each of a thousand Pods names all the others
        data = zlib.compress(data, 1)
    return _Part(placed[0][0], placed[-1][0], len(placed), data)


def _objects(part: _Part) -> Iterator[Manifest]:
    data = zlib.decompress(part.data) if part.data.startswith(b"x") else part.data
    values: list[dict[str, Any]] = marshal.loads(data)  # noqa: S302 - our own bytes
    return iter(values)


def _overlapping(parts: Iterable[_Part]) -> Iterator[list[_Part]]:
    """Parts sorted by their first place, those together that lie in the same stretch."""
    together: list[_Part] = []
    for part in parts:
        if together and part.first > max(other.last for other in together):
            yield together
            together = []
        together.append(part)
    if together:
        yield together
