"""What the watcher reports: Events of the cluster, and lines of its log.

An Event may be late, and may be lost: it never holds up a replacement, and a thousand failures at
once are not a thousand more requests in the same second.
"""

import hashlib
import json
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct, field

from etcompile.diagnostics.redaction import shown
from etcompile.k8s.objects import timestamp
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.model.protocol import WATCHER
from etcompile.watch.actions import EmitEvent
from etcompile.watch.workqueue import JobKey

_log = logging.getLogger("etcompile.watch")
_MOST_WAITING = 2000  # Events; older ones make way
_PER_SECOND = 20.0
_BURST = 50.0
_LONGEST_MESSAGE = 1000  # the API server refuses more than 1024 bytes
TEXT = "%(asctime)s %(levelname)s %(message)s"
"""The form of a line of the log for people."""


def say(level: int, key: JobKey, message: str, *, pod: str = "", reason: str = "") -> None:
    """Logs what has happened to a job, or to a Pod: `training/hello-worker-1: failed (…): …`."""
    message = " ".join(message.split())
    fields = {"namespace": key[0], "job": key[1], "pod": pod, "reason": reason, "message": message}
    known = {"fields": {name: value for name, value in fields.items() if value}}
    _log.log(level, "%s/%s: %s", key[0], pod or key[1], message, extra=known)


class JsonFormatter(logging.Formatter):
    """A JSON object a line: `time`, `level`, `message`, and what `say` knows."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


class EventRecorder(Struct):
    """Events on their way; safe to share between threads.

    Args:
        counted: Is called with the status of each answer: `ok`, an HTTP status, or `none`.
    """

    cluster: Cluster
    may_act: Callable[[], bool]
    identity: str
    counted: Callable[[str], None]
    _waiting: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=_MOST_WAITING))
    _some: threading.Event = field(default_factory=threading.Event)
    _closed: bool = False

    def emit(
        self, namespace: str, event: EmitEvent, config: Mapping[str, Any], version: str = ""
    ) -> None:
        """Sends an Event, soon.

        Args:
            config: The live metadata of the job's ConfigMap, which it is about if no Pod is named.
            version: Of the run record that it was decided on: decided on it again, it is no second
                Event. Empty for what may be reported again.
        """
        about = {"kind": "ConfigMap", "name": config.get("name"), "uid": config.get("uid")}
        if event.pod is not None:
            about = {"kind": "Pod", "name": event.pod, "uid": event.uid}
        suffix = uuid.uuid4().hex[:16]
        if version:
            what = "\0".join(map(str, (about["uid"], event.reason, event.message, version)))
            suffix = hashlib.sha256(what.encode()).hexdigest()[:16]
        now = timestamp(self.cluster.now())
        self._waiting.append(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": f"{about['name']}.{suffix}", "namespace": namespace},
                "involvedObject": {
                    "apiVersion": "v1",
                    "namespace": namespace,
                    **{key: value for key, value in about.items() if value},
                },
                "type": "Warning" if event.warning else "Normal",
                "reason": shown(event.reason, 128),
                "message": shown(event.message, _LONGEST_MESSAGE),
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
                "source": {"component": WATCHER},
                "reportingComponent": WATCHER,
                "reportingInstance": self.identity,
            }
        )
        self._some.set()

    def report(
        self,
        key: JobKey,
        event: EmitEvent,
        config: Mapping[str, Any],
        version: str = "",
        line: str = "",
    ) -> None:
        """Sends an Event (`emit`), and logs a line or else the Event's message."""
        self.emit(key[0], event, config, version)
        level = logging.WARNING if event.warning else logging.INFO
        say(level, key, line or event.message, pod=event.pod or "", reason=event.reason)

    def run(self) -> None:
        """Sends events until closed, and then those that are left."""
        budget, filled_at = _BURST, time.monotonic()
        while not self._closed or self._waiting:
            if not self._waiting:
                self._some.clear()
                if not self._waiting and not self._closed:
                    self._some.wait()
                continue
            now = time.monotonic()
            budget, filled_at = min(_BURST, budget + (now - filled_at) * _PER_SECOND), now
            if budget < 1.0 and not self._closed:
                time.sleep(1.0 / _PER_SECOND)
                continue
            budget -= 1.0
            event = self._waiting.popleft()
            if not self.may_act():
                continue
            try:
                self.cluster.create(event, field_manager=WATCHER)
                self.counted("ok")
            except ClusterError as error:
                self.counted(str(error.status or "none"))
            except Exception:
                _log.exception("an Event cannot be sent: this is a bug")

    def close(self) -> None:
        """Lets `run` end once it has sent what is left."""
        self._closed = True
        self._some.set()
