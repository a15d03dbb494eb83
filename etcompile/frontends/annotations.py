"""Annotations of our own prefix: a misspelt one would steer nothing, and nobody would know."""

import re
from collections.abc import Collection, Iterator

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.diagnostics.spelling import probably

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


def unknown_annotations(source: Source, known: Collection[str]) -> Iterator[Diagnostic]:
    """A warning for each annotation of our prefix that the document's kind does not know.

    Args:
        source: The document.
        known: The annotations that its kind reads.
    """
    for name in source.data["metadata"].get("annotations", {}):
        if name.startswith(PREFIX) and name not in known and name not in OF_EVERY_JOB:
            close = probably(name, (*known, *OF_EVERY_JOB))
            place = source.locate(("metadata", "annotations", name), key=True)
            yield diagnose(
                codes.NO_EFFECT,
                place,
                where=f"annotation {name}",
                reason="there is no such annotation for this kind",
                advice=f"did you mean '{close}'?" if close else "",
            )


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
    text = source.data["metadata"].get("annotations", {}).get(name)
    if text is None:
        return default, []
    if _SECONDS.fullmatch(text):
        return int(text), []
    place = source.locate(("metadata", "annotations", name))
    expected = "a number of seconds, at most 9 digits"
    facts = {"name": name, "expected": expected, "found": text, "advice": ""}
    return default, [diagnose(codes.ANNOTATION_VALUE, place, **facts)]
