"""Write and read the stored job: `job.yaml` in the job's ConfigMap, for the watcher.

It holds the document after overlays, the workers after scale intents, the settings and the
overlays' patches of Pods and Services: all that the compiler needs to build any of the job's Pods
again.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from msgspec import Struct, ValidationError, json, structs, to_builtins

from etcompile import frontends, overlays
from etcompile.diagnostics import Location, ValuePath
from etcompile.k8s.names import is_run, is_subdomain
from etcompile.k8s.objects import without_nulls
from etcompile.k8s.path import value_at
from etcompile.load import parse
from etcompile.model import GANGS, MOST_PODS, Job, Labels, Member, Settings
from etcompile.model.protocol import JOB_LABEL, STORED_JOB
from etcompile.model.run_identity import in_run, with_settings

API_VERSION = "etcompile.dev/v1alpha1"
KIND = "StoredJob"

STORED_BYTES = 256 * 1024
"""The most bytes of a stored job: reading more would take seconds."""
_MOST_NUMBER = 2**63  # numbers in Kubernetes objects have 64 bits
_SETTINGS = json.Decoder(Settings)


class StoredJobError(Exception):
    """This version of etcompile cannot read a stored job."""


@contextmanager
def reading() -> Iterator[None]:
    """Report any error as one of the stored job."""
    try:
        yield
    except StoredJobError:
        raise
    except Exception as error:
        # Written by hand, by another version, or to break the watcher.
        raise StoredJobError(f"{STORED_JOB} is broken: {error!r:.300}") from error


class Stored(Struct, frozen=True):
    """A stored job: its value, and the job as the run that it is."""

    value: Mapping[str, Any]
    job: Job
    settings: Settings


def read_text(text: str, most: int = MOST_PODS) -> Stored:
    """Read `job.yaml` of a ConfigMap, which anybody may have written.

    A job with more than `most` replicas is refused before any is created.
    """
    if len(text) > STORED_BYTES:
        size, limit = len(text) // 1024, STORED_BYTES // 1024
        raise StoredJobError(f"{STORED_JOB} has {size} KiB; at most {limit} KiB are read")
    with reading():
        documents = parse(text, file=STORED_JOB).documents
        if len(documents) != 1 or not isinstance(documents[0].data, Mapping):
            raise StoredJobError(f"{STORED_JOB} is not a document")
        value = documents[0].data
        _check_numbers(value)
        _check_replicas(value, most)
        job, settings = read_stored(value)
        # Requests contain these names, so each must be valid.
        names = [job.name, job.config_name, *([job.credentials.secret] if job.credentials else [])]
        for role in job.roles:
            names.append(role.naming.stem)
            names += [role.pod_name(member) for member in (role.members[:1] + role.members[-1:])]
        for name in names:
            if not isinstance(name, str) or not is_subdomain(name):
                raise StoredJobError(f"{str(name)[:100]!r} is not a valid name")
        return Stored(value, job, settings)


def check_place(job: Job, metadata: Mapping[str, Any]) -> None:
    """Refuse a stored job whose ConfigMap belongs to another job.

    Otherwise anybody who may write some ConfigMap could replace any job.
    """
    name, label = metadata["name"], (metadata.get("labels") or {}).get(JOB_LABEL)
    if name != job.config_name or label != job.name:
        raise StoredJobError(
            f"it holds the job {job.name}, whose ConfigMap is {job.config_name} with the label "
            f"{JOB_LABEL}={job.name}"
        )


def stored_value(
    job: Job, settings: Settings, patches: Sequence[overlays.Edit] = ()
) -> dict[str, Any]:
    """Return the stored form of a job after its intents, as a run of it, a JSON value.

    Members are written as ranges of indexes, so that adding two workers to a thousand changes one
    line. The patches are those of overlays that touch its Pods and Services, in order.
    """
    value = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "namespace": job.namespace,
        "document": job.document,
        "members": {role.name: list(_ranges(role.members)) for role in job.roles if role.bounds},
        "settings": settings_value(structs.replace(settings, run=job.run_id)),
    }
    stored: dict[str, Any] = without_nulls(value)
    # Preserve nulls in patches, where they remove something.
    return {**stored, "patches": [*map(overlays.stored_patch, patches)]} if patches else stored


def settings_value(settings: Settings) -> dict[str, Any]:
    """Return the settings as a JSON value, without those that are not set."""
    value = {
        **to_builtins(settings),
        "secret": str(settings.secret.stored),
        "profiles": list(settings.profiles) or None,
        "gang": settings.gang if settings.gang != "none" else None,
    }
    result: dict[str, Any] = without_nulls(value)
    return result


def settings_of(value: Mapping[str, Any]) -> Settings:
    kind, _, name = value["secret"].partition(":")
    written = {**value, "secret": {"kind": kind, "name": name or None}}
    try:
        # A missing image of kubectl means none, not the default one.
        settings = _SETTINGS.decode(json.encode({"kubectlImage": None, **written}))
    except ValidationError:
        settings = None
    run = settings.run if settings else None
    if settings is None or settings.gang not in GANGS or not (run is None or is_run(run)):
        raise StoredJobError("its settings are none that this version of etcompile knows")
    return settings


def with_patches(job: Job, patches: Sequence[overlays.Edit]) -> Job:
    """Add patches that change what a job's Pods do to its identity."""
    changing = [
        overlays.stored_patch(edit)
        for edit in patches
        if edit.target.kind == "Pod" and not edit.metadata_only
    ]
    if not changing:
        return job
    return structs.replace(job, identity={**job.identity, "patches": changing})


