"""What a document's annotations say of restarts in place, for every kind.

Apart from the kinds, because all of them read the same annotations. What differs is which roles
restart and whether they do so together, which a kind says itself. What a Pod template may not have
then is checked where the whole job is known (`etcompile.check.job_rules`).
"""

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import (
    PREFIX,
    STUCK,
    Annotation,
    annotation_value,
    annotations_of,
    read_annotations,
    seconds,
    unused_annotation,
    whole,
)
from etcompile.model import InPlace, Job, Role
from etcompile.model.supervision import SUPERVISOR_PORT, options

RESTART = f"{PREFIX}restart"
TOGETHER = f"{PREFIX}restart-together"
"""The annotation by which one replica that fails restarts all, in new Pods."""
_STOP = f"{PREFIX}stop-timeout"
_SIGNAL = f"{PREFIX}checkpoint-signal"
_STACKS = f"{PREFIX}stack-signal"
_SETTINGS = (_STOP, SUPERVISOR_PORT, _SIGNAL, _STACKS)
ANNOTATIONS = (RESTART, *_SETTINGS)
"""The annotations that every kind of job reads."""

_IN_PLACE = "in-place"
_SIGNALS = ("USR1", "USR2", "HUP", "ALRM", "WINCH")
"""What a program may be sent without being told to end: not TERM, INT and QUIT."""
_DEFAULT = InPlace("together", ())
_PORTS = range(1024, 65536)
"""Those on which a container may listen that does not run as root."""


def _signal(field: str) -> Annotation:
    return Annotation(
        field,
        lambda text: text if text in _SIGNALS else None,
        f"{', '.join(_SIGNALS[:-1])} or {_SIGNALS[-1]}",
        lambda text: text.upper().removeprefix("SIG"),
    )


_READ = {
    _STOP: seconds("stop"),
    RESTART: Annotation("restart", lambda text: text if text == _IN_PLACE else None, _IN_PLACE),
    _SIGNAL: _signal("checkpoint_signal"),
    _STACKS: _signal("stack_signal"),
    SUPERVISOR_PORT: Annotation(
        "port",
        partial(whole, _PORTS[0], _PORTS[-1]),
        f"a port from {_PORTS[0]} to {_PORTS[-1]}, quoted",
    ),
}


def by_annotation(source: Source) -> tuple[InPlace | None, list[Diagnostic]]:
    """How the annotations of a document have its commands run again, if they do."""
    annotations = annotations_of(source)
    fields, problems = read_annotations(source, _READ)
    if RESTART not in annotations:
        reason = "the job does not restart in place"
        advice = f"add {RESTART}: {_IN_PLACE}, or remove it"
        idle = [name for name in _SETTINGS if name in annotations]
        problems += (unused_annotation(source, name, reason, advice) for name in idle)
    if fields.pop("restart", None) is None:
        return None, problems
    if _STACKS in annotations and annotations[_STACKS] == annotations.get(_SIGNAL):
        expected = f"another signal than {_SIGNAL} names"
        problems.append(annotation_value(source, _STACKS, expected))
    if _STACKS in annotations and STUCK not in annotations:
        reason = "nobody asks for stacks, since no run counts as one that hangs"
        advice = f"say with {STUCK} when a run counts as one that hangs, or remove it"
        problems.append(unused_annotation(source, _STACKS, reason, advice))
    return structs.replace(_DEFAULT, **fields), problems


def restarted(job: Job, in_place: InPlace | None, each: tuple[str, ...] | None = None) -> Job:
    """The job as it restarts in place, if it does.

    What its containers run is another command then, so it is another run. That command also has
    most of the settings.

    `each` are the roles whose replicas restart each by itself; None if all restart together.
    """
    if in_place is None:
        return job
    mode = "together" if each is None else "each"
    roles = tuple(role for role in job.roles if each is None or role.name in each)
    in_place = structs.replace(in_place, mode=mode, roles=tuple(role.name for role in roles))
    run = structs.replace(job.run, in_place=in_place, together=mode == "together")
    job = structs.replace(job, run=run)
    commands = {role.name: options(job, role) for role in roles}
    return structs.replace(job, identity={**job.identity, "inPlace": commands})


def contradiction(
    source: Source, roles: Sequence[Role], each: tuple[str, ...] | None
) -> Iterator[Diagnostic]:
    """An error for a job that says of its replicas the opposite of how they restart in place."""
    together = annotations_of(source).get(TOGETHER)
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
