"""Annotations of our own prefix: their values, and those that jobs of all kinds have.

A misspelt one would steer nothing, and nobody would know, so it is a warning. Annotations of every
job say how its Pods are recovered and which run they are. They are read around each kind where
kinds are found: nothing of it depends on the kind, and a kind that forgot it would drop what
somebody wrote. What the watcher does changes no Pod that is there, and no run; a preflight is part
of the Pods.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.frontends.kind import Kind, Lowered
from etcompile.frontends.notes import unused
from etcompile.k8s.names import is_run
from etcompile.model import Job, Preflight
from etcompile.model.run_identity import LONGEST_RUN

PREFIX = "etcompile.dev/"
GATE_TIMEOUT = "etcompile.dev/gate-timeout"
LOST_NODE = "etcompile.dev/lost-node-after"
AVOID_NODES = "etcompile.dev/avoid-nodes"
PREFLIGHT = "etcompile.dev/preflight"
STUCK = "etcompile.dev/stuck-after"
NNODES = "etcompile.dev/nnodes"
RUN = "etcompile.dev/run"
OF_EVERY_JOB = (LOST_NODE, AVOID_NODES, STUCK, PREFLIGHT, RUN)
"""The annotations that are read of jobs of all kinds."""

DEFAULT_GATE_TIMEOUT = 1800
"""Seconds: large images and a cluster that grows on demand need more than a few minutes."""

_SECONDS = re.compile(r"0{0,8}[1-9][0-9]{0,8}")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)


def annotations_of(source: Source) -> Mapping[str, str]:
    """The annotations of a document."""
    annotations: Mapping[str, str] = source.data["metadata"].get("annotations") or {}
    return annotations


def annotation_value(source: Source, name: str, expected: str, advice: str = "") -> Diagnostic:
    """An error for an annotation whose value is none that it may have."""
    place = source.locate(("metadata", "annotations", name))
    facts = {"name": name, "expected": expected, "found": annotations_of(source)[name]}
    return diagnose(codes.ANNOTATION_VALUE, place, **facts, advice=advice)


def unused_annotation(
    source: Source, name: str, reason: str, advice: str = "remove it"
) -> Diagnostic:
    """A warning for an annotation that changes nothing."""
    place = source.locate(("metadata", "annotations", name), key=True)
    return unused(place, f"annotation {name}", reason, advice)


def unknown_annotations(source: Source, known: Collection[str]) -> Iterator[Diagnostic]:
    """A warning for each annotation of our prefix that the document's kind does not know."""
    for name in annotations_of(source):
        if name.startswith(PREFIX) and name not in known and name not in OF_EVERY_JOB:
            close = probably(name, (*known, *OF_EVERY_JOB))
            reason = "there is no such annotation for this kind"
            yield unused_annotation(
                source, name, reason, f"did you mean '{close}'?" if close else ""
            )


def flag_errors(source: Source, names: Collection[str]) -> Iterator[Diagnostic]:
    """An error for each annotation that is neither on nor off: "yes" would count as off."""
    for name in names:
        if annotations_of(source).get(name, "true") not in ("true", "false"):
            yield annotation_value(source, name, '"true" or "false"')


class Annotation(Struct, frozen=True):
    """An annotation that sets a field.

    Args:
        read: The value of a text; None if it is none.
        meant: The text that was probably meant, for advice.
    """

    field: str
    read: Callable[[str], Any]
    expected: str
    meant: Callable[[str], str] | None = None


def read_annotations(
    source: Source, rows: Mapping[str, Annotation]
) -> tuple[dict[str, Any], list[Diagnostic]]:
    """The fields that annotations of a document set, and what is wrong with these."""
    fields: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    for name, row in rows.items():
        if (text := annotations_of(source).get(name)) is None:
            continue
        if (value := row.read(text)) is not None:
            fields[row.field] = value
            continue
        meant = row.meant(text) if row.meant else ""
        advice = f"write {meant}" if meant and row.read(meant) is not None else ""
        problems.append(annotation_value(source, name, row.expected, advice))
    return fields, problems


