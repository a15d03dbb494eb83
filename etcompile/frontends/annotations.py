"""Annotations of our own prefix: which a kind reads, and what their values may be.

A misspelt one would steer nothing, and nobody would know, so it is a warning.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.diagnostics.spelling import probably
from etcompile.frontends.notes import unused
from etcompile.k8s.names import is_run
from etcompile.model.run_identity import LONGEST_RUN

PREFIX = "etcompile.dev/"
NNODES = f"{PREFIX}nnodes"
GATE_TIMEOUT = f"{PREFIX}gate-timeout"
DEFAULT_GATE_TIMEOUT = 1800
"""Seconds: large images and a cluster that grows on demand need more than a few minutes."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_LONGEST_SHOWN = 1024


class Annotation(Struct, frozen=True):
    """An annotation that a kind reads.

    Args:
        read: The value of a text; None if it is none.
        expected: What a text that has a value looks like.
        field: The field of ours that it sets, if it sets one.
        meant: The text that was probably meant, for advice.
    """

    read: Callable[[str], Any] = str
    expected: str = ""
    field: str = ""
    meant: Callable[[str], str] | None = None


Annotations = Mapping[str, Annotation]
"""The annotations that a kind reads, by name."""


def one_of(*choices: str, field: str = "") -> Annotation:
    """An annotation with one of these texts."""
    *others, last = choices
    expected = f"{', '.join(others)} or {last}" if others else last
    return Annotation(lambda text: text if text in choices else None, expected, field)


def matching(pattern: str, expected: str, field: str = "") -> Annotation:
    """An annotation whose whole text matches a pattern."""
    form = re.compile(pattern, re.ASCII)
    return Annotation(lambda text: text if form.fullmatch(text) else None, expected, field)


def whole(least: int, most: int, expected: str, field: str) -> Annotation:
    """An annotation with a whole number, which is written without zeros in front of it."""

    def read(text: str) -> int | None:
        return int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None

    return Annotation(read, expected, field)


def seconds(field: str) -> Annotation:
    """An annotation with a number of seconds."""
    form = re.compile(r"0{0,8}[1-9][0-9]{0,8}")
    expected = "a number of seconds, at most 9 digits"
    return Annotation(lambda text: int(text) if form.fullmatch(text) else None, expected, field)


ANY = Annotation()
FLAG = Annotation(one_of("true", "false").read, '"true" or "false"')
GATED = {GATE_TIMEOUT: seconds("timeout")}
"""The annotations of a kind whose Pods wait for others."""

PREFLIGHT = f"{PREFIX}preflight"
STUCK = f"{PREFIX}stuck-after"
OF_EVERY_JOB: Annotations = {
    # A node that is only slow for a moment must not lose its Pods.
    f"{PREFIX}lost-node-after": whole(
        30, 10**9, "a number of seconds, 30 or more", "lost_node_after"
    ),
    f"{PREFIX}avoid-nodes": whole(1, 99, "a number of failures, 1 to 99", "avoid_nodes_after"),
    STUCK: whole(60, 10**9, "a number of seconds, 60 or more", "stuck_after"),
    PREFLIGHT: Annotation(
        lambda text: text if text.strip() and len(text) <= 4096 and "\0" not in text else None,
        "a command for a shell, at most 4096 characters",
    ),
    f"{PREFIX}run": Annotation(
        lambda text: text if is_run(text) else None,
        f"auto, or at most {LONGEST_RUN} lower-case letters, digits and '-'",
        "run_id",
    ),
}
"""The annotations that are read of jobs of all kinds."""


def annotations_of(source: Source) -> Mapping[str, str]:
    """The annotations of a document."""
    annotations: Mapping[str, str] = source.data["metadata"].get("annotations") or {}
    return annotations


def fields_of(source: Source, known: Annotations) -> dict[str, Any]:
    """The fields that annotations of a document set."""
    texts = annotations_of(source)
    values = {row.field: row.read(texts[name]) for name, row in known.items() if name in texts}
    return {field: value for field, value in values.items() if field and value is not None}


def gate_timeout(source: Source) -> int:
    """Seconds until a gate gives up."""
    return int(fields_of(source, GATED).get("timeout", DEFAULT_GATE_TIMEOUT))


def check_annotations(source: Source, known: Annotations) -> Iterator[Diagnostic]:
    """Errors for values that annotations cannot have; warnings for ours that the kind ignores."""
    for name, text in annotations_of(source).items():
        if (row := known.get(name)) is None:
            if name.startswith(PREFIX):
                close = probably(name, known)
                reason = "there is no such annotation for this kind"
                advice = f"did you mean '{close}'?" if close else ""
                advice = "write it on the job" if name in OF_EVERY_JOB else advice
                yield unused_annotation(source, name, reason, advice)
        elif row.read(text) is None:
            meant = row.meant(text) if row.meant else ""
            advice = f"write {meant}" if meant and row.read(meant) is not None else ""
            yield annotation_value(source, name, row.expected, advice)


def annotation_value(source: Source, name: str, expected: str, advice: str = "") -> Diagnostic:
    """An error for an annotation whose value is none that it may have."""
    place, text = source.locate(("metadata", "annotations", name)), annotations_of(source)[name]
    shown = text if len(text) <= _LONGEST_SHOWN else text[:40]
    facts = {"name": name, "expected": expected, "found": shown}
    return diagnose(codes.ANNOTATION_VALUE, place, **facts, advice=advice)


def unused_annotation(
    source: Source, name: str, reason: str, advice: str = "remove it"
) -> Diagnostic:
    """A warning for an annotation that changes nothing."""
    place = source.locate(("metadata", "annotations", name), key=True)
    return unused(place, f"annotation {name}", reason, advice)
