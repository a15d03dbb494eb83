"""When the containers of a Pod ran, as its kubelet tells it.

Kubernetes keeps this in the status of the Pod: since when a container runs, and from when to when
the one before it did. So nobody has to look all the time, and a watcher that was away invents
nothing: what the status does not say is not counted.
"""

from collections.abc import Iterator

from msgspec import Struct

from etcompile.k8s import pods
from etcompile.k8s.conditions import condition
from etcompile.k8s.objects import Object, seconds, status_of
from etcompile.model.epochs import read_command
from etcompile.model.protocol import EPOCH, RUN_STATE


class Span(Struct, frozen=True, gc=False):
    """From when to when a container did its work.

    Args:
        container: Its name.
        begin: Since when, in seconds since 1970.
        end: Until when; 0 if it still does.
    """

    container: str
    begin: float
    end: float = 0.0


def spans_of(pod: Object) -> tuple[Span, ...]:
    """The last spans of each container of a Pod: the one that runs, and the one before it.

    A container of a Pod that is not ready does no work since that is so: its command has ended and
    waits for the next epoch (docs/recovery.md), its probe fails, or its node does not answer.

    Args:
        pod: The Pod, JSON.
    """
    return tuple(_spans(pod))


def _spans(pod: Object) -> Iterator[Span]:
    ready = condition(status_of(pod), "Ready")
    since = seconds(ready.get("lastTransitionTime")) or 0.0
    works = ready.get("status") == "True"
    begun: float | None = None
    for container in pods.containers(pod):
        name = str(container.get("name"))
        for how, last in (
            (pods.terminated_before(container), False),
            (pods.terminated(container), True),
        ):
            begin, end = seconds(how.get("startedAt")), seconds(how.get("finishedAt"))
            if begin is None or end is None:
                continue
            if last:
                begun = _begun(pod) if begun is None else begun
                begin = max(begin, begun)
                # A command that has ended may have been kept in its container for a while.
                end = min(end, since) if begin < since and not works else end
            if begin < end:
                yield Span(name, begin, end)
        begin = seconds(pods.started_at(container) or None)
        if begin is None:
            continue
        begun = _begun(pod) if begun is None else begun
        begin = max(begin, begun)
        if works:
            yield Span(name, begin)
        elif begin < since:
            yield Span(name, begin, since)


def _begun(pod: Object) -> float:
    """When a command was told to begin that restarts in place; 0 if it began with its container."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if not any(volume.get("name") == RUN_STATE for volume in volumes):
        return 0.0
    annotations = pod["metadata"].get("annotations") or {}
    told = read_command(annotations.get(EPOCH, ""))
    if told is None or (told.run and told.epoch == 0):
        return 0.0
    # Who was told to wait has stopped, or will: that its command ran before was written down then.
    return told.at if told.run else _NEVER


_NEVER = float("inf")
