"""Why a job is as it is, as one page that needs nothing else and can be sent to a colleague."""

from datetime import UTC, datetime
from typing import Any

from etcompile.diagnostics.redaction import shown
from etcompile.goodput import Timeline
from etcompile.pages import page
from etcompile.status.text import age, lasting
from etcompile.status.why.explanation import Explanation
from etcompile.status.why.replica_grid import Grid, Outcome, replica_grid
from etcompile.status.why.text import (
    goodput_line,
    headline_parts,
    of_what,
    restarts_line,
    tail_of,
    told,
    waiting_lines,
    warned_line,
    what_followed,
)

_SIGNS: dict[Outcome, tuple[str, str]] = {
    "first": ("1st", "failed first"),
    "failed": ("\N{MULTIPLICATION SIGN}", "failed after another one"),
    "ended": ("\N{MIDDLE DOT}", "ended with the attempt; nothing else is known"),
    "ready": ("\N{CHECK MARK}", "is ready"),
    "waiting": ("\N{HORIZONTAL ELLIPSIS}", "is not ready yet"),
    "done": ("\N{WHITE SQUARE}", "has succeeded"),
}
_WIDE_ENOUGH = 5.0
"""Percent of the width in which the number of an attempt can be read."""


_FAULT = {
    "program": "the program's",
    "platform": "the platform's",
    "node": "the node's",
    "peer": "another rank's",
    "unknown": "not known",
}


def explanation_page(why: Explanation, now: datetime, *, lines: int = 20) -> str:
    """Why a job is as it is, as an HTML document.

    Args:
        why: What is to be told.
        now: What ages count to.
        lines: So many of the last lines of what failed first are shown.
    """
    title, because = headline_parts(why)
    timeline = why.status.timeline
    grid = replica_grid(why) if why.attempts or timeline is not None else None
    return page(
        "why.html.j2",
        title=title,
        because=because,
        goodput=" ".join(filter(None, (goodput_line(why), restarts_line(why)))),
        now=_stamp(now.timestamp()),
        first=_first(why, now, lines),
        warned=warned_line(why),
        waiting=waiting_lines(why),
        advice=why.advice,
        strip=_strip(why, timeline, now) if timeline is not None else None,
        grid=grid,
        left_out=_left_out(grid) if grid else "",
        used={outcome for row in grid.rows for outcome in row.outcomes} if grid else set(),
        signs=_SIGNS,
        attempts=_attempts(why, timeline, now),
        nodes=[
            (node, sum(causes.values()), of_what(why, node, causes)) for node, causes in why.nodes
        ],
    )


def _first(why: Explanation, now: datetime, lines: int) -> dict[str, Any] | None:
    """What failed first, in the last attempt."""
    if why.last is None:
        return None
    failure = why.last.first
    facts = {
        "node": failure.node or "never ran on one",
        "when": f"{_stamp(failure.at)}, {_ago(failure.at, now)} ago" if failure.at else "",
        "how": shown(failure.how),
        "container": failure.container,
        "attempt": str(why.last.number + 1),
        "whose fault": _FAULT.get(failure.cause.blame, failure.cause.blame),
    }
    return {
        "title": "What failed first" if why.over else "The last failure",
        "cause": f"{failure.pod}: it {failure.cause.text}",
        "facts": facts,
        "tail": "\n".join(tail_of(failure, lines)),
        "is_lost": not why.kept and not why.over,
        "followed": what_followed(why.last),
    }


def _stamp(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _ago(at: float, now: datetime) -> str:
    return age(datetime.fromtimestamp(at, UTC).isoformat(), now)


def _strip(why: Explanation, timeline: Timeline, now: datetime) -> dict[str, Any]:
    """Time from left to right: when it was in training, where attempts begin, what failed first."""
    begin = timeline.began
    end = max(timeline.attempts[-1].ended or now.timestamp(), begin + 1.0)

    def place(at: float) -> float:
        return 100.0 * (min(max(at, begin), end) - begin) / (end - begin)

    spans = [
        (attempt.number, place(attempt.began), place(attempt.ended or end))
        for attempt in timeline.attempts
    ]
    return {
        "label": f"{goodput_line(why)} The table of attempts below says the same.",
        "training": [
            (f"{place(since):.2f}", f"{max(0.1, place(until) - place(since)):.2f}")
            for since, until in timeline.times
        ],
        "begins": [f"{at:.2f}" for _, at, _ in spans[1:]],
        "numbers": [
            (f"{(at + until) / 2:.2f}", number + 1)
            for number, at, until in spans
            if until - at >= _WIDE_ENOUGH
        ],
        "failures": [
            f"{place(failed.first.at):.2f}"
            for failed in why.attempts
            if begin <= failed.first.at <= end
        ],
        "began": _stamp(begin),
        "ended": _stamp(end),
        "before": lasting(timeline.before) if timeline.before else "",
    }


def _attempts(
    why: Explanation, timeline: Timeline | None, now: datetime
) -> list[tuple[int, str, tuple[str, ...]]]:
    """The number of each attempt, what ended it, and how long it lasted, the newest first."""
    known = {attempt.number: attempt for attempt in timeline.attempts} if timeline else {}
    firsts = {attempt.number: attempt for attempt in why.attempts}
    found = []
    for number in sorted({*known, *firsts}, reverse=True):
        attempt, first = known.get(number), firsts.get(number)
        times: tuple[str, ...] = ("", "", "")
        if attempt is not None and timeline is not None:
            end = attempt.ended or now.timestamp()
            trained = sum(
                max(0.0, min(until, end) - max(since, attempt.began))
                for since, until in timeline.times
            )
            began = _stamp(attempt.began).removesuffix(" UTC")
            times = (lasting(max(0.0, end - attempt.began)), lasting(trained), began)
        words = told(first.first, now) if first is not None else attempt.why if attempt else ""
        if attempt is not None and not attempt.ended:
            words = f"it goes on; last: {words}" if words else "it goes on"
        found.append((number + 1, words, times))
    return found


def _left_out(grid: Grid) -> str:
    """What has no row and no column of its own."""
    parts = []
    if grid.together:
        parts.append(
            f"Replicas of which a failure is kept have a row each; the other {grid.together} "
            "share a row with those of their role of which the same is known."
        )
    if grid.earlier == 1:
        parts.append("The first attempt is not drawn.")
    elif grid.earlier:
        parts.append(f"The first {grid.earlier} attempts are not drawn.")
    return " ".join(parts)
