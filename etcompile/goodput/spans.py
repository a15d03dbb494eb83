"""When the containers of a Pod ran, as its kubelet tells it.

Kubernetes keeps this in the status of the Pod: since when a container runs, and from when to when
the one before it did. So nobody has to look all the time, and a watcher that was away invents
nothing: what the status does not say is not counted.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from etcompile.k8s import pods
from etcompile.k8s.conditions import condition
from etcompile.k8s.objects import Object, seconds, status_of
from etcompile.model.protocol import RUN_STATE


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


_MOST = 8
"""Spans of a container that are known from before."""


def spans_of(pod: Object, before: Sequence[Span] = ()) -> tuple[Span, ...]:
    """The last spans of each container of a Pod: the one that runs, and the one before it.

    A container of a Pod that is not ready does no work since that is so: its command has ended and
    waits for the next epoch (docs/recovery.md), its probe fails, or its node does not answer. A
    command that restarts in place has run since the Pod is ready, and its earlier spans are only
    known to those who have seen them.

    Args:
        pod: The Pod, JSON.
        before: The spans of the same Pod as they were seen before.
    """
    containers = pods.containers(pod)
    if not containers:
        return ()
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    if all(volume.get("name") != RUN_STATE for volume in volumes):
        return tuple(_spans(pod, containers))
    ready = condition(status_of(pod), "Ready")
    begun = seconds(ready.get("lastTransitionTime")) or 0.0
    found = _spans(pod, containers, begun if ready.get("status") == "True" else 0.0)
    return tuple(_with_earlier(before, [*found]))


def _with_earlier(before: Sequence[Span], found: Sequence[Span]) -> Iterator[Span]:
    """Spans of commands, each from its begin if that was seen, and those before them."""
    for name in dict.fromkeys(span.container for span in found):
        earlier = [past for past in before if past.container == name]
        now = []
        for span in (span for span in found if span.container == name):
            begins = (past.begin for past in earlier if not span.end or past.begin < span.end)
            now.append(structs.replace(span, begin=max(span.begin, *begins, 0.0)))
        first = now[0].begin
        for past in [past for past in earlier if past.begin < first][-_MOST:]:
            yield structs.replace(past, end=min(past.end or first, first))
        yield from now


def _spans(pod: Object, containers: Sequence[Object], begun: float = 0.0) -> Iterator[Span]:
    ready = condition(status_of(pod), "Ready")
    works = ready.get("status") == "True"
    since = 0.0 if works else seconds(ready.get("lastTransitionTime")) or 0.0
    for container in containers:
        name = str(container.get("name"))
        running = pods.started_at(container)
        # This is asked of every event of every Pod, and most have never ended.
        if not running or container.get("lastState"):
            yield from _ended(container, name, since)
        begin = seconds(running) if running else None
        if begin is None:
            continue
        begin = max(begin, begun)
        if works:
            yield Span(name, begin)
        elif begin < since:
            yield Span(name, begin, since)


def _ended(container: Object, name: str, since: float) -> Iterator[Span]:
    """The spans of a container that have ended, the one before the last first.

    Args:
        container: Its status.
        name: What it is called.
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
            # A command that has ended may have been kept in its container for a while.
            end = min(end, since) if begin < since else end
        if begin < end:
            yield Span(name, begin, end)
