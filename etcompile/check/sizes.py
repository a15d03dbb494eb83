"""Objects that are too large for those who apply them, or for the API server.

Apart from the other rules about compiled objects, because thousands of Pods and Services of a role
are alike: one of them is measured for all.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from etcompile.diagnostics import Diagnostic, Location, Source, codes, diagnose
from etcompile.k8s.objects import Object
from etcompile.model import Job, Profile
from etcompile.model.protocol import ROLE_LABEL
from etcompile.model.sizes import (
    ANNOTATIONS_LIMIT,
    STORED_LIMIT,
    copied_annotations,
    stored_size,
)

_COPYING: frozenset[Profile] = frozenset({"plain", "kpt"})
"""Profiles of tools that may keep a copy: the others are told not to, or never do."""
_OTHERWISE_TOLD = frozenset({"ConfigMap", "Secret"})
"""Kinds with a limit of their own, below that of all objects."""


def check_sizes(
    job: Job, objects: Sequence[Object], profiles: Sequence[Profile]
) -> list[Diagnostic]:
    """What is too large of a job's objects.

    Args:
        job: The job that they are made of.
        objects: Its compiled objects.
        profiles: The tools that they are for.
    """
    place = partial(job.origin.locate, "metadata", "name")
    of = f" of job '{job.name}'"
    return [
        diagnostic
        for value in _samples(objects)
        for diagnostic in _problems(value, of, place, profiles)
    ]


def check_neighbour_sizes(
    neighbours: Iterable[Source], profiles: Sequence[Profile]
) -> list[Diagnostic]:
    """What is too large of the other objects of the input.

    Args:
        neighbours: These objects.
        profiles: The tools that they are for.
    """
    return [
        diagnostic
        for source in neighbours
        if isinstance(source.data.get("metadata"), dict)
        for diagnostic in _problems(
            source.data, "", partial(source.locate, ("metadata", "name")), profiles
        )
    ]


def _samples(objects: Sequence[Object]) -> Iterator[Object]:
    """The objects, of those of a role and a kind the first and the last only."""
    first: dict[tuple[str, str], Object] = {}
    last: dict[tuple[str, str], Object] = {}
    for value in objects:
        role = (value["metadata"].get("labels") or {}).get(ROLE_LABEL)
        if role is None:
            yield value
        else:
            key = (value["kind"], role)
            first.setdefault(key, value)
            last[key] = value
    for key, value in first.items():
        yield value
        if last[key] is not value:
            yield last[key]


def _problems(
    value: Object, of: str, place: Callable[[], Location], profiles: Sequence[Profile]
) -> Iterator[Diagnostic]:
    """What is too large of an object; its place is looked up only for a diagnostic."""
    what = f"{value['kind']} '{value['metadata'].get('name', '')}'{of}"
    copied = copied_annotations(value)
    if copied > STORED_LIMIT and value["kind"] not in _OTHERWISE_TOLD:
        size = stored_size(value)
        if size > STORED_LIMIT:
            facts = {"size": -(-size // 1024), "limit": STORED_LIMIT // 1024}
            yield diagnose(codes.TOO_LARGE_TO_STORE, place(), what=what, **facts)
            return
    if copied > ANNOTATIONS_LIMIT and (not profiles or _COPYING & {*profiles}):
        facts = {"size": -(-copied // 1024), "limit": ANNOTATIONS_LIMIT // 1024}
        yield diagnose(codes.TOO_LARGE_FOR_CLIENT_SIDE_APPLY, place(), what=what, **facts)