def whole(least: int, most: int, text: str) -> int | None:
    """A whole number, which is written without zeros in front of it."""
    return int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None


def seconds(field: str) -> Annotation:
    """An annotation that sets a field to seconds."""
    expected = "a number of seconds, at most 9 digits"
    return Annotation(field, lambda text: int(text) if _SECONDS.fullmatch(text) else None, expected)


def gate_timeout(source: Source) -> tuple[int, list[Diagnostic]]:
    """Seconds until a gate gives up, and what is wrong with the annotation that says so."""
    fields, problems = read_annotations(source, {GATE_TIMEOUT: seconds("timeout")})
    return fields.get("timeout", DEFAULT_GATE_TIMEOUT), problems


# Of every job -----------------------------------------------------------------------------------

_LONGEST_COMMAND = 4096
_DLROVER_MASTER = "dlrover-master"
"""A role that does not train, and runs a program of its own."""
_SHORTEST = 30
"""Seconds: a node that is only slow for a moment must not lose its Pods."""


_READ: Mapping[str, Annotation] = {
    LOST_NODE: Annotation(
        "lost_node_after",
        partial(whole, _SHORTEST, 10**9),
        f"a number of seconds, {_SHORTEST} or more",
    ),
    AVOID_NODES: Annotation(
        "avoid_nodes_after", partial(whole, 1, 99), "a number of failures, 1 to 99"
    ),
    STUCK: Annotation("stuck_after", partial(whole, 60, 10**9), "a number of seconds, 60 or more"),
    RUN: Annotation(
        "run_id",
        lambda text: text if is_run(text) else None,
        f"auto, or at most {LONGEST_RUN} lower-case letters, digits and '-'",
    ),
}


def recovering(kind: Kind) -> Kind:
    """A kind whose jobs are recovered as their annotations say."""
    return structs.replace(kind, lower=lambda source: _recovered(kind.lower(source), source))


def _recovered(lowered: Lowered, source: Source) -> Lowered:
    annotations = annotations_of(source)
    own = {name: annotations[name] for name in OF_EVERY_JOB if name in annotations}
    job = lowered.value
    if not own or job is None:
        return lowered
    if not isinstance(job, Job):
        reason = "there is no such annotation for this kind"
        idle = [unused_annotation(source, name, reason, "write it on the job") for name in own]
        return Lowered(job, (*lowered.diagnostics, *idle))
    fields, problems = read_annotations(source, _READ)
    metadata = job.document["metadata"]
    # The watcher reads them there.
    stored = {**metadata, "annotations": {**metadata.get("annotations", {}), **own}}
    job = structs.replace(
        job,
        run=structs.replace(job.run, **fields),
        document={**job.document, "metadata": stored},
    )
    if (command := own.get(PREFLIGHT)) is None:
        return Lowered(job, (*lowered.diagnostics, *problems))
    roles = tuple(role.name for role in job.roles if role.name != _DLROVER_MASTER)
    if not command.strip() or len(command) > _LONGEST_COMMAND or "\0" in command:
        expected = f"a command for a shell, at most {_LONGEST_COMMAND} characters"
        facts = {"name": PREFLIGHT, "expected": expected, "found": command[:40], "advice": ""}
        place = source.locate(("metadata", "annotations", PREFLIGHT))
        problems.append(diagnose(codes.ANNOTATION_VALUE, place, **facts))
    elif not roles:
        reason = "DLRover's master makes the Pods that train"
        problems.append(unused_annotation(source, PREFLIGHT, reason))
    else:
        # That they run a preflight makes other Pods of them, so it is another run; its command
        # does not.
        identity = {**job.identity, "preflight": True}
        job = structs.replace(job, preflight=Preflight(command, roles), identity=identity)
    return Lowered(job, (*lowered.diagnostics, *problems))
