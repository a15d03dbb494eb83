"""What has changed between two looks at jobs: a line each.

The first look counts as changes from nothing, so that who reads only these lines knows all.
"""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from etcompile.naming import some
from etcompile.status.values import JobStatus


class Change(Struct, frozen=True):
    """A change.

    Args:
        job: `nlp/bert`.
        object: `job`, `epoch`, `hosts`, `Pod/bert-worker-0`, or `event of` something.
        was: Its status before; empty if it was not there, or for an event.
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
        job, last = f"{now.namespace}/{now.name}", known.pop((now.namespace, now.name), None)
        was, facts = _facts(last) if last is not None else {}, _facts(now)
        for thing, (status, reason, compared) in facts.items():
            earlier = was.get(thing)
            if earlier is None or earlier[2] != compared:
                yield Change(job, thing[0], earlier[0] if earlier else "", status, reason)
        for name, more in was.keys() - facts.keys():
            if name.startswith("Pod/"):
                yield Change(job, name, was[name, more][0], "Undeclared")
    for gone in known.values():
        yield Change(f"{gone.namespace}/{gone.name}", "job", gone.phase, "Deleted")


def _facts(job: JobStatus) -> dict[tuple[str, str], tuple[str, str, object]]:
    """What is said of a job and of what belongs to it: a status, a reason, and what is compared.

    Events are told apart by their words, everything else by its name.
    """
    facts: dict[tuple[str, str], tuple[str, str, object]] = {}
    facts["job", ""] = job.phase, job.because, job.phase
    for replica in job.replicas:
        restarts = f"restarts: {replica.restarts}" if replica.restarts else ""
        reason = "; ".join(filter(None, (replica.why, restarts)))
        compared = replica.state, replica.reason, replica.restarts
        facts[f"Pod/{replica.name}", ""] = replica.state, reason, compared
    if job.epoch is not None:
        facts["epoch", ""] = str(job.epoch.number), job.epoch.reason, job.epoch.number
    if job.hosts is not None:
        source = "live" if job.hosts.live else "from Git"
        count = f"{len(job.hosts.names)} ({source})"
        facts["hosts", ""] = count, some(job.hosts.names), job.hosts
    for event in reversed(job.events):
        words = f"{event.reason}: {event.message}"
        facts[f"event of {some(event.objects)}", words] = event.reason, event.message, None
    return facts
