"""Why a job is as it is, as one page that needs nothing else and can be sent to a colleague."""

from collections import defaultdict
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from etcompile.diagnostics.redaction import shown
from etcompile.goodput import Timeline
from etcompile.model.run_record import ranges
from etcompile.pages import page
from etcompile.status.explanation_text import (
    causes_of_node,
    failure_line,
    goodput_line,
    headline_parts,
    restarts_line,
    tail_of,
    waiting_lines,
    warned_line,
    what_followed,
    what_is_known,
)
from etcompile.status.explanations import Explanation
from etcompile.status.text import age, lasting
from etcompile.status.values import Replica

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
MOST_ROWS = 32
"""Replicas that all have a row each; of more, only those of which something is known."""
MOST_ATTEMPTS = 12
"""Attempts that have a column; the last."""
_FAULT = {"peer": "another rank's", "service": "another service's", "unknown": "not known"}


def explanation_page(why: Explanation, now: datetime, *, lines: int = 20) -> str:
    """Why a job is as it is, as an HTML document, with so many lines of what failed first."""
    title, because = headline_parts(why)
    timeline = why.status.timeline
    grid = replica_grid(why) if why.attempts or timeline is not None else None
    return page(
        "why.html.j2",
        title=title,
        because=" ".join(filter(None, (because, why.verdict))),
        goodput=" ".join(filter(None, (goodput_line(why), restarts_line(why)))),
        now=_stamp(now.timestamp()),
        first=_first(why, now, lines),
        warned=warned_line(why),
        waiting=waiting_lines(why),
        advice=why.advice,
        strip=_strip(why, timeline, now) if timeline is not None else None,
        grid=grid,
        used={outcome for row in grid.rows for outcome in row.outcomes} if grid else set(),
        signs=_SIGNS,
        attempts=_attempts(why, timeline, now),
        nodes=[
            (node, sum(causes.values()), causes_of_node(why, node, causes))
            for node, causes in why.nodes
        ],
    )


def _first(why: Explanation, now: datetime, lines: int) -> dict[str, Any] | None:
    """What failed first, in the last attempt."""
    if why.last is None:
        return None
    failure, when = why.last.first, ""
    if failure.at is not None:
        ago = age(datetime.fromtimestamp(failure.at, UTC).isoformat(), now)
        when = f"{_stamp(failure.at)}, {ago} ago"
    facts = {
        "node": failure.node or "never ran on one",
        "when": when,
        "how": shown(failure.how),
        "container": failure.container,
        "attempt": str(why.last.number + 1),
        "whose fault": _FAULT.get(failure.cause.blame, f"the {failure.cause.blame}'s"),
    }
    return {
        "title": "What failed first" if why.over else "The last failure",
        "cause": f"{failure.pod}: it {failure.cause.text}",
        "facts": facts,
        "known": what_is_known(why.last, now),
        "tail": "\n".join(tail_of(failure, lines)),
        "is_lost": not why.has_log and not why.over,
        "followed": what_followed(why.last),
    }


def _stamp(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _strip(why: Explanation, timeline: Timeline, now: datetime) -> dict[str, Any]:
    """Time from left to right: when it was in training, where attempts begin, what failed first."""
    begin = timeline.began
    end = max(timeline.attempts[-1].ended or now.timestamp(), begin + 1.0)

    def place(at: float) -> float:
        return 100.0 * (min(max(at, begin), end) - begin) / (end - begin)

    firsts = [attempt.first.at for attempt in why.attempts if attempt.first.at is not None]
    return {
        "label": f"{goodput_line(why)} The table of attempts below says the same.",
        "training": [(place(since), place(until)) for since, until in timeline.times],
        "attempts": [
            (attempt.number + 1, place(attempt.began), place(attempt.ended or end))
            for attempt in timeline.attempts
        ],
        "failures": [place(at) for at in firsts if begin <= at <= end],
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
    rows = []
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
        words = failure_line(first.first, now) if first else attempt.why if attempt else ""
        if attempt is not None and not attempt.ended:
            words = f"it goes on; last: {words}" if words else "it goes on"
        rows.append((number + 1, words, times))
    return rows


# The replicas in each attempt -------------------------------------------------------------------


class Row(Struct, frozen=True):
    """A replica, `worker 3`, or several of which the same is known, `worker 0-2,4-255`.

    Args:
        outcomes: What became of them in each attempt that has a column.
        node: Where it runs now, or failed last; empty if that is not known or they are several.
    """

    name: str
    count: int
    outcomes: tuple[Outcome, ...]
    node: str = ""


class Grid(Struct, frozen=True):
    """What became of each replica in each attempt.

    Args:
        attempts: The attempts that have a column, by number, the first of a run being 1.
        together: How many replicas share a row with others.
        earlier: How many attempts have no column.
    """

    attempts: tuple[int, ...]
    rows: tuple[Row, ...]
    together: int
    earlier: int


def replica_grid(why: Explanation) -> Grid:
    """What became of each replica in each attempt.

    Of a large job only the replicas of which something is known have a row each; the others of a
    role share one.
    """
    timeline = why.status.timeline
    numbers = {attempt.number for attempt in why.attempts}
    numbers |= {attempt.number for attempt in timeline.attempts} if timeline is not None else set()
    columns = sorted(numbers or {0})[-MOST_ATTEMPTS:]
    failed = defaultdict[tuple[str, int], dict[int, Outcome]](dict)
    nodes: dict[tuple[str, int], str] = {}
    for attempt in reversed(why.attempts):
        for failure in (*attempt.others, attempt.first):
            key = failure.role, failure.index
            is_first = failure is attempt.first or failure in attempt.tied
            failed[key][attempt.number] = "first" if is_first else "failed"
            nodes[key] = failure.node or nodes.get(key, "")
    replicas = {(replica.role, replica.index or 0): replica for replica in why.status.replicas}
    nodes |= {key: replica.node for key, replica in replicas.items() if replica.node}
    keys = [*replicas, *(key for key in failed if key not in replicas)]
    single = {role for role, _ in keys if sum(other == role for other, _ in keys) == 1}
    rows: list[Row] = []
    shared: defaultdict[tuple[str, tuple[Outcome, ...]], list[int]] = defaultdict(list)
    for role, index in keys:
        key = role, index
        outcomes = tuple(
            failed[key][number]
            if number in failed.get(key, ())
            else _outcome(replicas.get(key), is_over=why.over, is_current=number == max(columns))
            for number in columns
        )
        if len(keys) <= MOST_ROWS or key in failed or role in single:
            name = role if role in single else f"{role} {index}"
            rows.append(Row(name, 1, outcomes, nodes.get(key, "")))
        else:
            shared[role, outcomes].append(index)
    rows += [
        Row(f"{role} {ranges(indexes)}", len(indexes), outcomes)
        for (role, outcomes), indexes in shared.items()
    ]
    together = sum(row.count for row in rows if row.count > 1)
    return Grid(tuple(number + 1 for number in columns), tuple(rows), together, columns[0])


def _outcome(replica: Replica | None, *, is_over: bool, is_current: bool) -> Outcome:
    """What became of a replica in an attempt in which it is not known to have failed."""
    if replica is None or not is_current:
        return "ended"
    if replica.state == "Succeeded":
        return "done"
    return "ended" if is_over else _NOW.get(replica.state, "waiting")
