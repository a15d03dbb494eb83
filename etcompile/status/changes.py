"""What has changed between two looks at jobs: a line each, where no table can be kept on a screen.

The first look counts as changes from nothing, so that who reads only these lines knows all.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from etcompile.status.values import JobStatus


class Change(Struct, frozen=True):
    """A change.

    Args:
        job: The job: `nlp/bert`.
        object: What has changed: `job`, `epoch`, `hosts`, or `Pod/bert-worker-0`; `event` of
            something.
        was: What it was; empty if it was not there, or for an event.
        status: What it is now.
    """

    job: str
    object: str
    was: str
    status: str
    reason: str = ""

    def __str__(self) -> str:
        turned = f"{self.was} -> {self.status}" if self.was else self.status
        why = f": {self.reason}" if self.reason else ""
        return f"{self.job} {self.object} {turned}{why}"


def changes(before: Iterable[JobStatus], after: Iterable[JobStatus]) -> Iterator[Change]:
    """What has changed from the last look at the jobs to this one."""
    known = {(status.namespace, status.name): status for status in before}
    for now in after:
        yield from _of_job(known.pop((now.namespace, now.name), None), now)
    for gone in known.values():
        yield Change(f"{gone.namespace}/{gone.name}", "job", gone.phase, "Deleted")


def _of_job(was: JobStatus | None, now: JobStatus) -> Iterator[Change]:
    job = f"{now.namespace}/{now.name}"
    if was is None or was.phase != now.phase:
        yield Change(job, "job", was.phase if was else "", now.phase, now.because)
    standing = {replica.name: replica for replica in was.replicas} if was else {}
    for replica in now.replicas:
        last = standing.pop(replica.name, None)
        facts = replica.state, replica.reason, replica.restarts
        if last is None or (last.state, last.reason, last.restarts) != facts:
            why = replica.why
            if last is not None and replica.restarts > last.restarts:
                why = f"{why}; restarted" if why else "restarted"
            yield Change(job, f"Pod/{replica.name}", last.state if last else "", replica.state, why)
    for name, last in standing.items():
        yield Change(job, f"Pod/{name}", last.state, "Undeclared")
    if was is not None and now.epoch is not None and now.epoch != was.epoch:
        before = str(was.epoch.number) if was.epoch else ""
        yield Change(job, "epoch", before, str(now.epoch.number), now.epoch.reason)
    if was is not None and now.hosts is not None and was.hosts != now.hosts:
        hosts = was.hosts.names if was.hosts else ()
        moved = [f"+{name}" for name in now.hosts.names if name not in hosts]
        moved += [f"-{name}" for name in hosts if name not in now.hosts.names]
        count = f"{len(now.hosts.names)} ({'live' if now.hosts.live else 'from Git'})"
        yield Change(job, "hosts", str(len(hosts)), count, " ".join(moved))
    known = {(event.reason, event.message, event.objects) for event in was.events} if was else set()
    for event in reversed(now.events):
        if was is not None and (event.reason, event.message, event.objects) not in known:
            about = ", ".join(event.objects[:3])
            yield Change(job, f"event of {about}", "", event.reason, event.message)
