"""The status of a job: what people and scripts are told of it."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from etcompile.goodput import Goodput, Timeline
from etcompile.status.pod_problems import State

Phase = Literal[
    "Pending",
    "Starting",
    "Running",
    "Restarting",
    "Succeeded",
    "Failed",
    "Suspended",
    "Unknown",
]
"""`Starting`: Pods run, but not yet one that decides about success. `Unknown`: the stored job is
of another version of etcompile."""

ENDED = frozenset({"Succeeded", "Failed"})
"""The phases that do not change any more."""


class Replica(Struct, frozen=True):
    """A replica of a role.

    Args:
        name: Its Pod's name, or that of the Job that makes the Pod.
        state: What it is.
        index: Its number in the role; None for a role with a single Pod.
        reason: Why it is not ready, in one word; empty if it is, or has succeeded.
        message: The rest of the reason.
        restarts: How often its containers were started again.
        node: Where it runs; empty before it does.
        created: When it was created, RFC 3339; empty if it is missing.
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


def alike(replicas: Iterable[Replica]) -> list[list[Replica]]:
    """Replicas of a role in the same state, for the same reason, but for whom it is about."""
    found: dict[tuple[str, str, str, str], list[Replica]] = {}
    for replica in replicas:
        words = replica.message.replace(replica.name, "*")
        found.setdefault((replica.role, replica.state, replica.reason, words), []).append(replica)
    return [*found.values()]


class RoleStatus(Struct, frozen=True):
    """How many replicas of a role there are.

    Args:
        name: The role.
        desired: How many there should be; None if the stored job cannot be read.
        running: Those whose containers run, ready or not.
        ready: Those that are ready.
        succeeded: Those that have ended well.
        failed: Those that have failed.
        restarts: How often their containers were started again.
    """

    name: str
    desired: int | None
    running: int
    ready: int
    succeeded: int
    failed: int
    restarts: int


class Hosts(Struct, frozen=True):
    """The hosts that a job's launcher knows.

    Args:
        names: Their names.
        live: The list is that of the hosts which are there, kept by the watcher; else it is the
            list from Git.
    """

    names: tuple[str, ...]
    live: bool


class Epoch(Struct, frozen=True):
    """How often the commands of a job have been restarted in place.

    Args:
        number: So often; 0 while the first is running.
        reason: Why the last time, in a sentence; empty for the first.
        at: When that was, RFC 3339; empty where each replica restarts by itself, or for the first.
    """

    number: int
    reason: str = ""
    at: str = ""


class Told(Struct, frozen=True):
    """An event, or several that say the same.

    Args:
        at: When it was last told, RFC 3339.
        warning: Whether it is a warning.
        reason: In one word.
        message: In one line, of the newest of them.
        objects: Which objects it is about: `Pod/bert-worker-0`, the newest first.
        count: How often it was told.
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
        kind: The kind it was written as; empty if the stored job cannot be read.
        phase: What it is.
        reported: The phase is the watcher's; else it is derived from the Pods.
        because: What the phase follows from.
        created: When its ConfigMap was created, RFC 3339.
        run: Which run of it this is; None for the one without an ID.
        roles: How many replicas there are.
        replicas: The replicas, by role and index.
        hosts: The hosts that its launcher knows; None if it has no host list.
        surplus: Pods of the job that it does not declare: of another run, or about to go.
        events: What was last told of its objects, the newest first.
        epoch: Which epoch its commands run, if they restart in place and a watcher looks after it.
        timeline: Its attempts, and when it was in training; None without a watcher.
        goodput: How much of its time that is.
        orphan_of: The set of jobs that it was applied with and that does not declare it any more;
            empty if it is declared.
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
    events: tuple[Told, ...]
    epoch: Epoch | None = None
    orphan_of: str = ""
    timeline: Timeline | None = None
    goodput: Goodput | None = None

    @property
    def restarts(self) -> int:
        """How often containers were started again."""
        return sum(role.restarts for role in self.roles)

    @property
    def not_ready(self) -> tuple[Replica, ...]:
        """The replicas that are neither ready nor done."""
        return tuple(
            replica for replica in self.replicas if replica.state not in ("Ready", "Succeeded")
        )
