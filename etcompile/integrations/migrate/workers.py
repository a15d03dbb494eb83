"""Which workers run, and what it takes that the files say the same.

The spec and its intents say what was asked for, the status what came of it. Where the intents
of a dump do not lead to the workers that run, because some are missing or an operator counted
otherwise, the overlay says how many there are.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from etcompile import intents
from etcompile.diagnostics import ValuePath, has_errors
from etcompile.frontends import Kind
from etcompile.load import Document
from etcompile.model import Intent, Job, Role


class Workers(Struct, frozen=True):
    """The workers of a job, for files.

    Args:
        history: The intents that lead to them are to be kept.
        patch: What an overlay has to change in the document; None for nothing.
        notes: What is worth knowing, one line each.
    """

    history: bool
    patch: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


def workers(document: Document, kind: Kind, job: Job, wishes: Sequence[Intent]) -> Workers:
    """What the files of a job need so that it has as many workers as run.

    Args:
        document: The job's document, with its status.
        kind: The row of its kind, which says where its status names replicas.
        job: The job that it describes.
        wishes: The intents that were done.
    """
    running = _running(document, kind)
    folded = intents.fold(job, wishes)
    role = folded.job.scaled_role
    possible = not has_errors(folded.diagnostics)
    if role is None or not running:
        lost = () if possible else (_impossible(folded.diagnostics[0].message),)
        return Workers(possible, notes=lost)
    named = [role.host_name(member) for member in role.members]
    if possible and set(named) == set(running):
        return Workers(history=True)
    if possible and len(named) == len(running):
        others = f"{_shortened(running)} run, and the next run has {_shortened(named)}"
        note = f"{others}: as many, numbered from the files"
        return Workers(history=True, notes=(note,))
    notes = () if possible else (_impossible(folded.diagnostics[0].message),)
    if wishes and possible:
        count = len(named)
        notes = (f"the scale intents lead to {count} workers, not to those that run: left out",)
    patch, more = _counted(job, len(running))
    return Workers(history=False, patch=patch, notes=(*notes, *more))


def _running(document: Document, kind: Kind) -> list[str]:
    """The names of the workers that run, as the status tells."""
    if kind.operator is None or not kind.operator.workers:
        return []
    value: Any = document.data
    for step in kind.operator.workers:
        value = value.get(step) if isinstance(value, Mapping) else None
    return [str(item) for item in value] if isinstance(value, list) else []


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
        patch = _merged(patch, _nested((*_bounds_path(role), "maxReplicas"), count))
    if patch:
        notes.append(f"{count} workers run, and the files say so")
    return patch or None, tuple(notes)


def _bounds_path(role: Role) -> ValuePath:
    given = role.bounds.origin if role.bounds else None
    return (given or role.origin).path


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


def _impossible(reason: str) -> str:
    return f"the scale intents cannot be done one after the other, and are left out: {reason}"


def _shortened(names: Sequence[str]) -> str:
    shown = list(names) if len(names) <= 6 else [*names[:4], "...", names[-1]]
    return ", ".join(shown)
