"""What a document's annotations say of how its Pods are recovered, whatever kind of job it is.

Apart from the kinds, and read around each of them where kinds are found: nothing of it depends on
the kind, and a kind that forgot it would drop what somebody wrote. The watcher does it; so it
changes no Pod that is there, and no run.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import AVOID_NODES, LOST_NODE, OF_EVERY_JOB
from etcompile.frontends.kind import Kind, Lowered
from etcompile.model import Job

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_SHORTEST = 30
"""Seconds: a node that is only slow for a moment must not lose its Pods."""


class _Annotation(Struct, frozen=True):
    """An annotation that is a number.

    Args:
        field: What it sets, of the job's `RunPolicy`.
        least: The smallest number.
        most: The largest.
        expected: What is expected, for a message.
    """

    field: str
    least: int
    most: int
    expected: str


_READ: Mapping[str, _Annotation] = {
    LOST_NODE: _Annotation(
        "lost_node_after", _SHORTEST, 10**9, f"a number of seconds, {_SHORTEST} or more"
    ),
    AVOID_NODES: _Annotation("avoid_nodes_after", 1, 99, "a number of failures, 1 to 99"),
}


def recovering(kind: Kind) -> Kind:
    """A kind whose jobs are recovered as their annotations say.

    Args:
        kind: The kind without that.
    """
    return structs.replace(kind, lower=partial(_lowered, kind.lower))


def _lowered(lower: Callable[[Source], Lowered], source: Source) -> Lowered:
    lowered = lower(source)
    given = source.data["metadata"].get("annotations") or {}
    written = [name for name in OF_EVERY_JOB if name in given]
    if not written or lowered.value is None:
        return lowered
    if not isinstance(lowered.value, Job):
        return Lowered(lowered.value, (*lowered.diagnostics, *_idle(source, written)))
    problems: list[Diagnostic] = []
    found: dict[str, Any] = {}
    for name in written:
        known = _READ[name]
        text = given[name]
        if _NUMBER.fullmatch(text) and known.least <= int(text) <= known.most:
            found[known.field] = int(text)
        else:
            facts = {"name": name, "expected": known.expected, "found": text, "advice": ""}
            place = source.locate(("metadata", "annotations", name))
            problems.append(diagnose(codes.ANNOTATION_VALUE, place, **facts))
    job = lowered.value
    kept = {name: given[name] for name in written}
    job = structs.replace(
        job, run=structs.replace(job.run, **found), document=_with_annotations(job.document, kept)
    )
    return Lowered(job, (*lowered.diagnostics, *problems))


def _with_annotations(document: Mapping[str, Any], kept: Mapping[str, str]) -> dict[str, Any]:
    """The document that the watcher reads, with these annotations too."""
    metadata = document["metadata"]
    annotations = {**metadata.get("annotations", {}), **kept}
    return {**document, "metadata": {**metadata, "annotations": annotations}}


def _idle(source: Source, written: list[str]) -> Iterator[Diagnostic]:
    """A warning for what only a job can ask for."""
    for name in written:
        yield diagnose(
            codes.NO_EFFECT,
            source.locate(("metadata", "annotations", name), key=True),
            where=f"annotation {name}",
            reason="there is no such annotation for this kind",
            advice="write it on the job",
        )
