"""Decides which steps of a plan can begin, given those that are done.

A step lists in `after` only what it needs for a reason of its own. Waves are added here, and each
wave is a single point that all of its steps lead to: a thousand Pods that wait for a thousand
Services would be a million pairs.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from etcompile.plan.step import MAKES, REMOVES, Step

_IDLE = frozenset({"unchanged", "unmanaged"})
_AFTER_IDENTITY = 0
"""The first wave after that of accounts and keys, which no run has to itself."""
_POINT = "\0"
"""What the name of a point starts with, and no step's id."""


class Schedule:
    """Hands out the steps of a plan, each once what it waits for is done.

    Not for several threads at once: one thread asks and tells.

    Args:
        steps: The steps of a plan, without a ring. Those with nothing to do are never handed out.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = {step.id: step for step in steps if step.action not in _IDLE}
        self._left = len(self._steps)
        self._sorter = _sorter(self._steps)
        self._sorter.prepare()

    def ready(self) -> Iterator[Step]:
        """The steps that can begin now and were not handed out before."""
        while self._left and (found := self._sorter.get_ready()):
            points = [name for name in found if name.startswith(_POINT)]
            for name in found:
                if not name.startswith(_POINT):
                    yield self._steps[name]
            # A point is done when it is reached, and then more may be ready.
            self._sorter.done(*points)

    def done(self, step: Step) -> None:
        """Tells that a step is done, so that others can begin. One that has failed never is."""
        self._sorter.done(step.id)
        self._left -= 1

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return not self._left


def ring(steps: Iterable[Step]) -> str | None:
    """Steps that wait for each other, told as a sentence; None if there are none."""
    found = {step.id: step for step in steps if step.action not in _IDLE}
    try:
        _sorter(found).prepare()
    except CycleError as error:
        # graphlib names them from what is waited for to who waits.
        first, *others = [name.removeprefix(_POINT) for name in reversed(error.args[1])]
        return f"{first} waits for {', which waits for '.join(others)}"
    return None


def turns(steps: Iterable[Step]) -> dict[str, int]:
    """The turn of each step with something to do, by its id, from 0: those of one need not wait.

    Args:
        steps: Steps without a ring.
    """
    handed = Schedule(steps)
    found: dict[str, int] = {}
    number = 0
    while ready := list(handed.ready()):
        found |= dict.fromkeys((step.id for step in ready), number)
        for step in ready:
            handed.done(step)
        number += 1
    return found


def in_turn(steps: Iterable[Step]) -> list[Step]:
    """The steps in an order in which they can be done one by one, else as they are given.

    Args:
        steps: Steps without a ring. Those with nothing to do come last.
    """
    given = list(steps)
    order = turns(given)
    return sorted(given, key=lambda step: order.get(step.id, len(order)))


def _sorter(steps: dict[str, Step]) -> TopologicalSorter[str]:
    sorter: TopologicalSorter[str] = TopologicalSorter()
    making: dict[str | None, dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
    leaving: dict[str | None, dict[int, list[Step]]] = defaultdict(lambda: defaultdict(list))
    rooms: set[str] = set()
    filled: dict[str, set[str | None]] = {}
    for step in steps.values():
        sorter.add(step.id, *(name for name in step.after if name in steps))
        if step.makes_room:
            rooms.add(step.ref.namespace)
            sorter.add(_room_point(step.ref.namespace), step.id)
        elif step.action != "wait":
            side = leaving if step.action in REMOVES else making
            side[step.job][step.wave].append(step)
            if step.action == "create" and step.ref.kind in ("Job", "Pod"):
                filled.setdefault(step.ref.namespace, set()).add(step.job)
    # A run that goes to make room has gone before any Service or host list is the next run's.
    for step in steps.values() if rooms else ():
        where = step.ref.namespace
        is_made = step.action in MAKES and step.wave >= _AFTER_IDENTITY
        if is_made and step.job in filled.get(where, ()):
            # An object that names no namespace is in the plan's own, which may be any of them.
            sorter.add(
                step.id,
                *(_room_point(namespace) for namespace in rooms if where in ("", namespace)),
            )
    everything = f"{_POINT}all that is made"
    shared = sorted(making.get(None, ()))
    for job, waves in making.items():
        before: list[str] = []
        for wave in sorted(waves):
            # Objects of no job, such as a Namespace, are there for all jobs.
            earlier = [
                _wave_point(None, number) for number in shared if job is not None and number < wave
            ][-1:]
            for step in waves[wave]:
                sorter.add(step.id, *before, *earlier)
            point = _wave_point(job, wave)
            sorter.add(point, *before, *(step.id for step in waves[wave]))
            before = [point]
        sorter.add(everything, *before)
    for job, waves in leaving.items():
        own = making.get(job) if job is not None else None
        before = [_wave_point(job, max(own))] if own else [everything]
        for wave in sorted(waves, reverse=True):
            for step in waves[wave]:
                sorter.add(step.id, *before)
            point = f"{_POINT}the deletion of wave {wave}{_of(job)}"
            sorter.add(point, *before, *(step.id for step in waves[wave]))
            before = [point]
    return sorter


def _room_point(namespace: str) -> str:
    return f"{_POINT}room in the namespace {namespace}"


def _wave_point(job: str | None, wave: int) -> str:
    return f"{_POINT}wave {wave}{_of(job)}"


def _of(job: str | None) -> str:
    return f" of job {job}" if job else ""
