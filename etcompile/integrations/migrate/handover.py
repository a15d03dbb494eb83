"""What becomes of a job's objects to instructions for people, in Markdown.

Commands are written out with their names, so that they can be copied; why each is needed stands
beside it, and what cannot be kept alive is said before anything is done.
"""

import itertools
import re
from collections.abc import Iterator, Sequence

from etcompile.integrations.migrate.adoption import Outcome, seamless
from etcompile.integrations.migrate.state import State, state
from etcompile.integrations.migrate.steps import (
    clear,
    deploy,
    later,
    look,
    meanwhile,
    number_of_deploy,
    remove,
    take,
)
from etcompile.integrations.migrate.subject import (
    Handover,
    begins_anew,
    code,
    dump,
    operator,
    shortened,
)
from etcompile.plan import claims

_MEANING: dict[Outcome, str] = {
    "same": "is taken over as it is",
    "any time": "can be taken over at any time: no Pod notices",
    "at the end": "is taken over when the run has ended, because its Pods would notice",
    "runs on": "stays as the operator made it until the run ends, and is then replaced",
    "new": "is new: the first apply makes it",
    "kept": "stays: it is not rendered, and the next run needs it",
    "left over": "is not rendered: delete it when the run has ended",
    "useless": "is not rendered: delete it with the custom resource",
    "again": "is deleted with the custom resource, and made anew",
    "gone": "is deleted with the custom resource",
}
_AFTERWARDS: dict[Outcome, str] = {
    **_MEANING,
    "any time": "is taken over",
    "at the end": "is taken over",
    "runs on": "cannot become that of the next run: delete it",
    "left over": "is not rendered: delete it",
}
"""The same where no run goes on."""


def instructions(handovers: Sequence[Handover], *, overlay: bool) -> str:
    """The hand-over of jobs, step by step.

    Args:
        handovers: The jobs.
        overlay: There is an overlay.
    """
    parts = []
    for handover in handovers:
        title = f"# Handing over {handover.live.label}\n"
        parts.append("\n".join((title, *_job(handover, overlay=overlay))))
    return re.sub(r"\n{3,}", "\n\n", "\n\n".join(parts)).rstrip("\n") + "\n"


def _job(handover: Handover, *, overlay: bool) -> Iterator[str]:
    now = state(handover.live, handover.job)
    yield from _summary(handover, now)
    if handover.notes:
        yield "\n## What the files say differently\n"
        yield from (f"- {note}." for note in handover.notes)
    yield "\n## What stays, and what restarts\n"
    yield from _table(handover, now)
    yield "\n## Steps\n"
    # Where Pods are what is rendered, there is nothing to wait for and nothing to clear away.
    waits = now == "running" and not seamless(handover.fates)
    anew = begins_anew(handover)
    steps = [
        look(handover, now, overlay=overlay),
        remove(handover, now) if anew else take(handover, now),
        *([meanwhile(handover)] if waits and not anew else []),
        *([clear(handover, now)] if not anew and (waits or now != "running") else []),
        deploy(handover, now, overlay=overlay),
        later(handover, overlay=overlay),
    ]
    for number, step in enumerate(steps, 1):
        yield f"### {number}. {step}"


def _summary(handover: Handover, now: State) -> Iterator[str]:
    name = operator(handover)
    match now:
        case "running" if seamless(handover.fates):
            yield (
                f"It runs now, by the {name}. **Nothing restarts**: its Pods are what etcompile"
                " renders but for labels, so that all objects can be taken over while it runs."
            )
        case "running" if begins_anew(handover):
            yield (
                f"It runs now, by the {name}. **The run cannot be taken over**: its Pods belong to"
                " Jobs and have names that end at random, and what etcompile renders are Pods with"
                " names that stay, which no Pod that exists can become. So wait until the run has"
                " ended, or end it: what is rendered is the *next* run, and begins where the"
                " program finds its last checkpoint."
            )
        case "running":
            yield (
                f"It runs now, by the {name}. The run can go on to its end without a restart: its"
                " Pods stay as the operator made them, and nobody looks after them. They cannot"
                " become what etcompile renders, because that differs in fields that a Pod may not"
                " change; so what is rendered is the *next* run."
            )
        case "ended":
            yield (
                f"Its run by the {name} has ended, so nothing restarts. **Applying what is"
                " rendered runs it again**: if that is not wanted, stop before step"
                f" {number_of_deploy(handover, now)}."
            )
        case "suspended":
            yield (
                f"It is suspended: the {name} has removed its Pods, so nothing restarts. The spec"
                " stays suspended, and renders no Pods until you change that."
            )
        case "pending":
            yield f"The {name} has not started it, so nothing restarts."
    if (tool := claims.tracker(handover.live.data)) is not None:
        yield (
            f"\n**{tool} looks after the custom resource.** Deleting it by hand is undone, and"
            " removing it from Git deletes it with its Pods, unless you follow step 2."
        )


def _table(handover: Handover, now: State) -> Iterator[str]:
    yield "| object | what becomes of it |"
    yield "|---|---|"
    for (kind, outcome, why), group in itertools.groupby(
        sorted(handover.fates, key=lambda f: (_ORDER.index(f.outcome), f.ref.kind, f.why)),
        key=lambda f: (f.ref.kind, f.outcome, f.why),
    ):
        names = [fate.ref.name for fate in group]
        meaning = (_MEANING if now == "running" else _AFTERWARDS)[outcome]
        yield f"| {kind} {shortened(names)} | {meaning}{f' ({why})' if why else ''} |"
    known = any(fate.outcome not in ("new", "kept", "left over") for fate in handover.fates)
    if not known:
        yield (
            "\nNone of its live objects was in the input, so this says only what is rendered. To"
            f" have them compared, add them:\n\n{code(*dump(handover))}"
        )


_ORDER: tuple[Outcome, ...] = tuple(_MEANING)
