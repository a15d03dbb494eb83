"""Boxes and arrows to places on a page: a layered layout.

Boxes stand in columns in the order in which they are applied, so every arrow that waits points
to the left. An arrow that passes a column gets a lane in it, so that it runs between boxes and
not behind them; lanes to one target are shared. Inside columns, boxes are ordered and then
moved to where their neighbours are.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from msgspec import Struct

_SWEEPS = 6
_BOX = -1

Item = tuple[int, int]
"""A box, `(box, -1)`, or the lane of the arrows to a box in a column, `(box, column)`."""


class Layout(Struct, frozen=True):
    """Where everything is.

    Args:
        centres: The vertical centre of each box.
        lanes: The vertical centre of each lane: by target and column.
        height: The height of it all.
    """

    centres: Mapping[int, float]
    lanes: Mapping[tuple[int, int], float]
    height: float


def depths(boxes: Sequence[int], arrows: Sequence[tuple[int, int]]) -> dict[int, int]:
    """How many boxes each has to wait for in a row; an arrow leads to what is waited for."""
    ahead: dict[int, list[int]] = defaultdict(list)
    waiting = dict.fromkeys(boxes, 0)
    for source, target in arrows:
        if source in waiting and target in waiting and source != target:
            ahead[target].append(source)
            waiting[source] += 1
    found = {box: 0 for box in boxes if not waiting[box]}
    ready = list(found)
    for box in ready:
        for other in ahead[box]:
            found[other] = max(found.get(other, 0), found[box] + 1)
            waiting[other] -= 1
            if not waiting[other]:
                ready.append(other)
    # What is left goes round in a ring; it stands where it can.
    return {box: found.get(box, 0) for box in boxes}


def layout(
    columns: Mapping[int, int],
    arrows: Sequence[tuple[int, int]],
    *,
    box: float,
    lane: float,
    gap: float,
) -> Layout:
    """The vertical places of boxes and lanes.

    Args:
        columns: The column of each box, from 0.
        arrows: Pairs of boxes.
        box: The height of a box.
        lane: The height of a lane.
        gap: The least space between two of them.
    """
    filled: dict[int, dict[Item, None]] = defaultdict(dict)
    for node, column in columns.items():
        filled[column][node, _BOX] = None
    near: dict[Item, set[Item]] = defaultdict(set)
    for source, target in arrows:
        before: Item = (target, _BOX)
        for column in range(columns[target] + 1, columns[source]):
            filled[column][target, column] = None
            near[before].add((target, column))
            near[target, column].add(before)
            before = (target, column)
        near[before].add((source, _BOX))
        near[source, _BOX].add(before)

    def room(item: Item) -> float:
        return (box if item[1] == _BOX else lane) + gap

    stacks = [list(filled[column]) for column in sorted(filled)]
    height = max(sum(map(room, stack)) for stack in stacks)
    centres: dict[Item, float] = {}
    for stack in stacks:
        middle = dict.fromkeys(stack, height / 2)
        centres |= _settled(stack, middle, room, height)
    for sweep in range(_SWEEPS):
        for stack in stacks if sweep % 2 else reversed(stacks):
            wanted = {
                item: fmean(centres[other] for other in sorted(near[item]))
                if near[item]
                else centres[item]
                for item in stack
            }
            stack.sort(key=wanted.__getitem__)
            centres |= _settled(stack, wanted, room, height)
    return Layout(
        {node: centre for (node, column), centre in centres.items() if column == _BOX},
        {item: centre for item, centre in centres.items() if item[1] != _BOX},
        height,
    )


def _settled(
    stack: Sequence[Item],
    wanted: Mapping[Item, float],
    room: Callable[[Item], float],
    height: float,
) -> dict[Item, float]:
    """Centres as near as can be to the wanted ones, in the given order, without overlap.

    Neighbours that want the same place form a block, which goes where its items want to be on
    average; blocks that meet become one.
    """
    if not stack:
        return {}
    offsets = [0.0]
    for above, below in pairwise(stack):
        offsets.append(offsets[-1] + (room(above) + room(below)) / 2)
    blocks: list[tuple[float, int]] = []
    for item, offset in zip(stack, offsets, strict=True):
        start, length = wanted[item] - offset, 1
        while blocks and blocks[-1][0] >= start:
            other, count = blocks.pop()
            start = (other * count + start * length) / (count + length)
            length += count
        blocks.append((start, length))
    low = room(stack[0]) / 2
    high = height - room(stack[-1]) / 2 - offsets[-1]
    starts = (max(low, min(start, high)) for start, length in blocks for _ in range(length))
    return {
        item: start + offset for item, start, offset in zip(stack, starts, offsets, strict=True)
    }
