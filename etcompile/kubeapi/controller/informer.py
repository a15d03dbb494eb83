"""List the objects of a kind, then watch them, and resume both after every interruption.

It lists only to begin with and after the API server has forgotten the version of the watch.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.controller.work_queue import backoff
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.watch_stream import Watch

_log = logging.getLogger("etcompile.kubeapi")

_PAGE = 100  # objects of a list's page: with more, their JSON would be most of the memory used
_LARGEST_PAGE = 4 * 1024**2  # bytes: a page of more is read in smaller parts
_FIRST_WAIT = 0.1
_LONGEST_WAIT = 10.0
_STEADY = 5.0  # seconds after which a watch counts as having worked
_RENEWAL = 120.0  # seconds until a watch is renewed: about as long a dead line goes unnoticed

Name = tuple[str, str]
"""The namespace and the name of an object."""


class Informer(Struct):
    """Follow the objects of a kind, in the thread that calls `run`.

    Args:
        namespace: None for all namespaces.
        changed: Called with each object, and whether it is gone.
        listed: Called after a list with the UIDs of all objects and the version of the list:
            everything else that is not newer is gone.
        failed: Called with each error; returns whether to try again.
        limit: Objects of a page.
        version: Where the watch goes on; None to list first.
    """

    cluster: Cluster
    api_version: str
    kind: str
    namespace: str | None
    changed: Callable[[dict, bool], None]  # type: ignore[type-arg]
    listed: Callable[[Mapping[Name, str], int], None] = lambda _uids, _version: None
    failed: Callable[[ClusterError], bool] = lambda _error: True
    labels: str = ""
    metadata_only: bool = False
    limit: int = _PAGE
    renewal: float = _RENEWAL
    version: str | None = None
    synced: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    _watch: Watch | None = None
    _stale: bool = False

    def run(self) -> None:
        failures = 0
        while not self.closed.is_set():
            begun = time.monotonic()
            try:
                if self.version is None:
                    self.list()
                    begun = time.monotonic()
                self._follow()
                failures = 0
            except ClusterError as error:
                if self.closed.is_set() or error.reason == "Interrupted":
                    return
                if time.monotonic() - begun > _STEADY:
                    failures = 0
                if error.expired:
                    self.version = None
                if not self.failed(error):
                    return
                failures += 1
                # The first new list at once: nothing is wrong, it was only long ago.
                if not (error.expired and failures == 1):
                    wait = backoff(failures, _FIRST_WAIT, _LONGEST_WAIT)
                    self.closed.wait(error.retry_after or wait)
            except Exception as error:
                # One answer that nobody thought of must not end this thread for good.
                _log.exception("the informer of %s: this is a bug", self.kind)
                self.version = None
                if not self.failed(ClusterError("Bug", repr(error)[:300])):
                    return
                self.closed.wait(_LONGEST_WAIT)

    def list(self) -> None:
        resource = self.cluster.resource(self.api_version, self.kind)
        uids: dict[Name, str] = {}
        self._stale = False
        version = "0"
        for page in self.cluster.pages(
            resource,
            self.namespace,
            labels=self.labels,
            metadata_only=self.metadata_only,
            limit=self.limit,
            largest=_LARGEST_PAGE,
        ):
            for value in page.items:
                metadata = value["metadata"]
                uids[metadata.get("namespace") or "", metadata["name"]] = metadata["uid"]
                self._see(value)
            version = page.resource_version
        self.listed(uids, int(version))
        self.version = version
        self.synced.set()

    def close(self) -> None:
        self.closed.set()
        watch = self._watch
        if watch is not None:
            watch.close()

    def relist(self, labels: str | None = None) -> None:
        self.labels = self.labels if labels is None else labels
        self._stale = True
        watch = self._watch
        if watch is not None:
            watch.close()

    def _follow(self) -> None:
        watch = self.cluster.watch(
            self.cluster.resource(self.api_version, self.kind),
            str(self.version),
            self.namespace,
            labels=self.labels,
            metadata_only=self.metadata_only,
            renewal=self.renewal,
        )
        self._watch = watch
        try:
            # A thread that closes it, or asks for another list, may not have seen the watch yet.
            for event in () if self._stale else watch:
                if self.closed.is_set():
                    return
                if event.type != "BOOKMARK":
                    self._see(event.object, gone=event.type == "DELETED")
        finally:
            self._watch = None
            self.version = None if self._stale else watch.resource_version
            watch.close()

    def _see(self, value: dict, *, gone: bool = False) -> None:  # type: ignore[type-arg]
        try:
            self.changed(value, gone)
        except Exception:
            # One object that nobody thought of must not end the stream of all others.
            metadata = value.get("metadata") or {}
            where = metadata.get("namespace"), metadata.get("name")
            _log.exception("%s %s/%s: this is a bug", value.get("kind"), *where)
