"""Compute the options of supervisors (`templates/supervise.py`) and parse their log lines.

The options are part of the Pods, and so of the run's identity; the watcher reads the lines that
the supervisors write.
"""

import re
from typing import Literal, cast

from msgspec import Struct

from etcompile.diagnostics.redaction import shown
from etcompile.model.job import InPlace, Job, Member, Role
from etcompile.model.run_record import LATEST

SUPERVISOR_PORT = "etcompile.dev/supervisor-port"

_JOB_BACKOFF_LIMIT = 6  # the default of Kubernetes
_GRACE_PERIOD = 30  # the default of Kubernetes, in seconds


def is_supervised(job: Job, role: Role) -> bool:
    return job.run.in_place is not None and role.name in job.run.in_place.roles


def options(job: Job, role: Role) -> tuple[str, ...]:
    in_place = job.run.in_place
    if in_place is None or role.name not in in_place.roles:
        return ()
    result = []
    if (replica := first_replica(job)) is not None:
        first, member = replica
        roles = [role for role in job.roles if role.name in in_place.roles and role.members]
        # Replicas of the same role also reach the coordinator by this name.
        domain = f".{job.service.name}" if job.service and not job.has_bare_names else ""
        result += [
            "--gang=" + ",".join(f"{role.name}:{len(role.members)}" for role in roles),
            f"--coordinator={first.host_name(member)}{domain}",
            f"--first={first.name}-{member.index or 0}",
        ]
    result += [f"--port={in_place.port}", f"--stop={in_place.stop}"]
    if (limit := _backoff_limit(job, in_place, role)) is not None:
        result.append(f"--backoff-limit={limit}")
    if role.recovery.serves:
        result.append("--serves")
    if role.recovery.permanent:
        result.append(f"--permanent={role.recovery.permanent}")
    if in_place.checkpoint_signal:
        result.append(f"--checkpoint-signal={in_place.checkpoint_signal}")
        # When the kubelet stops a command, it gets only the checkpoint signal for this many
        # seconds: half of the shortest grace period.
        specs = [role.template.spec for role in job.roles if is_supervised(job, role)]
        graces = (spec.get("terminationGracePeriodSeconds") for spec in specs)
        grace = min(_GRACE_PERIOD if seconds is None else int(seconds) for seconds in graces)
        result.append(f"--warn={grace // 2}")
    return tuple(result)


def first_replica(job: Job) -> tuple[Role, Member] | None:
    """Return the first replica that does not only serve, whose supervisor coordinates."""
    if job.run.in_place is None or job.run.in_place.mode == "each":
        return None
    roles = [role for role in job.roles if is_supervised(job, role) and role.members]
    if not roles:
        return None
    first = next((role for role in roles if not role.recovery.serves), roles[0])
    return first, first.members[0]


def _backoff_limit(job: Job, in_place: InPlace, role: Role) -> int | None:
    limit = job.run.backoff_limit
    if role.batch is not None:
        of_batch = role.batch.backoff_limit
        return _JOB_BACKOFF_LIMIT if of_batch is None else of_batch
    if role.recovery.failures is None:
        return limit
    if in_place.mode == "each":
        return role.recovery.failures
    # An attempt survives `failures` failures; one more ends it, and the next attempt begins.
    return (role.recovery.failures + 1) * ((limit or 0) + 1) - 1


UNSUPERVISED = "etcompile: unsupervised: "
"""The start of the line that says why a command has no supervisor."""
UNSUPERVISED_EVENT = "Unsupervised"
"""The reason of the Event in which the watcher repeats it."""

Verb = Literal["begins", "is the last", "needs new Pods"]


class EpochLine(Struct, frozen=True, gc=False):
    """A line of a supervisor's log about an epoch.

    Args:
        restarts: How often commands were restarted after failures, so far.
        in_a_row: The same since the last long epoch.
        failed_first: Role, index and exit code of the replica whose command failed first, if one
            did.
        at_limit: The policy of the job allows no further restart.
        is_deletion: A Pod was deleted, which is no failure.
    """

    epoch: int
    verb: Verb
    restarts: int
    in_a_row: int
    why: str
    at: float = 0.0
    failed_first: tuple[str, int, int] | None = None
    at_limit: bool = False
    is_deletion: bool = False


_LINE = re.compile(
    r"etcompile: epoch (\d{1,9}) (begins|is the last|needs new Pods)"
    r" \(restarts: (\d{1,9}), in a row: (\d{1,9})\): (.{1,512})",
    re.ASCII,
)
_FAILED_FIRST = re.compile(r"(?:^|: )(\S+)-(\d{1,9}) failed first: exit code (\d{1,3})\b", re.ASCII)
_LONGEST_WHY = 300


def epoch_line(text: str, at: float = 0.0) -> EpochLine | None:
    """Parse a line of a log; None if it does not report an epoch."""
    if (match := _LINE.match(text)) is None:
        return None
    cause = _FAILED_FIRST.search(match[5])
    return EpochLine(
        int(match[1]),
        cast("Verb", match[2]),
        int(match[3]),
        int(match[4]),
        shown(match[5].strip(), _LONGEST_WHY),
        at,
        (cause[1], int(cause[2]), int(cause[3])) if cause else None,
        match[5].startswith("backoffLimit"),
        match[5].rstrip().endswith(" was deleted"),
    )


SAME = 30.0
"""Seconds in which the same notice covers further disturbances."""
REMINDED = 3.0
"""Seconds after which a notice is repeated: it is not acknowledged, and a kubelet may lose it."""
RESTART = "RESTART"
"""Instead of a signal: the supervisor begins the next epoch."""
_AGAIN = " (again)"


class Notice(Struct, frozen=True):
    """A notice of the watcher to supervisors.

    Args:
        name: Identifies it, so that supervisors act on it once.
        text: The value of the annotation: name, signal, `0`, and why.
        at: When it was written, in seconds since 1970; 0 if unknown.
    """

    name: str = ""
    text: str = ""
    at: float = 0.0

    @property
    def why(self) -> str:
        return " ".join(self.text.removesuffix(_AGAIN).split(" ")[3:])

    @property
    def is_restart(self) -> bool:
        return self.text.split(" ")[1:2] == [RESTART]

    def again(self) -> "Notice":
        return Notice(self.name, self.text + _AGAIN, self.at)


def notice(epoch: int, at: float, signal: str, why: str) -> Notice:
    """Return a new notice; `at` is in seconds since 1970, `signal` is `USR1` or `RESTART`."""
    name = f"{epoch}-{at:.0f}"
    return Notice(name, f"{name} {signal} 0 {' '.join(why.split())}", float(f"{at:.0f}"))


_NONE = Notice()


def read_notice(text: str) -> Notice:
    if not text:
        return _NONE  # thousands of Pods have none
    name = text.partition(" ")[0]
    at = name.partition("-")[2]
    known = at.isdecimal() and float(at) < LATEST
    return Notice(name, text, float(at) if known else 0.0)
