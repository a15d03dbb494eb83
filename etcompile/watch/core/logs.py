"""Reads the logs of Pods in threads of a pool: a node that does not answer holds nothing up."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from msgspec import Struct, field

from etcompile.k8s.objects import seconds
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.watch.core.actions import EmitEvent, ReadLines, ReadLog, ReadTail
from etcompile.watch.core.observe import Store
from etcompile.watch.core.reports import report, say

_AFTER_FAILURE = 300.0  # seconds until a log is read again that could not be read
_AT_ONCE = 16 * 2**20  # bytes of a log; the rest is read at the next look
_TAIL_BYTES = 256 * 1024
_MOST_LINES = 16  # that are kept of a log


class LogReader(Struct, frozen=True):
    """Reads logs in the threads of a pool; safe to share between threads."""

    cluster: Cluster
    store: Store
    events: EventRecorder
    pool: Executor
    _forbidden: set[str] = field(default_factory=set)  # namespaces whose logs it may not read

    def read(self, key: JobKey, action: ReadLog | ReadTail | ReadLines) -> None:
        """Have a log read, and do not wait; that it is being read is known at once."""
        saw = partial(self.store.saw_log, key, action.name, action.uid)
        match action:
            case ReadLog():
                saw(read_at=self.cluster.now(), at=None, line="", news=False)
                self.pool.submit(self._read_activity, key, action, saw)
            case ReadTail():
                saw(tail_of=action.of, tail=None, news=False)
                self.pool.submit(self._read_tail, key, action, saw)
            case ReadLines():
                saw(lines_due=action.known.lines_due, news=False)
                self.pool.submit(self._read_lines, key, action, saw)

    def _read_activity(self, key: JobKey, action: ReadLog, saw: Callable[..., None]) -> None:
        try:
            last = self.cluster.log(
                action.name, action.container, key[0], tail=1, since="", limit=512
            )
            line = "".join(last).strip()
            time, _, text = line.partition(" ")
            at = seconds(time) if line else 0.0
        except (ClusterError, ValueError) as error:
            self._say(key, action.name, error)
            return
        saw(at=at, line=text, news=at is not None)

    def _read_tail(self, key: JobKey, action: ReadTail, saw: Callable[..., None]) -> None:
        lines: tuple[str, ...] = ()
        try:
            log = self.cluster.log(
                action.name, action.container, key[0], tail=action.most, since="", limit=_TAIL_BYTES
            )
            lines = tuple(log)
        except ClusterError as error:
            self._say(key, action.name, error)
        saw(tail_of=action.of, tail=lines, news=True)

    def _read_lines(self, key: JobKey, action: ReadLines, saw: Callable[..., None]) -> None:
        known, time, (warning, reason) = action.known, action.since, action.warning
        lines = [*known.lines]
        try:
            for line in self.cluster.log(
                action.name, action.container, key[0], since=time, limit=_AT_ONCE
            ):
                time, _, text = line.partition(" ")
                if warning and text.startswith(warning):
                    if not known.lines_until:
                        why, pod = text.removeprefix(warning), action.name
                        event = EmitEvent(reason, why, pod, action.uid, warning=True)
                        said = f"{reason.lower()}: {why}"
                        report(self.events, key, event, {}, warning, said)
                elif text.startswith(action.begin):
                    lines.append((seconds(time) or 0.0, text))
        except ClusterError as error:
            self._say(key, action.name, error)
            saw(lines_due=self.cluster.now() + _AFTER_FAILURE, news=False)
            return
        new = tuple(dict.fromkeys(lines))[-_MOST_LINES:]
        until = time if seconds(time) is not None else action.since
        saw(lines_until=until, lines=new, news=new != known.lines)

    def _say(self, key: JobKey, pod: str, error: Exception) -> None:
        """Log that a log cannot be read; a missing right once for each namespace."""
        is_forbidden = isinstance(error, ClusterError) and error.status == 403
        if is_forbidden and key[0] in self._forbidden:
            return
        if is_forbidden:
            self._forbidden.add(key[0])
        say(logging.WARNING, key, f"its log cannot be read: {error}", pod=pod)
