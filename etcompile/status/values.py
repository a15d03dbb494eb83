"""The status of a job, as values: for text, for scripts, and for what compares two of them."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from etcompile.goodput import Goodput, Timeline

State = Literal[
    "Missing", "Pending", "Running", "Ready", "Succeeded", "Failed", "Terminating", "Unknown"
]
"""What a Pod is. `Running` is not ready; `Missing` is a Pod that should be there and is not."""

ALIVE: frozenset[State] = frozenset({"Running", "Ready"})
"""The states in which the main container may be at work."""

Phase = Literal[
    "Pending", "Starting", "Running", "Restarting", "Succeeded", "Failed", "Suspended", "Unknown"
]
"""`Starting`: Pods run, but not yet one that decides about success. `Unknown`: the stored job is
of another version of etcompile."""


class Replica(Struct, frozen=True):
    """A replica of a role: its Pod, or the Job that makes the Pod.

    Args:
        index: Its number in the role; None for a role with a single Pod.
        reason: Why it is not ready, in one word; empty if it is, or has succeeded.
        created: RFC 3339; empty if it is missing.
    """

    name: str
    role: str
    state: State
    index: int | None = None
    reason: str = ""
    message: str = ""
    restarts: int = 0
    node: str = ""
    created: str = ""

    @property
    def why(self) -> str:
        """Why it is not ready, without repeating its state; empty if it is, or has succeeded."""
        word = "" if self.reason == self.state else self.reason
        return ": ".join(filter(None, (word, self.message)))


def grouped(replicas: Iterable[Replica]) -> list[list[Replica]]:
    """Replicas of a role in the same state, for the same reason, but for whom it is about."""
    groups: dict[tuple[str, str, str, str], list[Replica]] = {}
    for replica in replicas:
        words = replica.message.replace(replica.name, "*")
        groups.setdefault((replica.role, replica.state, replica.reason, words), []).append(replica)
    return [*groups.values()]


class RoleStatus(Struct, frozen=True):
    """How many replicas of a role there are.

    Args:
        desired: How many there should be; None if the stored job cannot be read.
        running: Those whose containers run, ready or not.
    """

    name: str
    desired: int | None
    running: int
    ready: int
    succeeded: int
    failed: int
    restarts: int


class Hosts(Struct, frozen=True):
    """The hosts that a job's launcher knows: those that are there (`live`), or those in Git."""

    names: tuple[str, ...]
    live: bool


class Epoch(Struct, frozen=True):
    """How often the commands of a job have been restarted in place, and why the last time.

    Args:
        at: When that was, RFC 3339; empty where each replica restarts by itself, or for the first.
    """

    number: int
    reason: str = ""
    at: str = ""


class JobEvent(Struct, frozen=True):
    """An event, or several that say the same.

    Args:
        at: When it was last reported, RFC 3339.
        objects: Which objects it is about: `Pod/bert-worker-0`, the newest first.
    """

    at: str
    warning: bool
    reason: str
    message: str
    objects: tuple[str, ...]
    count: int


class JobStatus(Struct, frozen=True):
    """What has become of a job.

    Args:
        kind: Empty if the stored job cannot be read.
        reported: The phase is the watcher's; else it is derived from the Pods.
        created: When its ConfigMap was created, RFC 3339.
        run: None for the run without an ID.
        replicas: By role and index.
        surplus: Pods of the job that it does not declare: of another run, or about to go.
        missing_services: Services that the job declares and the cluster does not have.
        events: The newest first.
        epoch: None if its commands do not restart in place, or no watcher looks after it.
        orphan_of: The set of jobs that it was applied with and that does not declare it any more.
        timeline: None without a watcher.
        unwatched_since: When a watcher last looked at a job that has not ended, RFC 3339, empty if
            there is none; None while one is there, and if that is unknown.
    """

    namespace: str
    name: str
    kind: str
    phase: Phase
    reported: bool
    because: str
    created: str
    run: str | None
    roles: tuple[RoleStatus, ...]
    replicas: tuple[Replica, ...]
    hosts: Hosts | None
    surplus: tuple[str, ...]
    events: tuple[JobEvent, ...]
    epoch: Epoch | None = None
    orphan_of: str = ""
    timeline: Timeline | None = None
    unwatched_since: str | None = None
    goodput: Goodput | None = None
    missing_services: tuple[str, ...] = ()

    @property
    def restarts(self) -> int:
        """How often containers were started again."""
        return sum(role.restarts for role in self.roles)

    @property
    def not_ready(self) -> tuple[Replica, ...]:
        """The replicas that are neither ready nor done."""
        return tuple(r for r in self.replicas if r.state not in ("Ready", "Succeeded"))
