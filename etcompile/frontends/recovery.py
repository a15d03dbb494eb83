"""Annotations that jobs of all kinds have: how their Pods are recovered, and which run they are.

Apart from the kinds, and read around each of them where kinds are found: nothing of it depends on
the kind, and a kind that forgot it would drop what somebody wrote. What the watcher does changes no
Pod that is there, and no run; a preflight is part of the Pods.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import (
    AVOID_NODES,
    LOST_NODE,
    OF_EVERY_JOB,
    PREFLIGHT,
    RUN,
    STUCK,
    annotation_value,
    annotations_of,
    unused_annotation,
)
from etcompile.frontends.kind import Kind, Lowered
from etcompile.k8s.names import is_run
from etcompile.model import Job, Preflight
from etcompile.model.run import LONGEST_RUN

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_LONGEST_COMMAND = 4096
_DLROVER_MASTER = "dlrover-master"
"""A role that does not train, and runs a program of its own."""
_SHORTEST = 30
"""Seconds: a node that is only slow for a moment must not lose its Pods."""


class _Annotation(Struct, frozen=True):
    """An annotation that sets a field of the job's `RunPolicy`.

    Args:
        field: What it sets, of that policy.
        read: The value of a text; None if it is none.
        expected: What is expected, for a message.
    """

    field: str
    read: Callable[[str], int | str | None]
    expected: str


def _number(least: int, most: int, text: str) -> int | None:
    is_one = _NUMBER.fullmatch(text) and least <= int(text) <= most
    return int(text) if is_one else None


_READ: Mapping[str, _Annotation] = {
    LOST_NODE: _Annotation(
        "lost_node_after",
        partial(_number, _SHORTEST, 10**9),
        f"a number of seconds, {_SHORTEST} or more",
    ),
    AVOID_NODES: _Annotation(
        "avoid_nodes_after", partial(_number, 1, 99), "a number of failures, 1 to 99"
    ),
    STUCK: _Annotation(
        "stuck_after", partial(_number, 60, 10**9), "a number of seconds, 60 or more"
    ),
    RUN: _Annotation(
        "run_id",
        lambda text: text if is_run(text) else None,
        f"auto, or at most {LONGEST_RUN} lower-case letters, digits and '-'",
    ),
}


def recovering(kind: Kind) -> Kind:
    """A kind whose jobs are recovered as their annotations say."""
    return structs.replace(kind, lower=partial(_lowered, kind.lower))


def _lowered(lower: Callable[[Source], Lowered], source: Source) -> Lowered:
    lowered = lower(source)
    given = annotations_of(source)
    written = [name for name in OF_EVERY_JOB if name in given]
    if not written or lowered.value is None:
        return lowered
    if not isinstance(lowered.value, Job):
        reason = "there is no such annotation for this kind"
        idle = [unused_annotation(source, name, reason, "write it on the job") for name in written]
        return Lowered(lowered.value, (*lowered.diagnostics, *idle))
    problems: list[Diagnostic] = []
    found: dict[str, Any] = {}
    for name in written:
        if name == PREFLIGHT:
            continue
        known = _READ[name]
        if (value := known.read(given[name])) is None:
            problems.append(annotation_value(source, name, known.expected))
        else:
            found[known.field] = value
    job = lowered.value
    kept = {name: given[name] for name in written}
    job = structs.replace(
        job, run=structs.replace(job.run, **found), document=_with_annotations(job.document, kept)
    )
    if PREFLIGHT in given:
        job, more = _asking(job, source, given[PREFLIGHT])
        problems += more
    return Lowered(job, (*lowered.diagnostics, *problems))


def _asking(job: Job, source: Source, command: str) -> tuple[Job, list[Diagnostic]]:
    """The job whose Pods ask whether they may train where they are, and what is wrong with that.

    That they ask makes other Pods of them, so it is another run; what they ask does not.
    """
    roles = tuple(role.name for role in job.roles if role.name != _DLROVER_MASTER)
    if not command.strip() or len(command) > _LONGEST_COMMAND or "\0" in command:
        expected = f"a command for a shell, at most {_LONGEST_COMMAND} characters"
        facts = {"name": PREFLIGHT, "expected": expected, "found": command[:40], "advice": ""}
        place = source.locate(("metadata", "annotations", PREFLIGHT))
        return job, [diagnose(codes.ANNOTATION_VALUE, place, **facts)]
    if not roles:
        reason = "DLRover's master makes the Pods that train"
        return job, [unused_annotation(source, PREFLIGHT, reason)]
    identity = {**job.identity, "preflight": True}
    return structs.replace(job, preflight=Preflight(command, roles), identity=identity), []


def _with_annotations(document: Mapping[str, Any], kept: Mapping[str, str]) -> dict[str, Any]:
    """The document that the watcher reads, with these annotations too."""
    metadata = document["metadata"]
    annotations = {**metadata.get("annotations", {}), **kept}
    return {**document, "metadata": {**metadata, "annotations": annotations}}
