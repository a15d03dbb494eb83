"""Who is changing a job: a lease in the inventory of the job, so that no two rollouts interleave.

The lease is an annotation of the ApplySet's parent: it needs no rights and no object of its own,
and goes with the job. The holder renews it while it may still write. A killed command leaves a
lease that runs out, or that the next command on the same machine takes over as soon as it sees the
process gone. Times are the API server's, since the clocks of two machines never agree.
"""

import getpass
import os
import socket
import uuid
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from etcompile.k8s.objects import Object

LEASE = "etcompile.dev/lease"
"""The annotation."""
_MOST = 300.0
"""Seconds that a lease is believed to last at most; a later end is a mistake."""


class JobLease(Struct, frozen=True):
    """A lease as it is written down.

    Args:
        holder: Who runs that: `user@host`.
        since: When it began, in seconds since 1970.
        machine: The machine, boot and process namespace; empty if unknown.
        process: The process id there.
    """

    id: str
    holder: str
    since: float
    until: float
    machine: str = ""
    process: int = 0

    def is_held(self, now: float) -> bool:
        """Whether its holder may still write."""
        if not 0 <= self.since <= self.until <= now + _MOST or now >= self.until:
            return False
        if self.machine and self.machine == _machine():
            try:
                os.kill(self.process, 0)
            except ProcessLookupError:
                return False
            except OSError:
                return True  # another user's
        return True

    @property
    def words(self) -> str:
        """Who holds it since when, as a clause."""
        since = datetime.fromtimestamp(self.since, UTC)
        return f"{self.holder[:100]} has been changing the job since {since:%Y-%m-%d %H:%M:%S} UTC"


_DECODER = msgspec.json.Decoder(JobLease)


def new_lease(now: float, seconds: float) -> JobLease:
    """A lease of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user that has no name
        user = str(os.getuid())
    holder = f"{user}@{socket.gethostname()}"
    return JobLease(uuid.uuid4().hex, holder, now, now + seconds, _machine(), os.getpid())


def lease_of(parent: Object | None) -> JobLease | None:
    """The lease that an inventory holds, if it is one."""
    text = ((parent or {"metadata": {}})["metadata"].get("annotations") or {}).get(LEASE)
    try:
        return _DECODER.decode(text) if text else None
    except msgspec.DecodeError:
        return None


def seen_version(parent: Object | None, now: float) -> str:
    """What an inventory must still be when a plan is done; it never is if somebody was at it."""
    lease = lease_of(parent)
    if lease is not None and lease.is_held(now):
        return lease.id
    return parent["metadata"]["resourceVersion"] if parent else ""


def _machine() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""
