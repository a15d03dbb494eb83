"""What the rules tell people, as Events of the cluster, after what the jobs need.

Apart from the other writes because an Event may be late, and may be lost: it never holds up a
replacement, and a thousand failures at once are not a thousand more requests in the same second.
"""

import hashlib
import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from etcompile.diagnostics.redaction import shown
from etcompile.k8s.objects import timestamp
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.watch.actions import EmitEvent
from etcompile.watch.leader_election import MANAGER
from etcompile.watch.logs import say
from etcompile.watch.workqueue import JobKey

_log = logging.getLogger("etcompile.watch")
_KEPT = 2000
"""Events that may wait; older ones make way."""
_PER_SECOND = 20.0
_BURST = 50.0
_PATIENCE = 5.0
"""Seconds that they make way for what is urgent, at most."""
_LONGEST_MESSAGE = 1000
"""The API server refuses messages of more than 1024 bytes."""


class Events:
    """Events on their way; safe to share between threads.

    Args:
        busy: Whether there is something more urgent.
        may: Whether this watcher may act, now.
        identity: Which watcher tells.
        counted: Is told how each request ended.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        busy: Callable[[], bool],
        may: Callable[[], bool],
        identity: str,
        counted: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._busy = busy
        self._may = may
        self._identity = identity
        self._counted = counted
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_KEPT)
        self._some = threading.Event()
        self._closed = False

    def tell(
        self, namespace: str, event: EmitEvent, config: Mapping[str, Any], version: str = ""
    ) -> None:
        """Tells people, soon.

        Args:
            namespace: The job's.
            event: What to tell.
            config: The live metadata of the job's ConfigMap, which it is about if no Pod is named.
            version: The version of the run record that it was decided on. What is decided on it
                again, by this watcher or by the next, makes no second Event. Empty for what may be
                told again.
        """
        if event.pod is not None:
            about = {"kind": "Pod", "name": event.pod, "uid": event.uid}
        else:
            about = {"kind": "ConfigMap", "name": config.get("name"), "uid": config.get("uid")}
        now = timestamp(self._cluster.now())
        self._waiting.append(
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {
                    "name": f"{about['name']}.{_suffix(about, event, version)}",
                    "namespace": namespace,
                },
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
                "source": {"component": MANAGER},
                "reportingComponent": MANAGER,
                "reportingInstance": self._identity,
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
        """Tells people by an Event (`tell`) and by a line of the log, or else its message."""
        self.tell(key[0], event, config, version)
        level = logging.WARNING if event.warning else logging.INFO
        say(level, key, line or event.message, pod=event.pod or "", reason=event.reason)

    def run(self) -> None:
        """Sends events until closed, and then those that are left."""
        budget, told_at, rested_at = _BURST, time.monotonic(), 0.0
        while not self._closed or self._waiting:
            if not self._waiting:
                self._some.clear()
                if not self._waiting and not self._closed:
                    self._some.wait()
                continue
            now = time.monotonic()
            if self._busy() and now < rested_at + _PATIENCE and not self._closed:
                time.sleep(0.05)
                continue
            rested_at = now
            budget, told_at = min(_BURST, budget + (now - told_at) * _PER_SECOND), now
            if budget < 1.0 and not self._closed:
                time.sleep(1.0 / _PER_SECOND)
                continue
            budget -= 1.0
            self._send(self._waiting.popleft())

    def close(self) -> None:
        """Lets `run` end once it has sent what is left."""
        self._closed = True
        self._some.set()

    def _send(self, event: dict[str, Any]) -> None:
        if not self._may():
            return
        try:
            self._cluster.create(event, field_manager=MANAGER)
            self._counted("ok")
        except ClusterError as error:
            self._counted(str(error.status or "none"))
        except Exception:
            _log.exception("an Event cannot be sent: this is a bug")


def _suffix(about: Mapping[str, Any], event: EmitEvent, version: str) -> str:
    """What tells apart the Events about one object; the same for what is told twice."""
    if not version:
        return uuid.uuid4().hex[:16]
    what = (about["uid"], event.reason, event.message, version)
    return hashlib.sha256("\0".join(map(str, what)).encode()).hexdigest()[:16]
