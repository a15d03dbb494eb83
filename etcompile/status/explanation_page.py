"""Why a job is as it is, as one page that needs nothing else and can be sent to a colleague."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Literal

from etcompile.model.run_record import ranges
from etcompile.pages import page
from etcompile.status.explanation_text import LINES, facts, headline, sections
from etcompile.status.explanations import Explanation
from etcompile.status.text import in_training, lasting

Outcome = Literal["first", "failed", "ended", "ready", "waiting", "done"]
_SIGNS: dict[Outcome, tuple[str, str]] = {
    "first": ("1st", "failed first"),
    "failed": ("\N{MULTIPLICATION SIGN}", "failed after another one"),
    "ended": ("\N{MIDDLE DOT}", "ended with the attempt; nothing else is known"),
    "ready": ("\N{CHECK MARK}", "is ready"),
    "waiting": ("\N{HORIZONTAL ELLIPSIS}", "is not ready yet"),
    "done": ("\N{WHITE SQUARE}", "has succeeded"),
}
_NOW: dict[str, Outcome] = {"Ready": "ready", "Succeeded": "done"}
MOST_ATTEMPTS = 12
"""Attempts that have a column; the last."""


def explanation_page(why: Explanation, now: datetime, *, lines: int = LINES) -> str:
    """Why a job is as it is, as an HTML document, with so many lines of what failed first."""
    title, because = headline(why)
    timeline, goodput = why.status.timeline, why.status.goodput
    columns, rows = replica_grid(why)
    ended = timeline.attempts[-1].ended if timeline is not None else 0.0
    return page(
        "why.html.j2",
        title=title,
        because=because,
        facts=facts(why),
        now=now.timestamp(),
        stamp=lambda at: f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC",
        sections=sections(why, now, lines),
        timeline=timeline,
        end=max(ended or now.timestamp(), timeline.began + 1.0) if timeline is not None else 0.0,
        label=in_training(goodput) if goodput is not None else "",
        before=lasting(timeline.before) if timeline is not None and timeline.before else "",
        failures=[at for attempt in why.attempts if (at := attempt.first.at) is not None],
        columns=columns,
        rows=rows,
        signs=_SIGNS,
    )


def replica_grid(why: Explanation) -> tuple[list[int], list[tuple[str, int, list[Outcome]]]]:
    """What became of each replica in each attempt; those of a role with the same history share.

    Returns:
        The attempts that have a column, the first of a run being 1; and for each row its name,
        `worker 0-2,4-255`, the number of its replicas, and what became of them in each column.
    """
    known = why.status.timeline.attempts if why.status.timeline is not None else ()
    numbers = {*(attempt.number for attempt in why.attempts), *(past.number for past in known)}
    columns = sorted(numbers)[-MOST_ATTEMPTS:]
    if not columns:
        return [], []
    outcomes: defaultdict[tuple[str, int], dict[int, Outcome]]
    outcomes = defaultdict(lambda: dict.fromkeys(columns, "ended"))
    for replica in why.status.replicas:
        of_replica = outcomes[replica.role, replica.index or 0]
        if not why.over or replica.state == "Succeeded":
            of_replica[columns[-1]] = _NOW.get(replica.state, "waiting")
    for attempt in why.attempts:
        for failure in (*attempt.others, attempt.first):
            is_first = failure is attempt.first or failure in attempt.tied
            of_replica = outcomes[failure.role, failure.index]
            of_replica[attempt.number] = "first" if is_first else "failed"
    shared: defaultdict[tuple[str, tuple[Outcome, ...]], list[int]] = defaultdict(list)
    for (role, index), of_replica in outcomes.items():
        shared[role, tuple(of_replica[number] for number in columns)].append(index)
    rows = [
        (f"{role} {ranges(indexes)}", len(indexes), [*history])
        for (role, history), indexes in shared.items()
    ]
    return [number + 1 for number in columns], rows
