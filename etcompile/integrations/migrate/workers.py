"""How many workers run, and the patch that gives the files the same number.

The status may list other workers than the spec has, because intents have scaled the job or workers
are missing. Then the overlay sets the number.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import ValuePath
from etcompile.frontends import Kind
from etcompile.k8s.path import value_at
from etcompile.load import Document
from etcompile.model import Job


class Workers(Struct, frozen=True):
    """The workers of a job, for files.

    Args:
        patch: What an overlay has to change in the document; None for nothing.
        notes: What is worth knowing, one line each.
    """

    patch: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


def workers(document: Document, kind: Kind, job: Job, intents: Sequence[Document]) -> Workers:
    """What the files of a job need so that it has as many workers as run."""
    running = value_at(document.data, kind.operator.workers) if kind.operator else None
    running = [str(name) for name in running] if isinstance(running, list) else []
    role = job.scaled_role
    notes = []
    if intents:
        names = ", ".join(intent.label for intent in intents)
        many = "as many workers as run" if running else "as many workers as the spec says"
        notes.append(f"{names}: left out, because the files have {many}")
    if role is None or not running:
        return Workers(notes=tuple(notes))
    named = [role.host_name(member) for member in role.members]
    if len(named) != len(running):
        patch, more = _counted(job, len(running))
        return Workers(patch, (*notes, *more))
    if set(named) != set(running):
        others = f"{_shortened(running)} run, and the next run has {_shortened(named)}"
        notes.append(f"{others}: as many, numbered from the files")
    return Workers(notes=tuple(notes))


def _counted(job: Job, count: int) -> tuple[Mapping[str, Any] | None, tuple[str, ...]]:
    """The patch that makes a job one of so many workers, and what is to be said about it."""
    role = job.scaled_role
    if role is None or role.bounds is None:
        return None, ()
    notes: list[str] = []
    bounds = role.bounds
    if count < bounds.minimum:
        notes.append(f"{count} workers run; minReplicas is {bounds.minimum}: the next run has that")
        count = bounds.minimum
    patch = _nested((*role.origin.path, "replicas"), count) if count != len(role.members) else {}
    if bounds.maximum is not None and count > bounds.maximum:
        notes.append(f"{count} workers run; maxReplicas is {bounds.maximum}: the files raise it")
        place = (bounds.origin or role.origin).path
        patch = _merged(patch, _nested((*place, "maxReplicas"), count))
    if patch:
        notes.append(f"{count} workers run, and the files say so")
    return patch or None, tuple(notes)


def _nested(path: ValuePath, value: Any) -> dict[str, Any]:
    for step in reversed(path):
        value = {str(step): value}
    found: dict[str, Any] = value
    return found


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(one)
    for key, value in other.items():
        both = isinstance(value, Mapping) and isinstance(made.get(key), Mapping)
        made[key] = _merged(made[key], value) if both else value
    return made


def _shortened(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 6 else [*names[:4], "...", names[-1]]
    return ", ".join(shown)
