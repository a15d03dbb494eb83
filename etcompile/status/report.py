"""Events to what is worth showing of them: the newest, each once.

A thousand Pods that cannot be scheduled are a thousand events that say the same; kubelets repeat
theirs for hours. What says the same is told once, with how often and of whom.
"""

from collections.abc import Iterable

from etcompile.k8s.objects import LiveObject
from etcompile.kubeapi.client import event_time
from etcompile.status.values import Told

NEWEST = 10
"""So many events are shown."""


def told(events: Iterable[LiveObject], limit: int = NEWEST) -> tuple[Told, ...]:
    """The newest events, those that say the same as one.

    Args:
        events: Events of the API, in any order.
        limit: How many to keep.

    Returns:
        The newest first.
    """
    alike: dict[tuple[str, str, str], list[LiveObject]] = {}
    for event in sorted(events, key=_turn, reverse=True):
        name = (event.get("involvedObject") or {}).get("name") or ""
        message = _line(event)
        # What differs only in whom it is about says the same.
        words = message.replace(name, "*") if name else message
        key = event.get("type") or "", event.get("reason") or "", words
        alike.setdefault(key, []).append(event)
    return tuple(_one(events) for events in [*alike.values()][:limit])


def _one(events: list[LiveObject]) -> Told:
    newest = events[0]
    about = (event.get("involvedObject") or {} for event in events)
    return Told(
        at=event_time(newest),
        warning=newest.get("type") == "Warning",
        reason=newest.get("reason") or "",
        message=_line(newest),
        objects=tuple(dict.fromkeys(f"{of.get('kind')}/{of.get('name')}" for of in about)),
        count=sum(
            int(event.get("count") or (event.get("series") or {}).get("count") or 1)
            for event in events
        ),
    )


def _turn(event: LiveObject) -> tuple[str, str]:
    # Times of one second are ordered by name, so that a table does not jump.
    return event_time(event), event["metadata"]["name"]


def _line(event: LiveObject) -> str:
    return " ".join((event.get("message") or "").split())
