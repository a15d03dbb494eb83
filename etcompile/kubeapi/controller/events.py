"""Send Events to the cluster.

An Event may be late or get lost: it never delays other work, and a thousand at once are not a
thousand requests in the same second.
"""

import hashlib
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, field

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError

_log = logging.getLogger("etcompile.kubeapi")
_MOST_WAITING = 2000  # Events; older ones are dropped
_LONGEST_WAIT = 2.0  # seconds that an Event waits for other work
_PER_SECOND = 20.0
_BURST = 50.0


class About(Struct, frozen=True):
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str = ""


class EventRecorder(Struct):
    """Events on their way; safe to share between threads.

    Args:
        component: The reporter that they name.
        identity: Which instance of it.
        may_act: Whether an Event may be sent now; else it is dropped.
        counted: Called with the status of each answer: `ok`, an HTTP status, or `none`.
        busy: Whether there is other work, which comes first for a while.
    """

    cluster: Cluster
    component: str
    identity: str
    may_act: Callable[[], bool]
    counted: Callable[[str], None]
    busy: Callable[[], bool] = lambda: False
    _waiting: deque[tuple[float, dict[str, Any]]] = field(
        default_factory=lambda: deque(maxlen=_MOST_WAITING)
    )
    _some: threading.Event = field(default_factory=threading.Event)
    _closed: bool = False

    def emit(
        self, about: About, reason: str, message: str, *, warning: bool, once: str = ""
    ) -> None:
        """Send an Event soon.

        Args:
            once: The same Event with the same text here is sent once, also by other instances.
        """
        suffix = uuid.uuid4().hex[:16]
        if once:
            what = "\0".join((about.uid, reason, message, once))
            suffix = hashlib.sha256(what.encode()).hexdigest()[:16]
        now = datetime.fromtimestamp(self.cluster.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        involved = {"kind": about.kind, "name": about.name, "uid": about.uid}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{about.name}.{suffix}", "namespace": about.namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "namespace": about.namespace,
                **{key: value for key, value in involved.items() if value},
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": self.identity,
        }
        self._waiting.append((time.monotonic(), event))
        self._some.set()

    def run(self) -> None:
        """Send Events until closed, and then those that are left."""
        budget, filled_at = _BURST, time.monotonic()
        while not self._closed or self._waiting:
            if not self._waiting:
                self._some.clear()
                if not self._waiting and not self._closed:
                    self._some.wait()
                continue
            now, (emitted, _) = time.monotonic(), self._waiting[0]
            if self.busy() and now < emitted + _LONGEST_WAIT and not self._closed:
                time.sleep(1.0 / _PER_SECOND)
                continue
            budget, filled_at = min(_BURST, budget + (now - filled_at) * _PER_SECOND), now
            if budget < 1.0 and not self._closed:
                time.sleep(1.0 / _PER_SECOND)
                continue
            budget -= 1.0
            _, event = self._waiting.popleft()
            if not self.may_act():
                continue
            try:
                self.cluster.create(event, field_manager=self.component)
                self.counted("ok")
            except ClusterError as error:
                self.counted(str(error.status or "none"))
            except Exception:
                _log.exception("an Event cannot be sent: this is a bug")

    def close(self) -> None:
        self._closed = True
        self._some.set()
