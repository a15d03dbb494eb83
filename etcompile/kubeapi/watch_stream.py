"""Watch objects from a resource version on, across broken connections.

After any interruption it resumes from the last version seen, bookmarks included. Only after a
version that etcd has compacted away must the caller list again: it alone knows what it held.
"""

import contextlib
import random
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import urllib3
from msgspec import Struct, field

from etcompile.kubeapi.errors import status_error
from etcompile.kubeapi.session import OBJECTS, Session

# The API server sends a bookmark about every minute, so a connection without a byte for longer than
# this is dead, whatever TCP says.
SILENCE = 80.0


class Event(Struct, frozen=True):
    """A change.

    Args:
        type: `ADDED`, `MODIFIED` or `DELETED`; `BOOKMARK` when only time passed, and then the
            object holds nothing but its resource version.
        object: The object after the change; before it, for `DELETED`.
        resource_version: Where to go on from.
    """

    type: str
    object: dict[str, Any]
    resource_version: str


class Watch(Struct, eq=False, weakref=True):
    """An iterator of the events after a version, which another thread may end with `close`."""

    session: Session
    path: str
    query: Mapping[str, str]
    resource_version: str
    accept: str
    renewal: float
    closed: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    response: urllib3.BaseHTTPResponse | None = None

    def __iter__(self) -> Iterator[Event]:
        """Yield the events.

        Raises:
            ClusterError: `expired` when the version is too old and the caller must list again;
                any other that does not pass.
        """
        idle = 0
        while not self.closed.is_set():
            seconds = self.renewal * (0.75 + random.random() / 2)  # noqa: S311
            seen = False
            for event in self._connection(max(1, round(seconds))):
                seen = True
                yield event
                if self.closed.is_set():
                    return
            # A server that ends every watch at once must not be sent requests in a loop.
            idle = 0 if seen else idle + 1
            if idle > 1:
                self.closed.wait(min(0.1 * 2.0**idle, 5.0))

    def close(self) -> None:
        self.closed.set()
        with self.lock:
            response = self.response
        if response is not None:
            # A read may wait in another thread, or have ended already.
            with contextlib.suppress(OSError, ValueError, AttributeError):
                response.shutdown()

    def _connection(self, seconds: int) -> Iterator[Event]:
        query = {
            **self.query,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(seconds),
        }
        quiet = min(seconds + 15.0, SILENCE)
        response = self.session.stream(self.path, query, quiet, self.accept)
        with self.lock:
            self.response = response
        rest = b""
        try:
            if self.closed.is_set():
                return
            for chunk in response.read_chunked(decode_content=True):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = OBJECTS.decode(line)
                    value = event["object"]
                    if event["type"] == "ERROR":
                        raise status_error(value, f"GET {self.path}")
                    self.resource_version = value["metadata"]["resourceVersion"]
                    yield Event(event["type"], value, self.resource_version)
        except (urllib3.exceptions.HTTPError, OSError, msgspec.DecodeError, KeyError, TypeError):
            return  # broken off, perhaps in the middle of a line, or no API server answers
        finally:
            with self.lock:
                self.response = None
            response.close()
            response.release_conn()
