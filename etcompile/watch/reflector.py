"""What a cluster holds of a kind, and then every change of it: one thread a kind and place.

A list only to begin with, and again when the API server has forgotten where a watch was.
"""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from msgspec import Struct, field

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi import Cluster, ClusterError, Resource
from etcompile.watch.memory_limits import bounded

_PAGE = 100  # objects of a list's page: with more, their JSON would be most of the memory used
_PAGES = {"ConfigMap": 20}  # whose objects may have a megabyte each
_LARGEST_PAGE = 4 * 1024**2  # bytes: a page of more is asked for in smaller parts
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 10.0
_STEADY = 5.0  # seconds that a watch must have lasted for the next wait to be the first again
_RENEWAL = 120.0  # seconds until a watch is renewed: about as long a dead line goes unnoticed

_log = logging.getLogger("etcompile.watch")


Name = tuple[str, str]
"""Of an object: its namespace and its name."""


class Reflector(Struct):
    """Follows the objects of a kind.

    Args:
        place: The namespace; None for all.
        saw: Is called with each object, and with `gone=True` when it is gone, from the thread that
            runs `run`; so are the others.
        left: Is called after a list with kind, place, the names that the list had, and the version
            that it is as of: what it did not have is gone.
        restarted: Is called with each new beginning and its cause: `expired`, or `error`.
    """

    cluster: Cluster
    api_version: str
    kind: str
    place: str | None
    labels: str
    saw: Callable[..., None]
    left: Callable[[str, str | None, set[Name], int], None] | None
    restarted: Callable[[str, str, ClusterError], None]
    synced: threading.Event = field(default_factory=threading.Event)
    _version: str | None = None
    _lock: AbstractContextManager[object] = field(default_factory=threading.Lock)

    def run(self, stop: threading.Event) -> None:
        """Follows them until told to stop, or until the cluster is closed."""
        wait = _FIRST_WAIT
        while not stop.is_set():
            begun = time.monotonic()
            try:
                resource = self.cluster.resource(self.api_version, self.kind)
                if self._version is None:
                    self._version = self.list(resource)
                    begun = time.monotonic()
                self._watch(resource, stop)
            except ClusterError as error:
                if stop.is_set() or error.reason == "Interrupted":
                    return
                if error.expired:
                    self._version = None
                self.restarted(self.kind, "expired" if error.expired else "error", error)
                if time.monotonic() - begun > _STEADY:
                    wait = _FIRST_WAIT
                # The first new list at once: nothing is wrong, it was only long ago.
                if not (error.expired and wait == _FIRST_WAIT):
                    stop.wait(error.retry_after or wait)
                wait = min(wait * 2, _LONGEST_WAIT)
            except Exception as error:
                # One answer that nobody thought of must not end this thread for good.
                _log.exception("the stream of %s: this is a bug", self.kind)
                self._version = None
                self.restarted(self.kind, "error", ClusterError("Bug", repr(error)[:300]))
                stop.wait(_LONGEST_WAIT)

    def list(self, resource: Resource) -> str:
        """Tells all objects there are; the version that this is as of."""
        version, limit = "0", _PAGES.get(self.kind, _PAGE)
        listed: set[Name] = set()
        with self._lock:
            pages = self.cluster.pages(
                resource, self.place, labels=self.labels, limit=limit, largest=_LARGEST_PAGE
            )
            for page in pages:
                for value in page.items:
                    listed.add((value["metadata"]["namespace"], value["metadata"]["name"]))
                    self._see(value)
                version = page.resource_version
            if self.left is not None:
                self.left(self.kind, self.place, listed, int(version))
        self.synced.set()
        return version

    def _watch(self, resource: Resource, stop: threading.Event) -> None:
        assert self._version is not None  # noqa: S101 - the list gave one
        watch = self.cluster.watch(
            resource, self._version, self.place, labels=self.labels, renewal=_RENEWAL
        )
        try:
            for event in watch:
                if stop.is_set():
                    return
                if event.type != "BOOKMARK":
                    self._see(event.object, gone=event.type == "DELETED")
                self._version = event.resource_version
        finally:
            self._version = self._version and watch.resource_version
            watch.close()

    def _see(self, value: LiveObject, *, gone: bool = False) -> None:
        try:
            self.saw(bounded(value), gone=gone)
        except Exception:
            # One object that nobody thought of must not end the stream of all others.
            metadata = value.get("metadata") or {}
            where = metadata.get("namespace"), metadata.get("name")
            _log.exception("%s %s/%s: this is a bug", value.get("kind"), *where)
