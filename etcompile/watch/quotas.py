"""Quotas of namespaces, as far as the watcher asks: that one has changed.

A Pod that a quota refuses is tried again later and later. When there is room again is told by the
quota itself, so nobody need ask for it.
"""

from collections.abc import Callable, Iterable

from etcompile.k8s.objects import LiveObject


class QuotaKeeper:
    """Who is told of quotas by a stream, and keeps nothing.

    Args:
        changed: Is told the namespace in which one has changed.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed

    def begin(self, place: str | None) -> None:
        """A list begins."""

    def listed(self, place: str | None, objects: Iterable[LiveObject]) -> None:  # noqa: ARG002
        """Some of the quotas of that list."""
        for namespace in {value["metadata"]["namespace"] for value in objects}:
            self._changed(namespace)

    def complete(self, place: str | None, version: str) -> None:
        """That list is complete."""

    def changed(self, kind: str, value: LiveObject) -> None:  # noqa: ARG002 - a stream's event
        """A quota was added, changed or deleted."""
        self._changed(value["metadata"]["namespace"])
