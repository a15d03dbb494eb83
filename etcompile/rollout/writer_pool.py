"""Steps to threads that write them, so many at once and no more, and back to a queue as results.

The rest waits here in order, where it can be dropped: what is handed to a pool cannot.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

from msgspec import Struct

from etcompile.plan.step import Step
from etcompile.rollout.inventory import Inventories
from etcompile.rollout.writer import Writer, Written

Phase = Literal["create", "update", "delete"]


class Wrote(Struct, frozen=True):
    """A write that was carried out.

    Args:
        step: The step.
        phase: Which part of it: a replacement is a deletion and a creation.
        written: What came of it.
    """

    step: Step
    phase: Phase
    written: Written


class NotWritten(Struct, frozen=True):
    """A write that was not.

    Args:
        step: The step.
        phase: Which part of it.
        error: Why: a ClusterError, a RefusedError, or a mistake of ours.
    """

    step: Step
    phase: Phase
    error: BaseException


class WriterPool:
    """Threads that write.

    Args:
        writer: Does single steps.
        sets: The inventories, which must name an object before it is made.
        concurrency: How many writes at once.
        post: Takes the results, from any thread.
    """

    def __init__(
        self,
        writer: Writer,
        sets: Inventories,
        concurrency: int,
        post: Callable[[Wrote | NotWritten], None],
    ) -> None:
        self._writer = writer
        self._sets = sets
        self._concurrency = concurrency
        self._post = post
        self._pool = ThreadPoolExecutor(concurrency, "etcompile-write")
        self._backlog: deque[tuple[Step, Phase]] = deque()
        self.flying = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, nor waits to be."""
        return not self.flying and not self._backlog

    def add(self, step: Step, phase: Phase) -> None:
        """Takes a write on; it begins with `go_on`."""
        self._backlog.append((step, phase))

    def go_on(self) -> None:
        """Begins as many writes as may be under way."""
        while self._backlog and self.flying < self._concurrency:
            step, phase = self._backlog.popleft()
            self.flying += 1
            self._pool.submit(self._work, step, phase)

    def landed(self) -> None:
        """Takes note that the result of a write was heard."""
        self.flying -= 1

    def close(self) -> None:
        """Begins nothing more."""
        self._backlog.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, step: Step, phase: Phase) -> None:
        try:
            if step.ref.kind != "Namespace":  # the inventory itself may need it
                self._sets.widen(step.job)
            if phase == "delete":
                written = self._writer.delete(step.ref, step.uid)
            elif phase == "create":
                written = self._writer.create(step)
            else:
                written = self._writer.update(step)
        except BaseException as error:
            self._post(NotWritten(step, phase, error))
        else:
            self._post(Wrote(step, phase, written))
