"""What a document's annotations say of restarts in place, for every kind.

Apart from the kinds, because all of them read the same annotations. What differs is which roles
restart and whether they do so together, which a kind says itself. What a Pod template may not have
then is checked where the whole job is known (`etcompile.check.job_rules`).
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.diagnostics import Diagnostic, Source, codes, diagnose
from etcompile.frontends.annotations import (
    PREFIX,
    STUCK,
    annotation_value,
    annotations_of,
    seconds,
    unused_annotation,
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
_PORT = re.compile(r"[1-9][0-9]{3,4}", re.ASCII)
_PORTS = range(1024, 65536)
"""Those on which a container may listen that does not run as root."""


def by_annotation(source: Source) -> tuple[InPlace | None, list[Diagnostic]]:
    """What the annotations of a document ask."""
    given = annotations_of(source)
    stop, problems = seconds(source, _STOP, _DEFAULT.stop)
    problems += _choice_problems(source)
    port = given.get(SUPERVISOR_PORT, str(_DEFAULT.port))
    if not _PORT.fullmatch(port) or int(port) not in _PORTS:
        expected = f"a port from {_PORTS[0]} to {_PORTS[-1]}, quoted"
        problems.append(annotation_value(source, SUPERVISOR_PORT, expected))
        port = str(_DEFAULT.port)
    if RESTART not in given:
        reason, advice = (
            "the job does not restart in place",
            f"add {RESTART}: {_IN_PLACE}, or remove it",
        )
        idle = [name for name in _SETTINGS if name in given]
        problems += (unused_annotation(source, name, reason, advice) for name in idle)
        return None, problems
    if given[RESTART] != _IN_PLACE:
        return None, problems
    problems += _stack_problems(source)
    asked = structs.replace(
        _DEFAULT,
        stop=stop,
        port=int(port),
        checkpoint_signal=given.get(_SIGNAL),
        stack_signal=given.get(_STACKS),
    )
    return asked, problems


def restarted(job: Job, asked: InPlace | None, each: tuple[str, ...] | None = None) -> Job:
    """The job as it restarts in place, if it does.

    What its containers run is another command then, so it is another run. That command also has
    most of the settings.

    Args:
        job: The job without restarts in place.
        asked: What its document asks.
        each: The roles whose replicas restart each by itself; None if all restart together.
    """
    if asked is None:
        return job
    mode = "together" if each is None else "each"
    roles = tuple(role for role in job.roles if each is None or role.name in each)
    in_place = structs.replace(asked, mode=mode, roles=tuple(role.name for role in roles))
    run = structs.replace(job.run, in_place=in_place, together=mode == "together")
    job = structs.replace(job, run=run)
    commands = {role.name: options(job, role) for role in roles}
    return structs.replace(job, identity={**job.identity, "inPlace": commands})


def contradiction(
    source: Source, roles: Sequence[Role], each: tuple[str, ...] | None
) -> Iterator[Diagnostic]:
    """An error for a job that says of its replicas the opposite of how they restart in place."""
    given = annotations_of(source).get(TOGETHER)
    if each is None and given == "false":
        problem = f"all of its replicas do so together, and {TOGETHER} says that they do not"
    elif each is not None and given == "true":
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


def _choice_problems(source: Source) -> Iterator[Diagnostic]:
    """An error for a value that is none of those there are."""
    for name, values in ((RESTART, (_IN_PLACE,)), (_SIGNAL, _SIGNALS), (_STACKS, _SIGNALS)):
        found = annotations_of(source).get(name)
        if found is None or found in values:
            continue
        meant = found.upper().removeprefix("SIG")
        advice = f"write {meant}" if name != RESTART and meant in values else ""
        expected = " or ".join(filter(None, (", ".join(values[:-1]), values[-1])))
        yield annotation_value(source, name, expected, advice)


def _stack_problems(source: Source) -> Iterator[Diagnostic]:
    """What is wrong with the signal that asks for stacks, besides its name."""
    given = annotations_of(source)
    if _STACKS not in given:
        return
    if given[_STACKS] == given.get(_SIGNAL):
        yield annotation_value(source, _STACKS, f"another signal than {_SIGNAL} names")
    if STUCK not in given:
        reason = "nobody asks for stacks, since no run counts as one that hangs"
        advice = f"say with {STUCK} when a run counts as one that hangs, or remove it"
        yield unused_annotation(source, _STACKS, reason, advice)
