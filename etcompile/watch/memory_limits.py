"""How much of what others write into the cluster a watcher keeps.

Whoever may write in one namespace could otherwise take the memory that the jobs of all others need.
What exceeds the budget is reported and not kept.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import msgspec

RECORD_BYTES = 1024 * 1024
"""Bytes of a run record, or of host lists: what a ConfigMap can hold."""
REPLICA_BYTES = 640
"""Bytes that a replica of a job takes, whether it has a Pod or not, rounded up."""

_EACH = 2048  # bytes that a ConfigMap takes besides its text
_SHARE = 0.4  # of the memory that there is, what may be taken by what others write
_LEAST = 64 * 1024**2
_MOST = 1024**3
_MOST_SHARED = 32 * 1024**2  # of one namespace among several: about ten thousand Pods
_CGROUP = Path("/sys/fs/cgroup/memory.max")

_MOST_CONTAINERS = 64  # of a Pod, that are looked at
_LONGEST_TEXT = 4096
_LONGEST_NAME = 317  # a prefix of 253 characters, a slash and a name of 63
_NAMES = frozenset({"name", "namespace", "nodeName", "reason", "type", "uid"})
_SMALL = 16 * 1024  # bytes of an object in which nothing need be cut
_WHOLE = frozenset({"data", "binaryData", "managedFields"})  # bounded in `Store`, or not kept


def bounded(value: Any) -> Any:
    """An object from the API server with every text in it cut, and every list of containers.

    Patterns that look into it, and the memory that keeps it, can rely on these bounds.
    """
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


class MemoryBudget:
    """What of the memory is reserved, by owner; not safe to share between threads.

    Attributes:
        refused, freed: Memory was refused, and some has been released since.
    """

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._reserved: dict[Hashable, tuple[str, int]] = {}
        self._sums: dict[str, int] = {}
        self._sum = 0
        self.refused = self.freed = False

    def reserve(self, namespace: str, owner: Hashable, size: int, each: int = _EACH) -> bool:
        """Reserves memory for an owner, instead of what it had; false if there is not as much.

        Args:
            size: Bytes of text.
            each: Bytes that it takes besides its text.
        """
        self.release(owner)
        size += each
        of_namespace = self._sums.get(namespace, 0) + size
        if of_namespace > self._each or self._sum + size > self._total:
            self.refused = True
            return False
        self._reserved[owner] = namespace, size
        self._sums[namespace] = of_namespace
        self._sum += size
        return True

    def release(self, owner: Hashable) -> None:
        """Gives back what an owner has reserved, if anything."""
        namespace, size = self._reserved.pop(owner, ("", 0))
        if not size:
            return
        self.freed = self.refused
        self._sum -= size
        self._sums[namespace] -= size
        if not self._sums[namespace]:
            del self._sums[namespace]

    def available(self, namespace: str) -> int:
        """Bytes that a namespace may still reserve."""
        return min(self._each - self._sums.get(namespace, 0), self._total - self._sum) - _EACH


def memory_budget(*, shared: bool) -> MemoryBudget:
    """The budget that this machine allows, or this container.

    Args:
        shared: Several namespaces share it: none of them gets more than half, nor so much that the
            watcher takes more than 128 MiB because of it.
    """
    try:
        memory = int(_CGROUP.read_text())
    except (OSError, ValueError):
        memory = _MOST  # `max`, or no cgroup of its own
    total = int(min(_MOST, max(_LEAST, memory * _SHARE)))
    return MemoryBudget(total, min(total // 2, _MOST_SHARED) if shared else total)
