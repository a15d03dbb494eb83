"""Run a plan until it is done or cannot go on.

One thread asks the `machine` what to do. All other threads, those that write, watch or interrupt,
report to it through one queue. So what happens next depends only on the events in that queue.
Nothing is remembered between runs: the next run makes its plan from the cluster.
"""

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import structs

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import Plan
from etcompile.rollout.inventory import Inventories
from etcompile.rollout.machine.messages import (
    Choices,
    Command,
    Event,
    Follow,
    FollowNotes,
    Interrupted,
    Lost,
    NotWritten,
    Outcome,
    Proposal,
    Relist,
    StepEvent,
    Tick,
    Write,
    Wrote,
)
from etcompile.rollout.machine.steps import Machine
from etcompile.rollout.refusals import Refusal, RefusedError, refusal
from etcompile.rollout.watches import Watches
from etcompile.rollout.writer import Writer

_TICK = 0.25
"""Seconds between looks at the clock."""
_PATIENCE = 10.0
"""Seconds that requests under way may take once the rollout is stopped."""


class Rollout:
    """One run of a part of a proposal.

    Args:
        part: The part of the proposal to do now, of those in `before` and its `plan`.
        tell: Is called for each change of state, from the thread that calls `run`.
    """

    def __init__(
        self,
        cluster: Cluster,
        proposal: Proposal,
        part: Plan,
        writer: Writer,
        sets: Inventories,
        choices: Choices,
        tell: Callable[[StepEvent], None],
    ) -> None:
        self._cluster = cluster
        self._plan = part
        self._is_last = part is proposal.plan
        self._sets = sets
        self._tell = tell
        self._queue: queue.SimpleQueue[Event | BaseException] = queue.SimpleQueue()
        jobs = proposal.jobs
        if not self._is_last:  # its jobs' records are those of the run before
            jobs = {job: structs.replace(each, runs=frozenset()) for job, each in jobs.items()}
        self._machine = Machine(
            part,
            choices,
            cluster.namespace,
            jobs,
            proposal.states,
            ahead=cluster.now() - time.monotonic(),
        )
        self._watches = Watches(cluster, part, self._queue.put)
        self._writer = writer
        self._concurrency = choices.concurrency
        # A queue and threads of our own: a pool makes a Future for each of thousands of writes.
        self._writes: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._writers = 0
        self._backlog: deque[Write] = deque()
        self._under_way = 0
        """Writes whose result did not come yet."""
        self._refused: list[Refusal] | None = None

    def interrupt(self) -> None:
        """End the rollout after the requests under way; may be called from a signal handler."""
        self._queue.put(Interrupted())

    def run(self) -> Outcome:
        tick, stopped_at = 0.0, 0.0
        machine = self._machine
        try:
            self._do(machine.begin(time.monotonic()))
            while self._under_way or not (
                machine.stopping or (machine.settled and not self._backlog)
            ):
                with suppress(queue.Empty):
                    event = self._queue.get(timeout=_TICK)
                    while True:
                        if isinstance(event, BaseException):
                            raise event  # a mistake of ours
                        if isinstance(event, Wrote | NotWritten):
                            self._under_way -= 1
                        self._do(machine.advance(event, time.monotonic()))
                        event = self._queue.get_nowait()
                if time.monotonic() >= tick:  # it looks at every step that is under way
                    self._do(machine.advance(Tick(), time.monotonic()))
                    tick = time.monotonic() + _TICK
                if machine.stopping:
                    stopped_at = stopped_at or time.monotonic()
                    if time.monotonic() - stopped_at > _PATIENCE:
                        self._cluster.close()  # requests may be refused again and again
                if machine.is_written and not self._under_way and not self._backlog:
                    self._narrow()  # it may take days until all is ready
            self._narrow()
            return machine.outcome(self._refused or ())
        finally:
            self._watches.close()
            for _ in range(self._writers):
                self._writes.put(None)

    def _do(self, commands: Sequence[Command]) -> None:
        answers: list[Event] = []
        for command in commands:
            match command:
                case Write():
                    self._backlog.append(command)
                case StepEvent():
                    self._tell(structs.replace(command, moment=time.time()))
                case FollowNotes(kind, namespace):
                    self._watches.follow_notes(kind, namespace)
                case Relist():
                    self._watches.relist()
                case Follow(ref, step, labels):
                    try:
                        self._watches.follow(ref, labels)
                    except ClusterError as error:
                        answers.append(Lost(ref, error, step))
        for answer in answers:
            self._do(self._machine.advance(answer, time.monotonic()))
        while self._backlog and self._under_way < self._concurrency and not self._machine.stopping:
            self._under_way += 1
            self._writes.put(self._backlog.popleft())
            if self._writers < self._under_way:
                self._writers += 1
                threading.Thread(target=self._work, name="etcompile-write", daemon=True).start()

    def _work(self) -> None:
        """Do the writes of the queue, one after the other, until it says that there are no more."""
        while write := self._writes.get():
            step, phase = write.step, write.phase
            is_counted = False
            try:
                if step.ref.kind != "Namespace":  # the inventory itself may need it
                    self._sets.widen(step.job)
                    # Other actions may have changed something before they were refused.
                    is_counted = step.action in ("create", "update")
                if phase == "delete":
                    written = self._writer.delete(step.ref, step.uid)
                elif phase == "create":
                    written = self._writer.create(step)
                else:
                    written = self._writer.update(step)
            except (ClusterError, RefusedError) as error:
                if is_counted and not getattr(error, "uncertain", False):
                    self._sets.refused(step.job)
                self._queue.put(NotWritten(step, phase, error))
            except BaseException as error:
                self._queue.put(error)
            else:
                self._queue.put(Wrote(step, phase, written))

    def _narrow(self) -> None:
        if self._machine.is_broken_off or not self._is_last or self._refused is not None:
            return
        self._refused = []
        left = {step.job for step in self._machine.left()}
        for job in dict.fromkeys(step.job for step in self._plan.steps):
            if job is None or job in left:
                continue
            try:
                self._sets.narrow(job)
            except RefusedError as error:
                self._refused.append(error.refusal)
            except ClusterError as error:
                self._refused.append(refusal(self._sets.parent(job), error))
