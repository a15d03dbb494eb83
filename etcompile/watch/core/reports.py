"""Lines of the watcher's log, and the Events that go with them."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics.redaction import shown
from etcompile.k8s.objects import timestamp
from etcompile.kubeapi.controller.events import About, EventRecorder
from etcompile.kubeapi.controller.work_queue import Key
from etcompile.watch.core.actions import EmitEvent

_log = logging.getLogger("etcompile.watch")
_LONGEST_MESSAGE = 1000  # the API server refuses more than 1024 bytes
TEXT = "%(asctime)s %(levelname)s %(message)s"
"""The form of a line of the log for people."""


def say(level: int, key: Key, message: str, *, pod: str = "", reason: str = "") -> None:
    """Log what has happened to a job, or to a Pod: `training/hello-worker-1: failed (…): …`."""
    message = " ".join(message.split())
    fields = {"namespace": key[0], "job": key[1], "pod": pod, "reason": reason, "message": message}
    known = {"fields": {name: value for name, value in fields.items() if value}}
    _log.log(level, "%s/%s: %s", key[0], pod or key[1], message, extra=known)


class JsonFormatter(logging.Formatter):
    """A JSON object a line: `time`, `level`, `message`, and what `say` knows."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a line."""
        line = {
            "time": timestamp(record.created),
            "level": record.levelname,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line)


def emit(
    events: EventRecorder,
    namespace: str,
    event: EmitEvent,
    config: Mapping[str, Any],
    version: str = "",
) -> None:
    """Send an Event about a Pod, or about the job's ConfigMap, whose metadata is `config`.

    Args:
        version: Of the run record that it was decided on: decided on it again, it is no second
            Event. Empty for what may be reported again.
    """
    about = About("ConfigMap", namespace, config.get("name") or "", config.get("uid") or "")
    if event.pod is not None:
        about = About("Pod", namespace, event.pod, event.uid or "")
    reason, message = shown(event.reason, 128), shown(event.message, _LONGEST_MESSAGE)
    events.emit(about, reason, message, warning=event.warning, once=version)


def report(
    events: EventRecorder,
    key: Key,
    event: EmitEvent,
    config: Mapping[str, Any],
    version: str = "",
    line: str = "",
) -> None:
    """Send an Event (`emit`), and log a line or else the Event's message."""
    emit(events, key[0], event, config, version)
    level = logging.WARNING if event.warning else logging.INFO
    say(level, key, line or event.message, pod=event.pod or "", reason=event.reason)
