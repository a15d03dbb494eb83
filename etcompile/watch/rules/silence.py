"""A run whose replicas are all at work and none of which says anything any more.

A rank that hangs takes all others along: they wait for it in the next collective, for ever, and no
container ends. What can be seen from outside is that the logs do not grow. So with
`etcompile.dev/stuck-after` a run counts as stuck once nobody has written anything for so long. All
of them, because most programs let one rank speak for all; a Pod that is on its way in or out, or a
log that cannot be read, says that nobody knows.

Logs are read only when they may have been silent for too long: first that of the Pod that spoke
last, and if it has not spoken since, all others. What is done then is what is done about a replica
that fails: by the kind's rules all are restarted, or one is replaced, or commands run again in
place. Where others follow a replica (ElasticJob) each counts by itself (`replica_state`).
"""

from collections.abc import Iterator

from etcompile.model.run_record import RunRecord
from etcompile.watch.actions import Action, DeletePod, EmitEvent, ReadLog, Requeue
from etcompile.watch.rules.placement import Placement
from etcompile.watch.state import JobView, PodView

AGAIN = 60.0
"""Seconds until a log is asked for again that could not be read."""


def is_stuck(placement: Placement, record: RunRecord) -> bool:
    """Whether nobody of a run has written anything for too long, as of when logs were last read.

    Args:
        placement: Who is there.
        record: The run record.
    """
    limit = placement.job.run.stuck_after
    pods = _at_work(placement, record) if limit is not None else []
    if limit is None or not pods:
        return False
    heard = placement.view.heard
    due = _silent_since(placement.view, pods, record) + limit
    return all(
        (known := heard.get(pod.uid)) is not None and known.at is not None and known.asked >= due
        for pod in pods
    )


def last_to_speak(placement: Placement, record: RunRecord, within: float = 60.0) -> list[PodView]:
    """The Pods that wrote something shortly before all fell silent, in the order of the last lines.

    Args:
        placement: Who is there.
        record: The run record; of a run that is stuck.
        within: Seconds before the very last line.
    """
    pods = _at_work(placement, record)
    last = max((_spoke(placement.view, pod) for pod in pods), default=0.0)
    found = [pod for pod in pods if last and _spoke(placement.view, pod) >= last - within]
    return sorted(found or pods[:1], key=lambda pod: _spoke(placement.view, pod))


def blamed(placement: Placement, record: RunRecord) -> str:
    """The UID of the Pod that counts as lost where a run is stuck; empty if none does.

    One of those that decide about the run: when it goes, its peers notice. Commands that run again
    in place need no Pod to go, and one that a Job of Kubernetes makes is none that comes back here.
    """
    if placement.job.run.in_place is not None or not is_stuck(placement, record):
        return ""
    deciding = placement.job.run.success.roles
    places = sorted(
        (place for place in placement.places if place.pod is not None),
        key=lambda place: place.role.name not in deciding,
    )
    if not places or any(pod.role in deciding for pod in placement.batch):
        return ""
    return places[0].pod.uid if places[0].pod is not None else ""


def launcher_ended(placement: Placement, record: RunRecord) -> Iterator[Action]:
    """The removal of a launcher that hangs and that a Job of Kubernetes makes again."""
    if placement.job.run.in_place is not None or not placement.batch:
        return
    if is_stuck(placement, record):
        for pod in placement.batch:
            message = f"nobody has written anything for {placement.job.run.stuck_after} s"
            yield DeletePod(pod.name, pod.uid, "Stuck")
            yield EmitEvent("RunStuck", f"{message}: deleted", pod.name, pod.uid, warning=True)


def logs_to_read(placement: Placement, record: RunRecord, now: float) -> Iterator[Action]:
    """The logs that are to be read, and when to ask again.

    Args:
        placement: Who is there.
        record: The run record.
        now: The time, in seconds since 1970.
    """
    limit = placement.job.run.stuck_after
    pods = _at_work(placement, record) if limit is not None else []
    if limit is None or not pods:
        return
    view = placement.view
    due = _silent_since(view, pods, record) + limit
    if now < due:
        yield Requeue(due)
        return
    first = max(pods, key=lambda pod: _spoke(view, pod))
    known = view.heard.get(first.uid)
    silent = known is not None and known.at is not None and known.asked >= due
    for pod in pods if silent else [first]:
        known = view.heard.get(pod.uid)
        if known is not None and known.at is None and now < known.asked + AGAIN:
            continue
        if known is None or known.at is None or known.asked < due:
            role = placement.job.role(pod.role)
            if role is not None:
                yield ReadLog(pod.name, pod.uid, role.template.main)
    yield Requeue(now + AGAIN)


def _at_work(placement: Placement, record: RunRecord) -> list[PodView]:
    """The Pods that run, if all are there that should be; else none."""
    if record.phase != "Running" or any(r.recovery.relaunch for r in placement.job.roles):
        return []
    found = []
    for place in placement.places:
        written = record.replica(place.key)
        if written.completed or written.left:
            continue
        if place.pod is None or not _runs(place.pod) or place.pod.uid == written.lost:
            return []
        found.append(place.pod)
    batch = [pod for pod in placement.batch if not pod.ended]
    return [*found, *batch] if all(map(_runs, batch)) else []


def _runs(pod: PodView) -> bool:
    return pod.phase == "Running" and not pod.deleting and not pod.ending


def _spoke(view: JobView, pod: PodView) -> float:
    """When a Pod last wrote something, as far as anybody has asked; 0 if it has not."""
    known = view.heard.get(pod.uid)
    return known.at if known is not None and known.at is not None else 0.0


def _silent_since(view: JobView, pods: list[PodView], record: RunRecord) -> float:
    """Since when nobody has written anything; what has just begun has had no time to."""
    begun = (max(pod.ready_since or 0.0, pod.created, _spoke(view, pod)) for pod in pods)
    failed = (replica.failed_at for _, replica in record.every_replica())
    return max(*begun, *failed, record.restarted_at)
