"""Define the status of a job as values."""

import re
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from etcompile.causes.goodput import Goodput, Timeline

State = Literal[
    "Missing", "Pending", "Running", "Ready", "Succeeded", "Failed", "Terminating", "Unknown"
]
"""`Running` is not ready; a `Missing` Pod is declared and does not exist."""

ALIVE: frozenset[State] = frozenset({"Running", "Ready"})
"""States in which the main container may be at work."""

VAGUE = frozenset({"ContainerCreating", "Pending", "PodInitializing"})
"""Reasons that do not say what a Pod waits for."""

NEWEST_EVENTS = 10  # that are shown

_OF_ONE_POD = re.compile(
    r"\b(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64})\b"
)
"""An IP address, the UID of a Pod, or the ID of a container or sandbox."""

Phase = Literal[
    "Pending", "Starting", "Running", "Restarting", "Succeeded", "Failed", "Suspended", "Unknown"
]
"""`Starting`: Pods run, but none yet that decides about success. `Unknown`: the stored job is of
another version of etcompile."""


class Replica(Struct, frozen=True):
    """A replica of a role: its Pod, or the Job that creates the Pod.

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
        word = "" if self.reason == self.state else self.reason
        return ": ".join(filter(None, (word, self.message)))


def grouped(replicas: Iterable[Replica]) -> list[list[Replica]]:
    """Group replicas of a role with the same state and reason, whatever their names."""
    groups: dict[tuple[str, str, str, str], list[Replica]] = {}
    for replica in replicas:
        words = replica.message.replace(replica.name, "*")
        groups.setdefault((replica.role, replica.state, replica.reason, words), []).append(replica)
    return [*groups.values()]


class RoleStatus(Struct, frozen=True):
    """The replicas of a role, counted.

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
    """The hosts in the launcher's list: the ready ones (`live`), or those in Git."""

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


def common_words(message: str, name: str) -> str:
    """Return a message without what differs between Pods to which the same happens."""
    return _OF_ONE_POD.sub("*", " ".join(message.split()).replace(name, "*"))


class JobEvent(Struct, frozen=True):
    """An event, or several that say the same.

    Args:
        at: When it was last reported, RFC 3339.
        objects: The objects it is about: `Pod/bert-worker-0`, the newest first.
    """

    at: str
    warning: bool
    reason: str
    message: str
    objects: tuple[str, ...]
    count: int


class JobStatus(Struct, frozen=True):
    """The status of a job.

    Args:
        kind: Empty if the stored job cannot be read.
        reported: The phase is the watcher's; else it is derived from the Pods.
        created: When its ConfigMap was created, RFC 3339.
        run: None for the run without an ID.
        replicas: By role and index.
        surplus: Pods of the job that it does not declare: of another run, or about to go.
        missing_services: Services that the job declares and the cluster does not have.
        events: The newest first.
        epoch: None if its commands do not restart in place, or without a watcher.
        orphan_of: The set of jobs that it was applied with and that no longer declares it.
        timeline: None without a watcher.
        unwatched_since: When a watcher last covered a job that has not ended, RFC 3339, empty if
            none ever did; None while one does, and if that is unknown.
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
        return sum(role.restarts for role in self.roles)

    @property
    def not_ready(self) -> tuple[Replica, ...]:
        return tuple(r for r in self.replicas if r.state not in ("Ready", "Succeeded"))
