"""Steps to threads that write them, so many at once and no more, and back to a queue as results.

The rest waits here in order, where it can be dropped: what is handed to a pool cannot.
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from etcompile.kubeapi.errors import ClusterError
from etcompile.rollout.inventory import Inventories
from etcompile.rollout.messages import NotWritten, Write, Wrote
from etcompile.rollout.outcome import RefusedError
from etcompile.rollout.writer import Writer


class Mistake(Struct, frozen=True):
    """A mistake of ours that ended a write; it is raised again where the rollout is run."""

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
        post: Callable[[Wrote | NotWritten | Mistake], None],
    ) -> None:
        self._writer = writer
        self._sets = sets
        self._concurrency = concurrency
        self._post = post
        self._pool = ThreadPoolExecutor(concurrency, "etcompile-write")
        self._backlog: deque[Write] = deque()
        self.flying = 0

    @property
    def idle(self) -> bool:
        """Whether nothing is under way, nor waits to be."""
        return not self.flying and not self._backlog

    def add(self, write: Write) -> None:
        """Takes a write on; it begins with `go_on`."""
        self._backlog.append(write)

    def go_on(self) -> None:
        """Begins as many writes as may be under way."""
        while self._backlog and self.flying < self._concurrency:
            self.flying += 1
            self._pool.submit(self._work, self._backlog.popleft())

    def landed(self) -> None:
        """Takes note that the result of a write was heard."""
        self.flying -= 1

    def close(self) -> None:
        """Begins nothing more."""
        self._backlog.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, write: Write) -> None:
        step = write.step
        try:
            if step.ref.kind != "Namespace":  # the inventory itself may need it
                self._sets.widen(step.job)
            if write.phase == "delete":
                written = self._writer.delete(step.ref, step.uid)
            elif write.phase == "create":
                written = self._writer.create(step)
            else:
                written = self._writer.update(step)
        except (ClusterError, RefusedError) as error:
            self._post(NotWritten(step, write.phase, error))
        except BaseException as error:
            self._post(Mistake(error))
        else:
            self._post(Wrote(step, write.phase, written))
