"""Say what the watcher may do, as values.

Rules decide on actions, and only `act` carries them out. Each may be carried out twice without
harm: those on Pods name the UID, and the record is written before anything that must not happen
twice. A `reason` is one word; an `index` is the number of a replica in its role, None for a role
with a single Pod.
"""

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

from etcompile.model import Member
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.view import HostsRecord

REPLACED = "PodReplaced"
"""The reason of Events and log lines about a Pod that another one replaces."""


class Note(Struct, frozen=True):
    """Another key of `J-status`: a function that returns its text, and when it needs a write."""

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
    once, and `NOTICE`, which its supervisor reads, to `value`. `end` ends a Pod that Git declares,
    by `activeDeadlineSeconds: 1`. `release` removes a queue's finalizer.
    """

    what: Literal["touch", "notify", "end", "release"]
    name: str
    uid: str
    value: str = ""  # of `end`, why


class CreatePod(Struct, frozen=True):
    """Create a Pod as the compiler builds it; one of the same run under that name is as good.

    With `uid`, the Pod of that name is deleted first, gracefully. If it is not gone at once, a
    later decision creates the Pod.
    """

    name: str
    role: str
    index: int | None
    reason: str
    undeclared: Member | None = None  # a replica that the job does not declare
    lost: str = ""  # the name of the Pod that it replaces, if that is another name
    uid: str = ""
    annotations: Mapping[str, str] = {}  # more than the compiler's
    away_from: tuple[str, ...] = ()  # nodes


class DeletePod(Struct, frozen=True):
    """Delete a Pod, gracefully; with `force` without waiting for its kubelet."""

    name: str
    uid: str
    reason: str
    force: bool = False


class RemoveJob(Struct, frozen=True):
    """Delete all objects of a job whose Pods are gone, its ConfigMap last."""


class Count(Struct, frozen=True):
    """Add to a metric of a listener."""

    name: str
    by: int = 1
    labels: tuple[str, ...] = ()


class ReadLog(Struct, frozen=True):
    """Read a container's log in the background; the result is a `LogRead` of that purpose.

    Args:
        of: What exactly it is read for; copied to the result.
        tail: Read only so many last lines.
        since: Read only lines from this time on (RFC 3339).
        begin: Add the lines that begin so to those that were read before.
        limit: Read at most so many bytes.
    """

    name: str
    uid: str
    container: str
    purpose: str
    of: str = ""
    tail: int | None = None
    since: str = ""
    begin: tuple[str, ...] = ()
    limit: int = 16 * 2**20


class EmitEvent(Struct, frozen=True):
    """Report something of a Pod, or else of the job's ConfigMap. It may get lost.

    Args:
        once: The same is reported only once in the life of this watcher.
    """

    reason: str
    message: str
    pod: str | None = None
    uid: str | None = None
    warning: bool = False
    once: bool = False


class Requeue(Struct, frozen=True):
    """Decide again at a time, in seconds since 1970, if nothing happens before."""

    at: float


PodAction = CreatePod | DeletePod | PatchPod
Action = PodAction | WriteStatus | WriteHosts | RemoveJob | ReadLog | EmitEvent | Count | Requeue
