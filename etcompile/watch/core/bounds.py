"""Cut what others write into the cluster to what the watcher keeps of it.

Patterns that look into an object, and the memory that keeps it, can rely on these bounds.
"""

from collections.abc import Hashable
from typing import Any

import msgspec
from msgspec import Struct, field

_MOST_CONTAINERS = 64  # of a Pod
_LONGEST_TEXT = 4096
_LONGEST_NAME = 317  # a prefix of 253 characters, a slash and a name of 63
_NAMES = frozenset({"name", "namespace", "nodeName", "reason", "type", "uid"})
_SMALL = 16 * 1024  # bytes of an object in which nothing need be cut
_WHOLE = frozenset({"data", "binaryData", "managedFields"})  # bounded in `Store`, or not kept


def bounded(value: Any) -> Any:
    """Return an object with every text in it cut, and every list of containers."""
    return value if len(msgspec.json.encode(value)) <= _SMALL else _cut(value)


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, list):
        return [_cut(inner) for inner in value[:_MOST_CONTAINERS]]
    if not isinstance(value, dict):
        return value
    return {
        key[:_LONGEST_NAME]: inner
        if key in _WHOLE
        else inner[:_LONGEST_NAME]
        if key in _NAMES and isinstance(inner, str)
        else _cut(inner)
        for key, inner in value.items()
    }


class Cap(Struct):
    """How much of something is taken in each namespace; beyond `most`, nothing is.

    Attributes:
        freed: Something was refused, and some has been released since.
    """

    most: int
    freed: bool = False
    _taken: dict[Hashable, tuple[str, int]] = field(default_factory=dict)
    _sums: dict[str, int] = field(default_factory=dict)
    _refused: bool = False

    def take(self, namespace: str, owner: Hashable, size: int) -> bool:
        """Take so much for an owner, instead of what it had; false if that is too much."""
        fits = self.fits(namespace, owner, size)
        self.release(owner)
        self._refused = self._refused or not fits
        if fits:
            self._taken[owner] = namespace, size
            self._sums[namespace] = self._sums.get(namespace, 0) + size
        return fits

    def fits(self, namespace: str, owner: Hashable, size: int) -> bool:
        """Return whether so much may be taken for an owner, instead of what it had."""
        before = self._taken.get(owner, ("", 0))[1]
        return self._sums.get(namespace, 0) - before + size <= self.most

    def release(self, owner: Hashable) -> None:
        """Give back what an owner has taken, if anything."""
        namespace, size = self._taken.pop(owner, ("", 0))
        if size:
            self.freed = self._refused
            self._sums[namespace] -= size

    def heal(self) -> bool:
        """Return whether what was refused may fit now, once."""
        freed, self.freed = self.freed, False
        self._refused = self._refused and not freed
        return freed
