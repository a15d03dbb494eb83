"""Annotations of our own prefix: a misspelt one would steer nothing, and nobody would know."""

import re
from collections.abc import Collection, Iterator, Mapping

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.frontends.notes import unused

PREFIX = "etcompile.dev/"
GATE_TIMEOUT = "etcompile.dev/gate-timeout"
LOST_NODE = "etcompile.dev/lost-node-after"
AVOID_NODES = "etcompile.dev/avoid-nodes"
PREFLIGHT = "etcompile.dev/preflight"
STUCK = "etcompile.dev/stuck-after"
NNODES = "etcompile.dev/nnodes"
RUN = "etcompile.dev/run"
OF_EVERY_JOB = (LOST_NODE, AVOID_NODES, STUCK, PREFLIGHT, RUN)
"""The annotations that are read of jobs of all kinds (`etcompile.frontends.recovery`)."""

DEFAULT_GATE_TIMEOUT = 1800
"""Seconds: large images and a cluster that grows on demand need more than a few minutes."""

_SECONDS = re.compile(r"0{0,8}[1-9][0-9]{0,8}")


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


def gate_timeout(source: Source) -> tuple[int, list[Diagnostic]]:
    """Seconds until a gate gives up, and what is wrong with the annotation that says so."""
    return seconds(source, GATE_TIMEOUT, DEFAULT_GATE_TIMEOUT)


def seconds(source: Source, name: str, default: int) -> tuple[int, list[Diagnostic]]:
    """The seconds that an annotation says, and what is wrong with it.

    Args:
        source: The document.
        name: The annotation.
        default: The seconds without it, and where it says none.
    """
    text = annotations_of(source).get(name)
    if text is None or _SECONDS.fullmatch(text):
        return int(text or default), []
    return default, [annotation_value(source, name, "a number of seconds, at most 9 digits")]
