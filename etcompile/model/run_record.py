"""Read and write the run record, which holds what the watcher must not forget of a run.

The watcher writes it into `J-status`, and `status` reads it. After a crash the next watcher knows
only what is written here. The format has a version, and a record of a newer version is left as it
is (docs/protocol.md).

In memory there is one `ReplicaRecord` per replica. In the ConfigMap, replicas with equal records
are joined to ranges, `"worker": {"0-2,4-2999": {"seen": true}, "3": {…}}`, because thousands of
replicas must fit. Anybody with access may write that ConfigMap, so a record with numbers that no
run can have is not read.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field, structs

from etcompile.model.protocol import COMPLETED, INDEX_LABEL, RANK_LABEL
from etcompile.model.scaling import MOST_PODS

VERSION = 3

Phase = Literal["Pending", "Running", "Restarting", "Suspended", "Succeeded", "Failed"]
"""The phase of a run. `Pending`: not all of its Pods have been seen yet."""
ENDED = frozenset({"Succeeded", "Failed"})
DIGITS = 9
"""The most digits that the number of a replica has."""
ANOTHER_RUN = "AnotherRunDeclared"
UNREADABLE = "UnreadableJob"
"""Reasons of a run that goes on although its ConfigMap does not describe it."""
LATEST = 4e9
"""The latest valid time in seconds since 1970, in the year 2096."""

Count = Annotated[int, Meta(ge=-1, lt=10**DIGITS)]
Time = Annotated[float, Meta(gt=-LATEST, lt=LATEST)]
"""Seconds since 1970."""


def label_number(text: str | None) -> int | None:
    """Return the number in a label; None if there is none, since anybody may write labels."""
    return int(text) if text and text.isdecimal() and len(text) <= DIGITS else None


def labelled_rank(labels: Mapping[str, str]) -> int:
    """Return the rank of a Pod by its labels, which is its index if it has no rank label."""
    return label_number(labels.get(RANK_LABEL) or labels.get(INDEX_LABEL)) or 0


ReplicaKey = tuple[str, int]
"""A replica: its role and its number, which is its rank if other replicas may follow it."""


class RestartHistory(Struct, frozen=True, omit_defaults=True):
    """The successive replicas that have had a rank.

    Args:
        index: The number of the current one; None for the one that is declared.
        counted: How many relaunches count against the limit.
        memory: The memory of the main container, if a predecessor ran out of memory.
    """

    index: Count | None = None
    relaunches: Count = 0
    counted: Count = 0
    memory: str = ""


class ReplicaRecord(Struct, frozen=True, omit_defaults=True):
    """The record of a replica.

    Args:
        lost: The UID of the last Pod whose loss was decided about; `UNKNOWN` if nobody saw it go.
        left: That Pod is not replaced.
        failed: How often its Pods have failed in a row.
        host_form: Which form of its name host lists have, if not the first.
        history: The successors of the declared replica, if it has any.
        epoch: The epoch of its command, if each replica has epochs of its own.
        restarts: How often its command was restarted after it failed, in that case.
    """

    seen: bool = False
    completed: bool = False
    lost: str = ""
    left: bool = False
    failed: Count = 0
    failed_at: Time = 0.0
    host_form: Count = 0
    history: RestartHistory | None = None
    epoch: Count = 0
    restarts: Count = 0

    @property
    def returns(self) -> bool:
        """Report whether another Pod comes for the one that it lost."""
        return bool(self.lost) and not self.left

    @property
    def out(self) -> str:
        return "" if self.left else self.lost


UNKNOWN = "unknown"
"""The UID of a Pod that nobody saw go."""
NOTHING = ReplicaRecord()


_NOBODY: Mapping[int, ReplicaRecord] = {}


class Leaving(Struct, frozen=True, omit_defaults=True):
    """A worker that is no longer part of the job."""

    uid: str
    since: Time


class _Run(Struct, frozen=True, omit_defaults=True):
    """All of a run record except its replicas, whose stored form differs from the used one."""

    run: str
    phase: Phase = "Pending"
    reason: str = ""
    message: str = ""
    started: Time | None = None
    finished: Time | None = None
    restarts: Count = 0
    restarted_at: Time = 0.0
    restarts_in_a_row: Count = 0
    replaced: dict[str, Count] = field(default_factory=dict)
    lost_restarts: Count = 0
    gang: tuple[str, ...] = ()
    launcher: str = ""
    leaving: dict[str, Leaving] = field(default_factory=dict)
    numbers: dict[str, Count] = field(default_factory=dict)
    failures: dict[str, Count] = field(default_factory=dict)
    unreachable: tuple[str, ...] = ()
    config: str = ""
    expired: bool = False
    epoch: Count | None = None
    epoch_reason: str = ""


class RunRecord(_Run, frozen=True):
    """The decisions of the watcher about a run.

    Args:
        reason: Why it has this phase, in one word; empty while nothing happens.
        started: When its first Pod was created, in seconds since 1970; reset by each restart.
        restarts: How often all of its Pods were replaced together, or their commands restarted.
        restarted_at: When that was last, or when the last epoch began.
        replaced: By role, how many Pods failed and were replaced.
        gang: The UIDs of the Pods that went for the last restart or suspension: none comes back
            before all are gone.
        launcher: The UID of the launcher that knows hosts by other names.
        leaving: Workers that are no longer part of the job, by the names of their Pods.
        numbers: By role whose replicas have successors, the highest number so far.
        unreachable: The UIDs of Pods that were reported to block others: their nodes do not
            answer, or they belong to another run and occupy the names of this one.
        config: The UID of the `J-etcompile` that declares the run.
        expired: Its time after the end is over, and it was reported that it stays.
        epoch: The epoch of its commands, if they restart in place, or how many epochs single
            replicas have begun. None before the run has been Running.
        epoch_reason: Why that epoch began, in a sentence.
        replicas: By role and number, the replicas to which something has happened.
    """

    replicas: dict[str, dict[int, ReplicaRecord]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.phase in ENDED

    @property
    def attempt(self) -> int:
        return max(self.restarts, self.epoch or 0)

    def replica(self, key: ReplicaKey) -> ReplicaRecord:
        role, number = key
        return self.replicas.get(role, _NOBODY).get(number, NOTHING)

    def with_replicas(self, changed: Mapping[ReplicaKey, ReplicaRecord]) -> "RunRecord":
        if not changed:
            return self
        replicas = {**self.replicas}
        for role in {role for role, _ in changed}:
            replicas[role] = {**replicas.get(role, {})}
        for (role, number), replica in changed.items():
            if replica == NOTHING:
                replicas[role].pop(number, None)
            else:
                replicas[role][number] = replica
        replicas = {role: members for role, members in replicas.items() if members}
        return structs.replace(self, replicas=replicas)

    def every_replica(self) -> Iterator[tuple[ReplicaKey, ReplicaRecord]]:
        for role, members in self.replicas.items():
            for number, replica in members.items():
                yield (role, number), replica


RUN = "run.yaml"
"""Key of `J-status`: the job at the time of the last write."""
RECORD = "record"
_DONE = "done"
_PHASE = "phase"
FAILURES = "failures"
"""Key of `J-status`: the failures of the run (`etcompile.causes`)."""
TIMELINE = "timeline"
"""Key of `J-status`: when the run was in training (`etcompile.causes.goodput`)."""
NOTES = frozenset({FAILURES, TIMELINE})
"""Keys of `J-status` that only explain a run."""
KEYS = frozenset({RECORD, _DONE, _PHASE, RUN, FAILURES, TIMELINE, COMPLETED})
_LARGEST = 160 * 1024  # the most characters of a key that `read_key` reads


_T = TypeVar("_T")


class _Versioned(Struct, frozen=True):
    version: int = 1


_Ranges = Annotated[
    str, Meta(pattern=r"\A(?:[0-9]{1,9}(?:-[0-9]{1,9})?(?:,[0-9]{1,9}(?:-[0-9]{1,9})?)*)?\Z")
]


class _Written(_Run, frozen=True, kw_only=True):
    """The stored form: replicas by role and ranges."""

    version: int
    replicas: dict[str, dict[_Ranges, ReplicaRecord]] = field(default_factory=dict)


_VERSIONED = msgspec.json.Decoder(_Versioned)
_WRITTEN = msgspec.json.Decoder(_Written)


def record_data(record: RunRecord) -> dict[str, str]:
    """Return the `data` of `J-status`.

    `phase` and, once the run is over, `done` are plain texts for people and for the scripts in the
    Pods (`DONE_FILE`). `record` is the whole record, for the next watcher.
    """
    facts = {name: getattr(record, name) for name in _Run.__struct_fields__}
    replicas = {}
    for role, members in record.replicas.items():
        numbers_of: dict[ReplicaRecord, list[int]] = {}
        for number in sorted(members):
            numbers_of.setdefault(members[number], []).append(number)
        replicas[role] = {ranges(indexes): replica for replica, indexes in numbers_of.items()}
    written = _Written(**facts, version=VERSION, replicas=replicas)
    data = {_PHASE: record.phase, RECORD: msgspec.json.encode(written).decode()}
    return {**data, _DONE: record.run} if record.ended else data


def read_record(data: Mapping[str, str]) -> RunRecord | None:
    """Return the run record in the `data` of `J-status`; None if there is none that can be read.

    A `done` that somebody wrote by hand counts (docs/protocol.md): that run is over.
    """
    record, done = written_record(data), data.get(_DONE, "").strip()
    if done and (record is None or record.run != done or not record.ended):
        return RunRecord(done, "Succeeded", "Marked", "the run was marked as done")
    return record


def written_record(data: Mapping[str, str]) -> RunRecord | None:
    """Return what a watcher has written into the `data` of `J-status`.

    None if it is unreadable, of a newer version, or too large to expand.
    """
    written = _decoded(data.get(RECORD) or "", _WRITTEN)
    if written is None or written.version != VERSION:
        return None
    # Count replicas before expanding their ranges.
    keys = (key for groups in written.replicas.values() for key in groups)
    if sum(len(numbers) for key in keys for numbers in _spans(key)) > 2 * MOST_PODS:
        return None
    replicas = {
        role: {n: replica for key, replica in groups.items() for span in _spans(key) for n in span}
        for role, groups in written.replicas.items()
    }
    facts = {name: getattr(written, name) for name in _Run.__struct_fields__}
    return RunRecord(**facts, replicas=replicas)


def _spans(text: str) -> Iterator[range]:
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        yield range(int(first), int(last or first) + 1)


def newer_version(data: Mapping[str, str]) -> int | None:
    """Return the version of a record that only a newer etcompile can read; None for any other."""
    written = _decoded(data.get(RECORD) or "", _VERSIONED)
    return written.version if written is not None and written.version > VERSION else None


def unreadable(data: Mapping[str, str]) -> str:
    """Return why the record in the `data` of `J-status` cannot be read; empty if it can be."""
    version = newer_version(data)
    if version is not None:
        return (
            f"the run record has version {version}, but this watcher reads versions up to "
            f"{VERSION}: it does not supervise the job and leaves the record as it is; run "
            "the newer watcher, or delete this ConfigMap to start a new run"
        )
    is_broken = bool(data.get(RECORD)) and read_record(data) is None
    return "the run record cannot be read: the history of the run is lost" if is_broken else ""


def _decoded(text: str, decoder: "msgspec.json.Decoder[_T]") -> _T | None:
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return None


_cached = functools.lru_cache(maxsize=64)(_decoded)


def read_key(data: Mapping[str, Any], key: str, decoder: "msgspec.json.Decoder[_T]") -> _T | None:
    """Return what another key of `J-status` holds; None if it is unreadable.

    Anybody with access may write the ConfigMap, so the size of what is cached is bounded.
    """
    text = data.get(key)
    return _cached(text, decoder) if isinstance(text, str) and len(text) <= _LARGEST else None


def ranges(members: Iterable[int]) -> str:
    """Join numbers to ranges, `0-3,7`: a thousand replicas in few characters."""
    parts: list[list[int]] = []
    for number in sorted(members):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)
