"""What annotations say of how the Pods of a job are recovered, for every kind.

What the watcher does changes no Pod that is there, and no run; a preflight is part of the Pods, and
so is a command that restarts in place. Which roles do so, and whether all of them together, a kind
says. What a Pod template may not have then is checked where the whole job is known
(`etcompile.check.job_rules`).
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import (
    OF_EVERY_JOB,
    PREFIX,
    PREFLIGHT,
    STUCK,
    Annotation,
    Annotations,
    annotation_value,
    annotations_of,
    fields_of,
    one_of,
    seconds,
    unused_annotation,
    whole,
)
from etcompile.model import InPlace, Job, Preflight, Role
from etcompile.model.supervision import SUPERVISOR_PORT, options

RESTART = f"{PREFIX}restart"
TOGETHER = f"{PREFIX}restart-together"
"""The annotation by which one replica that fails restarts all, in new Pods."""
_SIGNAL = f"{PREFIX}checkpoint-signal"
_STACKS = f"{PREFIX}stack-signal"
_IN_PLACE = "in-place"
_DLROVER_MASTER = "dlrover-master"
"""A role that does not train, and runs a program of its own."""


def _signal(field: str) -> Annotation:
    # What a program may be sent without being told to end: not TERM, INT and QUIT.
    row = one_of("USR1", "USR2", "HUP", "ALRM", "WINCH", field=field)
    return structs.replace(row, meant=lambda text: text.upper().removeprefix("SIG"))


ANNOTATIONS: Annotations = {
    RESTART: one_of(_IN_PLACE),
    f"{PREFIX}stop-timeout": seconds("stop"),
    # Those on which a container may listen that does not run as root.
    SUPERVISOR_PORT: whole(1024, 65535, "a port from 1024 to 65535, quoted", "port"),
    _SIGNAL: _signal("checkpoint_signal"),
    _STACKS: _signal("stack_signal"),
}
"""The annotations about restarts in place."""


def recovered(job: Job, source: Source) -> tuple[Job, list[Diagnostic]]:
    """A job as its annotations say that it is recovered, and what is wrong with these."""
    job = structs.replace(job, run=structs.replace(job.run, **fields_of(source, OF_EVERY_JOB)))
    annotations, notes = annotations_of(source), [*_idle(source)]
    command = annotations.get(PREFLIGHT)
    if command is None or OF_EVERY_JOB[PREFLIGHT].read(command) is None:
        return job, notes
    roles = tuple(role.name for role in job.roles if role.name != _DLROVER_MASTER)
    if not roles:
        reason = "DLRover's master makes the Pods that train"
        return job, [*notes, unused_annotation(source, PREFLIGHT, reason)]
    # That they run a preflight makes other Pods of them, so it is another run; its command does
    # not.
    identity = {**job.identity, "preflight": True}
    return structs.replace(job, preflight=Preflight(command, roles), identity=identity), notes


def _idle(source: Source) -> Iterator[Diagnostic]:
    """Settings of restarts in place that contradict others, or have no effect without them."""
    annotations = annotations_of(source)
    if RESTART not in annotations:
        reason = "the job does not restart in place"
        advice = f"add {RESTART}: {_IN_PLACE}, or remove it"
        for name in annotations:
            if name in ANNOTATIONS:
                yield unused_annotation(source, name, reason, advice)
    elif annotations[RESTART] == _IN_PLACE and _STACKS in annotations:
        if annotations[_STACKS] == annotations.get(_SIGNAL):
            yield annotation_value(source, _STACKS, f"another signal than {_SIGNAL} names")
        if STUCK not in annotations:
            reason = "nobody asks for stacks, since no run counts as one that hangs"
            advice = f"say with {STUCK} when a run counts as one that hangs, or remove it"
            yield unused_annotation(source, _STACKS, reason, advice)


def restarts_in_place(source: Source) -> bool:
    """Whether a document asks that commands run again in the Pods that are there."""
    return annotations_of(source).get(RESTART) == _IN_PLACE


def restarted(job: Job, source: Source, each: tuple[str, ...] | None = None) -> Job:
    """The job as it restarts in place, if it does.

    What its containers run is another command then, so it is another run. That command also has
    most of the settings.

    Args:
        each: The roles whose replicas restart each by itself; None if all restart together.
    """
    if not restarts_in_place(source):
        return job
    roles = tuple(role for role in job.roles if each is None or role.name in each)
    mode: Literal["together", "each"] = "together" if each is None else "each"
    names = tuple(role.name for role in roles)
    in_place = InPlace(mode, names, **fields_of(source, ANNOTATIONS))
    run = structs.replace(job.run, in_place=in_place, together=each is None)
    job = structs.replace(job, run=run)
    commands = {role.name: options(job, role) for role in roles}
    return structs.replace(job, identity={**job.identity, "inPlace": commands})


def contradiction(
    source: Source, roles: Sequence[Role], each: tuple[str, ...] | None
) -> Iterator[Diagnostic]:
    """An error for a job that says of its replicas the opposite of how they restart in place."""
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
    """An error for a document that asks for restarts in place which there cannot be."""
    place = source.locate(("metadata", "annotations", name), key=True)
    facts = {"job": source.data["metadata"]["name"], "problem": problem, "advice": advice}
    return diagnose(codes.NOT_IN_PLACE, place, **facts)