def read_stored(value: Mapping[str, Any]) -> tuple[Job, Settings]:
    lowered = read_declared(value)
    ranges = _RANGES.decode(json.encode(value["members"]))
    roles = tuple(
        structs.replace(role, members=tuple(m for r in ranges[role.name] for m in r.members()))
        if role.name in ranges
        else role
        for role in lowered.roles
    )
    job = structs.replace(lowered, roles=roles, namespace=value.get("namespace"))
    settings = settings_of(value["settings"])
    job = with_settings(with_patches(job, read_patches(value)), settings)
    return in_run(job, settings.run), settings


def read_declared(value: Mapping[str, Any]) -> Job:
    """Return the job of a stored form as its document describes it: before intents, of no run."""
    if (value.get("apiVersion"), value.get("kind")) != (API_VERSION, KIND):
        raise StoredJobError(f"not a {KIND} of {API_VERSION}")
    document = value["document"]
    kind = frontends.find(document.get("apiVersion"), document.get("kind"))
    lowered = kind.lowered(_Unlocated(document))[0] if kind is not None else None
    if not isinstance(lowered, Job):
        raise StoredJobError(f"its {document.get('kind')} does not compile")
    return lowered


def read_patches(value: Mapping[str, Any]) -> tuple[overlays.Edit, ...]:
    return overlays.stored_edits(_Unlocated(value))


class _Range(Struct, frozen=True, omit_defaults=True, rename={"first": "from", "last": "to"}):
    """Replicas of consecutive numbers that are otherwise equal; the rank is the first one's."""

    first: int
    last: int
    labels: Labels = {}
    rank: int | None = None
    relaunches: int = 0
    resources: Labels = {}

    def members(self) -> Iterator[Member]:
        for index in range(self.first, self.last + 1):
            rank = None if self.rank is None else self.rank + index - self.first
            yield Member(index, self.labels, rank, self.relaunches, self.resources)


_RANGES = json.Decoder(dict[str, list[_Range]])


def _ranges(members: Sequence[Member]) -> Iterator[dict[str, Any]]:
    def from_zero(place_and_member: tuple[int, Member]) -> _Range:
        """Return the range of a replica shifted to the place 0, which is equal for all of it."""
        place, member = place_and_member
        first = (member.index or 0) - place
        rank = None if member.rank is None else member.rank - place
        return _Range(first, first, member.labels, rank, member.relaunches, member.resources)

    for shifted, group in itertools.groupby(enumerate(members), key=from_zero):
        places = [place for place, _ in group]
        rank = None if shifted.rank is None else shifted.rank + places[0]
        first, last = shifted.first + places[0], shifted.first + places[-1]
        yield to_builtins(structs.replace(shifted, first=first, last=last, rank=rank))


class _Unlocated(Struct, frozen=True):
    """A document that comes from no file."""

    data: Any
    relative: str = "job.yaml"

    def locate(self, path: ValuePath, *, key: bool = False) -> Location:  # noqa: ARG002
        return Location("job.yaml")


def _check_numbers(value: Any) -> None:
    """Refuse numbers that no clock, no counter and no object of Kubernetes can hold."""
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(value, Mapping | list):
        for part in parts:
            _check_numbers(part)
    elif isinstance(value, int | float) and not (
        math.isfinite(value) and -_MOST_NUMBER <= value < _MOST_NUMBER
    ):
        raise StoredJobError(f"{STORED_JOB} has a number that Kubernetes cannot hold")


def _check_replicas(value: Mapping[str, Any], most: int) -> None:
    """Refuse a job of too many replicas by the numbers in it, before they take any memory."""
    document = value["document"]
    kind = frontends.find(document.get("apiVersion"), document.get("kind"))
    counts_in = [value_at(document, path) for path in kind.counts_of(document)] if kind else []
    declared = sum(count for count in counts_in if isinstance(count, int) and count > 0)
    runs = [run for of_role in value["members"].values() for run in of_role]
    total = max(declared, sum(max(0, run["to"] - run["from"] + 1) for run in runs))
    most = max(0, min(most, MOST_PODS))
    if total > most:
        raise StoredJobError(f"it has {total} replicas; at most {most} are possible")
