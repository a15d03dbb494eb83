"""How much of what others write into the cluster a watcher keeps, so that no one can fill it.

Who may write ConfigMaps in one namespace could otherwise take the memory that the jobs of all
others need. What finds no room is told of and not kept; everything else goes on.
"""

from collections.abc import Hashable
from pathlib import Path

RECORD_BYTES = 1024 * 1024
"""Bytes of a run record, or of host lists: what a ConfigMap can hold."""
REPLICA_BYTES = 640
"""Bytes that a replica of a job takes, whether it has a Pod or not, rounded up."""

_EACH = 2048
"""Bytes that a ConfigMap takes besides its text: its metadata, and what points to it."""
_SHARE = 0.4
"""Of the memory that there is, what may be taken by what others write."""
_LEAST = 64 * 1024**2
_MOST = 1024**3
_MOST_SHARED = 32 * 1024**2
"""Of one namespace among several: about ten thousand Pods."""
_CGROUP = Path("/sys/fs/cgroup/memory.max")


class Room:
    """Room for what is kept of ConfigMaps; not safe to share between threads.

    Args:
        total: Bytes for all of it.
        each: Bytes for what is of one namespace.
    """

    def __init__(self, total: int, each: int) -> None:
        self._total = total
        self._each = each
        self._taken: dict[Hashable, tuple[str, int]] = {}
        self._sums: dict[str, int] = {}
        self._sum = 0
        self._refused = self._freed = False

    def take(self, namespace: str, what: Hashable, size: int, each: int = _EACH) -> bool:
        """Takes room for something, instead of what it had before.

        Args:
            namespace: Whose it is.
            what: What it is for.
            size: Bytes of text; what they come to in memory is reckoned here.
            each: Bytes that it takes besides its text.

        Returns:
            False if there is not as much; then it has none.
        """
        self.give_back(what)
        size += each
        of_namespace = self._sums.get(namespace, 0) + size
        if of_namespace > self._each or self._sum + size > self._total:
            self._refused = True
            return False
        self._taken[what] = namespace, size
        self._sums[namespace] = of_namespace
        self._sum += size
        return True

    def left(self, namespace: str) -> int:
        """Bytes that a namespace may still take."""
        return min(self._each - self._sums.get(namespace, 0), self._total - self._sum) - _EACH

    def ask_again(self) -> None:
        """Has `has_room_again` say so the next time."""
        self._freed = True

    def has_room_again(self) -> bool:
        """Whether something was refused, and something else has gone since; asked once."""
        if not self._freed:
            return False
        self._refused = self._freed = False
        return True

    def give_back(self, what: Hashable) -> None:
        """Gives back the room of something, if it had any."""
        namespace, size = self._taken.pop(what, ("", 0))
        if not size:
            return
        self._freed = self._refused
        self._sum -= size
        self._sums[namespace] -= size
        if not self._sums[namespace]:
            del self._sums[namespace]


def room(*, shared: bool) -> Room:
    """The room that this machine has, or this container.

    Args:
        shared: Whether several namespaces share it: none of them gets more than half, nor so much
            that the watcher as a whole takes more than 128 MiB because of it.
    """
    total = int(min(_MOST, max(_LEAST, _memory() * _SHARE)))
    return Room(total, min(total // 2, _MOST_SHARED) if shared else total)


def _memory() -> int:
    """Bytes of memory that this process may have."""
    try:
        return int(_CGROUP.read_text())
    except (OSError, ValueError):
        return _MOST  # `max`, or no cgroup of its own
