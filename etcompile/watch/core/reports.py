"""Log what happens to jobs, and send the Events that go with it."""

import logging
from collections.abc import Mapping
from typing import Any

from etcompile.diagnostics.redaction import shown
from etcompile.kubeapi.controller.events import About, EventRecorder
from etcompile.kubeapi.controller.work_queue import Key
from etcompile.watch.core.run import EmitEvent

_log = logging.getLogger("etcompile.watch")
_LONGEST_MESSAGE = 1000  # the API server refuses more than 1024 bytes


def say(level: int, key: Key, message: str, *, pod: str = "", reason: str = "") -> None:
    """Log what has happened to a job, or to a Pod: `training/hello-worker-1: failed (…): …`.

    The facts are in the record's `fields`, too, for a log of JSON objects.
    """
    message = " ".join(message.split())
    fields = {"namespace": key[0], "job": key[1], "pod": pod, "reason": reason, "message": message}
    known = {"fields": {name: value for name, value in fields.items() if value}}
    _log.log(level, "%s/%s: %s", key[0], pod or key[1], message, extra=known)


def report(
    events: EventRecorder,
    key: Key,
    event: EmitEvent,
    config: Mapping[str, Any],
    version: str = "",
    line: str | None = "",
) -> None:
    """Send an Event about a Pod, or about the ConfigMap whose metadata is `config`, and log it.

    Args:
        version: That of the run record that it was decided on: decided on it again, it is no second
            Event. Empty for what may be reported again.
        line: What to log, if not the Event's message; None for nothing.
    """
    about = About("ConfigMap", key[0], config.get("name") or "", config.get("uid") or "")
    if event.pod is not None:
        about = About("Pod", key[0], event.pod, event.uid or "")
    reason, message = shown(event.reason, 128), shown(event.message, _LONGEST_MESSAGE)
    events.emit(about, reason, message, warning=event.warning, once=version)
    if line is not None:
        level = logging.WARNING if event.warning else logging.INFO
        say(level, key, line or event.message, pod=event.pod or "", reason=event.reason)
