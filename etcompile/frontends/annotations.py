"""Read and check annotations of the prefix `etcompile.dev/`, and apply those about recovery.

A misspelt annotation would have no effect, so it is a warning. Annotations of every job set how its
Pods are recovered and which run they are. The watcher acts on most of them, without a change to
Pods or run; a preflight is part of the Pods, and so is a command that restarts in place.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.diagnostics.spelling import closest
from etcompile.frontends.notes import unused
from etcompile.k8s.names import is_run
from etcompile.k8s.path import mapping_at
from etcompile.model import InPlace, Job, Preflight, Role
from etcompile.model.run_identity import LONGEST_RUN
from etcompile.model.supervision import SUPERVISOR_PORT, options

PREFIX = "etcompile.dev/"
NNODES = f"{PREFIX}nnodes"
GATE_TIMEOUT = f"{PREFIX}gate-timeout"
DEFAULT_GATE_TIMEOUT = 1800
"""Seconds, for large images and a cluster that grows on demand."""

_NUMBER = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_LONGEST_SHOWN = 1024


class Annotation(Struct, frozen=True):
    """An annotation that a kind reads.

    Args:
        read: Parse a text; None if it is invalid.
        expected: Describes a valid text.
        field: The field that it sets, if any.
        meant: Guess the valid text that was meant, for advice.
    """

    read: Callable[[str], Any] = str
    expected: str = ""
    field: str = ""
    meant: Callable[[str], str] | None = None


Annotations = Mapping[str, Annotation]


def one_of(*choices: str, field: str = "") -> Annotation:
    *others, last = choices
    expected = f"{', '.join(others)} or {last}" if others else last
    return Annotation(lambda text: text if text in choices else None, expected, field)


def matching(pattern: str, expected: str, field: str = "") -> Annotation:
    form = re.compile(pattern, re.ASCII)
    return Annotation(lambda text: text if form.fullmatch(text) else None, expected, field)


def whole(least: int, most: int, expected: str, field: str) -> Annotation:
    def read(text: str) -> int | None:
        return int(text) if _NUMBER.fullmatch(text) and least <= int(text) <= most else None

    return Annotation(read, expected, field)


def seconds(field: str) -> Annotation:
    form = re.compile(r"0{0,8}[1-9][0-9]{0,8}")
    expected = "a number of seconds, at most 9 digits"
    return Annotation(lambda text: int(text) if form.fullmatch(text) else None, expected, field)


ANY = Annotation()
FLAG = Annotation(one_of("true", "false").read, '"true" or "false"')
GATED = {GATE_TIMEOUT: seconds("timeout")}

PREFLIGHT = f"{PREFIX}preflight"
STUCK = f"{PREFIX}stuck-after"
OF_EVERY_JOB: Annotations = {
    # A node that is slow for a moment must not lose its Pods.
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


def annotations_of(source: Source) -> Mapping[str, str]:
    annotations: Mapping[str, str] = source.data["metadata"].get("annotations") or {}
    return annotations


def fields_of(source: Source, known: Annotations) -> dict[str, Any]:
    texts = annotations_of(source)
    values = {row.field: row.read(texts[name]) for name, row in known.items() if name in texts}
    return {field: value for field, value in values.items() if field and value is not None}


def gate_timeout(source: Source) -> int:
    return int(fields_of(source, GATED).get("timeout", DEFAULT_GATE_TIMEOUT))


def check_annotations(source: Source, known: Annotations) -> Iterator[Diagnostic]:
    """Report annotations of ours with invalid values, or that the kind does not read.

    The document need not be valid.
    """
    for name, text in mapping_at(source.data, ("metadata", "annotations")).items():
        if not isinstance(text, str):
            continue
        if (row := known.get(name)) is None:
            if name.startswith(PREFIX):
                # The common prefix would make any two of them similar.
                names = [annotation.removeprefix(PREFIX) for annotation in known]
                close = closest(name.removeprefix(PREFIX), names)
                reason = "there is no such annotation for this kind"
                advice = f"did you mean '{PREFIX}{close}'?" if close else ""
                advice = "write it on the job" if name in OF_EVERY_JOB else advice
                yield unused_annotation(source, name, reason, advice)
        elif row.read(text) is None:
            meant = row.meant(text) if row.meant else ""
            advice = f"write {meant}" if meant and row.read(meant) is not None else ""
            yield annotation_value(source, name, row.expected, advice)


def annotation_value(source: Source, name: str, expected: str, advice: str = "") -> Diagnostic:
    place, text = source.locate(("metadata", "annotations", name)), annotations_of(source)[name]
    shown = text if len(text) <= _LONGEST_SHOWN else text[:40]
    facts = {"name": name, "expected": expected, "found": shown}
    return diagnose(codes.ANNOTATION_VALUE, place, **facts, advice=advice)


def unused_annotation(
    source: Source, name: str, reason: str, advice: str = "remove it"
) -> Diagnostic:
    place = source.locate(("metadata", "annotations", name), key=True)
    return unused(place, f"annotation {name}", reason, advice)


RESTART = f"{PREFIX}restart"
TOGETHER = f"{PREFIX}restart-together"
"""The annotation with which a failed replica restarts all, in new Pods."""
_SIGNAL = f"{PREFIX}checkpoint-signal"
_IN_PLACE = "in-place"
_DLROVER_MASTER = "dlrover-master"  # a role that does not train, and runs another program


OF_RESTARTS: Annotations = {
    RESTART: one_of(_IN_PLACE),
    f"{PREFIX}stop-timeout": seconds("stop"),
    # A container that does not run as root cannot use lower ports.
    SUPERVISOR_PORT: whole(1024, 65535, "a port from 1024 to 65535, quoted", "port"),
    # Signals other than TERM, INT and QUIT, which ask a program to end.
    _SIGNAL: structs.replace(
        one_of("USR1", "USR2", "HUP", "ALRM", "WINCH", field="checkpoint_signal"),
        meant=lambda text: text.upper().removeprefix("SIG"),
    ),
}


def recovered(job: Job, source: Source) -> tuple[Job, list[Diagnostic]]:
    job = structs.replace(job, run=structs.replace(job.run, **fields_of(source, OF_EVERY_JOB)))
    annotations = annotations_of(source)
    reason, advice = (
        "the job does not restart in place",
        f"add {RESTART}: {_IN_PLACE}, or remove it",
    )
    idle = [name for name in annotations if name in OF_RESTARTS and RESTART not in annotations]
    notes = [unused_annotation(source, name, reason, advice) for name in idle]
    command = annotations.get(PREFLIGHT)
    if command is None or OF_EVERY_JOB[PREFLIGHT].read(command) is None:
        return job, notes
    roles = tuple(role.name for role in job.roles if role.name != _DLROVER_MASTER)
    if not roles:
        reason = "DLRover's master makes the Pods that train"
        return job, [*notes, unused_annotation(source, PREFLIGHT, reason)]
    # The presence of a preflight changes the Pods, and so the run. Its command does not.
    identity = {**job.identity, "preflight": True}
    return structs.replace(job, preflight=Preflight(command, roles), identity=identity), notes


def restarts_in_place(source: Source) -> bool:
    return annotations_of(source).get(RESTART) == _IN_PLACE


def restarted(job: Job, source: Source, each: tuple[str, ...] | None = None) -> Job:
    """Apply restarts in place to a job whose document asks for them.

    They change the command of its containers, which includes most of the settings, so it is another
    run. The replicas of the roles in `each` restart independently; None if all restart together.
    """
    if not restarts_in_place(source):
        return job
    roles = tuple(role for role in job.roles if each is None or role.name in each)
    mode: Literal["together", "each"] = "together" if each is None else "each"
    names = tuple(role.name for role in roles)
    in_place = InPlace(mode, names, **fields_of(source, OF_RESTARTS))
    run = structs.replace(job.run, in_place=in_place, together=each is None)
    job = structs.replace(job, run=run)
    commands = {role.name: options(job, role) for role in roles}
    return structs.replace(job, identity={**job.identity, "inPlace": commands})


def contradiction(
    source: Source, roles: Sequence[Role], each: tuple[str, ...] | None
) -> Iterator[Diagnostic]:
    """Report a document whose annotations ask for restarts both together and independently."""
    together = annotations_of(source).get(TOGETHER)
    if not restarts_in_place(source):
        return
    if each is None and together == "false":
        problem = f"all of its replicas do so together, and {TOGETHER} says that they do not"
    elif each is not None and together == "true":
        who = "each replica" if len(each) == len(roles) else f"each {' and '.join(each)}"
        who = "only the launcher" if each == ("launcher",) else who
        problem = f"{who} would do so by itself, and {TOGETHER} says that all restart"
    else:
        return
    advice = f"remove one of the two annotations, {TOGETHER} or {RESTART}"
    yield impossible(source, problem, advice, TOGETHER)


def impossible(source: Source, problem: str, advice: str, name: str = RESTART) -> Diagnostic:
    place = source.locate(("metadata", "annotations", name), key=True)
    facts = {"job": source.data["metadata"]["name"], "problem": problem, "advice": advice}
    return diagnose(codes.NOT_IN_PLACE, place, **facts)
