"""What was seen of jobs, kept up to date by watches: nothing is asked for again and again.

One watch a kind, each in a thread of its own, into one queue. Changes that come together are taken
in together: a job of a thousand Pods starts in a few looks, not in a thousand.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Iterator

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.kubeapi.watch_stream import Event, Watch
from etcompile.model.protocol import JOB_LABEL
from etcompile.status.reader import Seen, Source, key

_TOGETHER = 0.1
"""Seconds within which changes count as one."""

_Change = tuple[str, Event] | tuple[str, list[LiveObject]] | ClusterError
"""The kind, and a change of one of its objects, or all of them anew; or why a watch ended."""


def follow(cluster: Cluster, snapshot: Seen) -> Iterator[Seen]:
    """Keeps what was seen up to date, and yields it after each change.

    Args:
        snapshot: What was seen; it is changed in place.

    Raises:
        ClusterError: a watch ended for good.
    """
    changes: queue.Queue[_Change] = queue.Queue()
    watches = []
    for source in snapshot.sources:
        # The watcher's ConfigMaps need not carry a label: all are watched, and others passed over.
        labels = "" if source.resource.kind == "ConfigMap" else source.labels
        watches.append(
            cluster.watch(source.resource, source.version, snapshot.namespace, labels=labels)
        )
    ended = threading.Event()
    for source, watch in zip(snapshot.sources, watches, strict=True):
        threading.Thread(
            target=_listen, args=(cluster, snapshot, source, watch, changes, ended), daemon=True
        ).start()
    try:
        while True:
            _take_in(snapshot, changes.get())
            end = time.monotonic() + _TOGETHER
            with contextlib.suppress(queue.Empty):
                while (left := end - time.monotonic()) > 0:
                    _take_in(snapshot, changes.get(timeout=left))
            yield snapshot
    finally:
        ended.set()
        for watch in watches:
            watch.close()


def _listen(
    cluster: Cluster,
    snapshot: Seen,
    source: Source,
    watch: Watch,
    changes: "queue.Queue[_Change]",
    ended: threading.Event,
) -> None:
    kind = source.resource.kind
    while True:
        try:
            for event in watch:
                if event.type != "BOOKMARK":
                    changes.put((kind, event))
            return
        except ClusterError as error:
            if not error.expired:
                if not ended.is_set():
                    changes.put(error)
                return
        try:
            listing = cluster.list(source.resource, snapshot.namespace, labels=source.labels)
        except ClusterError as error:
            changes.put(error)
            return
        changes.put((kind, listing.items))
        watch.resource_version = listing.resource_version


def _take_in(snapshot: Seen, change: _Change) -> None:
    if isinstance(change, ClusterError):
        raise change
    kind, what = change
    if isinstance(what, Event):
        if snapshot.concerns(what.object):
            (snapshot.drop if what.type == "DELETED" else snapshot.put)(what.object)
        return
    still = {key(value) for value in what}
    for known in [*snapshot.objects.values(), *snapshot.events.values()]:
        # A list by label does not have the watcher's ConfigMaps, which may carry none.
        listed = kind == "Event" or JOB_LABEL in (known["metadata"].get("labels") or {})
        if known["kind"] == kind and listed and key(known) not in still:
            snapshot.drop(known)
    for value in what:
        snapshot.put(value)
