"""What became of each replica in each attempt: the rows and columns of the picture of a page.

Apart from the page because it is a function from an explanation to values. Of a large job only the
replicas of which something is known have a row each; the others of a role share one.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from etcompile.model.run_record import ranges
from etcompile.status.values import Replica
from etcompile.status.why.explanation import Explanation

MOST_ROWS = 32
"""Replicas that all have a row each; of more, only those of which something is known."""
MOST_ATTEMPTS = 12
"""Attempts that have a column; the last."""

Outcome = Literal["first", "failed", "ended", "ready", "waiting", "done"]
"""It failed first; it failed after another one; the attempt ended, and nothing else is known of it;
it is ready; it is not ready yet; it has succeeded."""


class Row(Struct, frozen=True):
    """A replica, or several of a role of which the same is known.

    Args:
        name: What they are called: `worker 3`, or `worker 0-2,4-255`.
        count: How many they are.
        outcomes: What became of them in each attempt that has a column.
        node: Where it runs now, or failed last; empty if that is not known or they are several.
    """

    name: str
    count: int
    outcomes: tuple[Outcome, ...]
    node: str = ""


class Grid(Struct, frozen=True):
    """The picture.

    Args:
        attempts: The attempts that have a column, by number, the first of a run being 1.
        rows: The replicas, those apart that share a row.
        together: How many replicas share a row with others.
        earlier: How many attempts have no column.
    """

    attempts: tuple[int, ...]
    rows: tuple[Row, ...]
    together: int = 0
    earlier: int = 0


_NOW: dict[str, Outcome] = {"Ready": "ready", "Succeeded": "done"}


def replica_grid(why: Explanation) -> Grid:
    """What became of each replica in each attempt."""
    told = defaultdict[tuple[str, int], dict[int, Outcome]](dict)
    nodes: dict[tuple[str, int], str] = {}
    numbers = {attempt.number for attempt in why.attempts}
    if why.status.timeline is not None:
        numbers |= {attempt.number for attempt in why.status.timeline.attempts}
    current = max(numbers, default=0)
    for attempt in reversed(why.attempts):
        for failure in (*attempt.others, attempt.first):
            key = failure.role, failure.index
            told[key][attempt.number] = "first" if failure is attempt.first else "failed"
            nodes[key] = failure.node or nodes.get(key, "")
    columns = sorted(numbers or {0})[-MOST_ATTEMPTS:]
    replicas = {(replica.role, replica.index or 0): replica for replica in why.status.replicas}
    keys = [*replicas, *(key for key in told if key not in replicas)]
    rows: list[tuple[tuple[str, int], tuple[Outcome, ...]]] = [
        (key, tuple(_outcomes(told.get(key, {}), columns, current, replicas.get(key), why.over)))
        for key in keys
    ]
    nodes |= {key: replica.node for key, replica in replicas.items() if replica.node}
    apart = len(rows) <= MOST_ROWS
    single = {role for role, _ in keys if sum(other == role for other, _ in keys) == 1}
    found = [*_rows(rows, nodes, single, {*told}, apart=apart)]
    return Grid(
        tuple(number + 1 for number in columns),
        tuple(found),
        sum(row.count for row in found if row.count > 1),
        columns[0] if columns else 0,
    )


def _outcomes(
    told: dict[int, Outcome],
    columns: Sequence[int],
    current: int,
    replica: Replica | None,
    over: bool,  # noqa: FBT001 - of the run, as `Explanation.over` is
) -> Iterator[Outcome]:
    for number in columns:
        if number in told:
            yield told[number]
        elif replica is not None and replica.state == "Succeeded" and number == current:
            yield "done"
        elif number < current or over or replica is None:
            yield "ended"
        else:
            yield _NOW.get(replica.state, "waiting")


def _rows(
    rows: Sequence[tuple[tuple[str, int], tuple[Outcome, ...]]],
    nodes: dict[tuple[str, int], str],
    single: set[str],
    told: set[tuple[str, int]],
    *,
    apart: bool,
) -> Iterator[Row]:
    """A row for each replica of which something is known; the others of a role together."""
    together: defaultdict[tuple[str, tuple[Outcome, ...]], list[int]] = defaultdict(list)
    for (role, index), outcomes in rows:
        if apart or (role, index) in told or role in single:
            name = role if role in single else f"{role} {index}"
            yield Row(name, 1, outcomes, nodes.get((role, index), ""))
        else:
            together[role, outcomes].append(index)
    for (role, outcomes), indexes in together.items():
        yield Row(f"{role} {ranges(indexes)}", len(indexes), outcomes)
