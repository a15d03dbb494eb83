"""What the watcher may do, as values.

Rules decide on actions and nothing else does anything. Each may be carried out twice without harm:
those on Pods name the UID, and what must not happen twice is written down before it happens
(`WriteStatus` comes first). A `reason` is one word, and `index` the number of a replica in its
role, None for a role with a single Pod.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from etcompile.model import Member
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.view import HostsRecord, PodLog

REPLACED = "PodReplaced"
"""The reason of Events and log lines about a Pod that another one comes instead of."""


class Note(Struct, frozen=True):
    """Another key of `J-status`: what writes its text, and when it is worth a write of its own."""

    text: Callable[[], str]
    due: float = float("inf")


class WriteStatus(Struct, frozen=True):
    """Write `J-status`, unless somebody else has written it since it was read."""

    record: RunRecord
    notes: Mapping[str, str] = {}


class WriteHosts(Struct, frozen=True):
    """Write `J-hosts`."""

    hosts: HostsRecord


class PatchPod(Struct, frozen=True):
    """Change something of a Pod.

    `touch` and `notify` set the annotations `TOUCHED`, so that its kubelet fetches its volumes at
    once, and `NOTICE`, which its supervisor reads, to `value`. `end` ends a Pod that Git declares
    and that does not end by itself, by `activeDeadlineSeconds: 1`. `release` takes the
    finalizer of a queue off a Pod that is being deleted.
    """

    what: Literal["touch", "notify", "end", "release"]
    name: str
    uid: str
    value: str = ""  # of `end`, why


class CreatePod(Struct, frozen=True):
    """Create a Pod as the compiler makes it. That one of the same run exists is as good.

    With `uid`, the Pod of that name is deleted first, gracefully. If it is not gone at once, the
    next decision after it has gone has another `CreatePod`.
    """

    name: str
    role: str
    index: int | None
    reason: str
    undeclared: Member | None = None  # who follows another one under a name that is not declared
    lost: str = ""  # the name of the Pod that it comes instead of, if that is another one
    uid: str = ""
    annotations: Mapping[str, str] = {}  # besides its own
    away_from: tuple[str, ...] = ()  # nodes


class DeletePod(Struct, frozen=True):
    """Delete a Pod, gracefully; with `force` without waiting for its kubelet."""

    name: str
    uid: str
    reason: str
    force: bool = False


class RemoveJob(Struct, frozen=True):
    """Delete all that was made for a job, its own ConfigMap last. Its Pods have gone already."""


class Count(Struct, frozen=True):
    """Add to a metric of a listener."""

    name: str
    by: int = 1
    labels: tuple[str, ...] = ()


class ReadLog(Struct, frozen=True):
    """See when a container last said something. Nobody waits for the answer."""

    name: str
    uid: str
    container: str


class ReadTail(Struct, frozen=True):
    """Ask for the last lines of a container's log."""

    name: str
    uid: str
    container: str
    of: str  # which failure they are to explain
    most: int = 200


class ReadLines(Struct, frozen=True):
    """Read the new lines of a log that begin in one of some ways.

    The first of them that begins with `warning` is reported, as an Event of this reason.
    """

    name: str
    uid: str
    container: str
    known: PodLog  # what is known of it, and when it is read next
    since: str  # the time of the oldest line that matters (RFC 3339); empty for all lines
    begin: tuple[str, ...]
    warning: tuple[str, str] = ("", "")


class EmitEvent(Struct, frozen=True):
    """Report something, of a Pod or else of the job's ConfigMap. It may get lost."""

    reason: str
    message: str
    pod: str | None = None
    uid: str | None = None
    warning: bool = False


class Requeue(Struct, frozen=True):
    """Decide again at a time, in seconds since 1970, if nothing happens before."""

    at: float


PodAction = CreatePod | DeletePod | PatchPod
Action = (
    PodAction
    | WriteStatus
    | WriteHosts
    | RemoveJob
    | ReadLog
    | ReadTail
    | ReadLines
    | EmitEvent
    | Count
    | Requeue
)


class Decision(Struct, frozen=True):
    """What a rule says."""

    record: RunRecord  # with what the rule adds to it
    actions: Sequence[Action] = ()  # to be done in this order, after the record is written
