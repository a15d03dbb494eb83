"""When the containers of a Pod ran, as its kubelet tells it.

Kubernetes keeps this in the status of the Pod: since when a container runs, and from when to when
the one before it did. So nobody has to look all the time, and a watcher that was away invents
nothing: what the status does not say is not counted.
"""

from collections.abc import Iterator, Sequence

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
    containers = pods.containers(pod)
    return tuple(_spans(pod, containers)) if containers else ()


def _spans(pod: Object, containers: Sequence[Object]) -> Iterator[Span]:
    ready = condition(status_of(pod), "Ready")
    works = ready.get("status") == "True"
    since = 0.0 if works else seconds(ready.get("lastTransitionTime")) or 0.0
    begun = _begun(pod)
    for container in containers:
        name = str(container.get("name"))
        running = pods.started_at(container)
        # This is asked of every event of every Pod, and most have never ended.
        if not running or container.get("lastState"):
            yield from _ended(container, name, begun, since)
        begin = seconds(running) if running else None
        if begin is None:
            continue
        begin = max(begin, begun)
        if works:
            yield Span(name, begin)
        elif begin < since:
            yield Span(name, begin, since)


def _ended(container: Object, name: str, begun: float, since: float) -> Iterator[Span]:
    """The spans of a container that have ended, the one before the last first.

    Args:
        container: Its status.
        name: What it is called.
        begun: When its command was told to begin, the last time.
        since: Since when its Pod is not ready; 0 if it is.
    """
    for how, last in (
        (pods.terminated_before(container), False),
        (pods.terminated(container), True),
    ):
        begin, end = seconds(how.get("startedAt")), seconds(how.get("finishedAt"))
        if begin is None or end is None:
            continue
        if last:
            begin = max(begin, begun)
            # A command that has ended may have been kept in its container for a while.
            end = min(end, since) if begin < since else end
        if begin < end:
            yield Span(name, begin, end)


def _begun(pod: Object) -> float:
    """When a command was told to begin that restarts in place; 0 if it began with its container."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if RUN_STATE not in [volume.get("name") for volume in volumes]:
        return 0.0
    annotations = pod["metadata"].get("annotations") or {}
    told = read_command(annotations.get(EPOCH, ""))
    if told is None or (told.run and told.epoch == 0):
        return 0.0
    # Who was told to wait has stopped, or will: that its command ran before was written down then.
    return told.at if told.run else _NEVER


_NEVER = float("inf")
