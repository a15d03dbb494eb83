"""Reads the logs of Pods in threads of a pool: a node that does not answer holds nothing up."""

import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial

from msgspec import Struct

from etcompile.k8s.objects import seconds
from etcompile.kubeapi import Cluster, ClusterError
from etcompile.kubeapi.controller.events import EventRecorder
from etcompile.kubeapi.controller.work_queue import Key as JobKey
from etcompile.model.supervision import UNSUPERVISED, UNSUPERVISED_EVENT, epoch_line
from etcompile.watch import reports
from etcompile.watch.actions import EmitEvent, ReadEpochs, ReadLog, ReadTail
from etcompile.watch.reports import say
from etcompile.watch.store import Store

_EPOCHS_AFTER_FAILURE = 300.0  # seconds until a log is read again that could not be read
_EPOCHS_AT_ONCE = 16 * 2**20  # bytes of a log; the rest is read at the next look
_TAIL_BYTES = 256 * 1024
_MOST_EPOCHS = 16  # lines that are kept of a log


class LogReader(Struct, frozen=True):
    """Reads logs in the threads of a pool; safe to share between threads."""

    cluster: Cluster
    store: Store
    events: EventRecorder
    pool: Executor

    def read(self, key: JobKey, action: ReadLog | ReadTail | ReadEpochs) -> None:
        """Has a log read, and does not wait; that it is being read is known at once."""
        saw = partial(self.store.saw_log, key, action.name, action.uid)
        match action:
            case ReadLog():
                saw(read_at=self.cluster.now(), at=None, line="", news=False)
                self.pool.submit(self._read_activity, key, action, saw)
            case ReadTail():
                saw(tail_of=action.of, tail=None, news=False)
                self.pool.submit(self._read_tail, key, action, saw)
            case ReadEpochs():
                saw(epochs_due=action.known.epochs_due, news=False)
                self.pool.submit(self._read_epochs, key, action, saw)

    def _read_activity(self, key: JobKey, action: ReadLog, saw: Callable[..., None]) -> None:
        try:
            last = self.cluster.log(
                action.name, action.container, key[0], tail=1, since="", limit=512
            )
            line = "".join(last).strip()
            time, _, text = line.partition(" ")
            at = seconds(time) if line else 0.0
        except (ClusterError, ValueError) as error:
            say(logging.WARNING, key, f"its log cannot be read: {error}", pod=action.name)
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
            level = logging.INFO if error.status == 403 else logging.WARNING
            say(level, key, f"its log cannot be read: {error}", pod=action.name)
        saw(tail_of=action.of, tail=lines, news=True)

    def _read_epochs(self, key: JobKey, action: ReadEpochs, saw: Callable[..., None]) -> None:
        known, time = action.known, action.since
        lines = [*known.epochs]
        try:
            for line in self.cluster.log(
                action.name, action.container, key[0], since=time, limit=_EPOCHS_AT_ONCE
            ):
                time, _, text = line.partition(" ")
                if text.startswith(UNSUPERVISED) and not known.epochs_until:
                    why, pod = text.removeprefix(UNSUPERVISED), action.name
                    event = EmitEvent(UNSUPERVISED_EVENT, why, pod, action.uid, warning=True)
                    reports.report(
                        self.events, key, event, {}, UNSUPERVISED, f"unsupervised: {why}"
                    )
                if (epoch := epoch_line(text, seconds(time) or 0.0)) is not None:
                    lines.append(epoch)
        except ClusterError as error:
            say(logging.INFO, key, f"epochs cannot be read: {error}", pod=action.name)
            saw(epochs_due=self.cluster.now() + _EPOCHS_AFTER_FAILURE, news=False)
            return
        new = tuple(dict.fromkeys(lines))[-_MOST_EPOCHS:]
        until = time if seconds(time) is not None else action.since
        saw(epochs_until=until, epochs=new, news=new != known.epochs)
