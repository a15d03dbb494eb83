"""Runs a plan until it is done or cannot go on.

One thread asks the `machine` what to do. All other threads, those that write, those that watch and
whoever interrupts, report to it through one queue. So what happens next depends only on the events
in that queue. Nothing is remembered between runs: the next run makes its plan from the cluster.
"""

import queue
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import structs

from etcompile.kubeapi.client import Cluster
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.step import ObjectRef, Plan
from etcompile.rollout.inventory import Inventories, members_left
from etcompile.rollout.machine.messages import (
    Command,
    Event,
    Find,
    Follow,
    FollowEvents,
    Interrupted,
    Lost,
    NotWritten,
    Tick,
    Vanished,
    Write,
    Wrote,
)
from etcompile.rollout.machine.outcome import Outcome, StepEvent
from etcompile.rollout.machine.reasons import ObjectState
from etcompile.rollout.machine.states import Choices
from etcompile.rollout.machine.steps import Machine
from etcompile.rollout.machine.targets import Key
from etcompile.rollout.refusals import Refusal, RefusedError, refusal
from etcompile.rollout.watches import Watches
from etcompile.rollout.writer import Mistake, Writer, WriterPool

_TICK = 0.25
"""Seconds between looks at the clock."""
_PATIENCE = 10.0
"""Seconds that requests under way may take once the rollout is stopped."""


class Rollout:
    """Does a plan, once.

    Args:
        plan: The plan, without refusals and without a ring.
        writer: Does single steps.
        sets: The ApplySets of its jobs.
        choices: How.
        tell: Is told of each change of state, from the thread that calls `run`.
        seen: How far objects were when the plan was made.
        deciding: By job, whose success is the run's (`JobObjects.deciding`).
        kept: By job, the members of its set that are not declared and stay; those that the plan
            leaves alone if None.
        last: Whether no other part of the same rollout follows.
    """

    def __init__(
        self,
        cluster: Cluster,
        plan: Plan,
        writer: Writer,
        sets: Inventories,
        choices: Choices,
        tell: Callable[[StepEvent], None],
        seen: Mapping[Key, ObjectState] | None = None,
        deciding: Mapping[str, tuple[tuple[str, ...], ...]] | None = None,
        kept: Mapping[str, Sequence[ObjectRef]] | None = None,
        *,
        last: bool = True,
    ) -> None:
        self._cluster = cluster
        self._plan = plan
        self._sets = sets
        self._tell = tell
        self._kept = members_left(plan) if kept is None else kept
        self._queue: queue.SimpleQueue[Event | Mistake] = queue.SimpleQueue()
        self._machine = Machine(
            plan, choices, cluster.namespace, seen=seen or {}, deciding=deciding or {}
        )
        self._watches = Watches(cluster, plan, self._queue.put)
        self._writers = WriterPool(writer, sets, choices.concurrency, self._queue.put)
        self._stopped_at: float | None = None
        self._is_last = last
        self._refused: list[Refusal] | None = None

    def interrupt(self) -> None:
        """Ends the rollout after the requests under way; may be called from a signal handler."""
        self._queue.put(Interrupted())

    def run(self) -> Outcome:
        """Does the plan.

        Returns:
            What came of it; nothing raises but a mistake of ours.
        """
        tick = 0.0
        try:
            self._do(self._machine.begin(time.monotonic()))
            while not self._is_over():
                self._hear()
                if time.monotonic() >= tick:  # it looks at every step that is under way
                    self._advance(Tick())
                    tick = time.monotonic() + _TICK
                self._be_patient()
                if self._machine.is_written and self._writers.idle:
                    self._narrow()  # it may take days until all is ready
            self._narrow()
            # Events say what objects wait for that do not say it themselves.
            asks = self._machine.can_ask and self._is_patient()
            warnings = self._watches.warnings(self._machine.vague) if asks else {}
            return self._machine.outcome(warnings, self._refused or ())
        finally:
            self._watches.close()
            self._writers.close()

    def _is_over(self) -> bool:
        if self._machine.stopping:
            return not self._writers.flying
        return self._writers.idle and self._machine.settled

    def _hear(self) -> None:
        """Hears what there is to hear, for which it waits a moment."""
        try:
            event = self._queue.get(timeout=_TICK)
            while True:
                if isinstance(event, Mistake):
                    raise event.error
                if isinstance(event, Wrote | NotWritten):
                    self._writers.landed()
                self._advance(event)
                event = self._queue.get_nowait()
        except queue.Empty:
            return

    def _advance(self, event: Event) -> None:
        self._do(self._machine.advance(event, time.monotonic()))

    def _do(self, commands: Sequence[Command]) -> None:
        answers: list[Event] = []
        for command in commands:
            match command:
                case Write():
                    self._writers.add(command)
                case StepEvent():
                    self._tell(structs.replace(command, moment=time.time()))
                case FollowEvents(namespace):
                    self._watches.follow_events(namespace)
                case Follow():
                    answers += self._follow(command)
                case Find():
                    answers += self._find(command)
        for answer in answers:
            self._advance(answer)
        if not self._machine.stopping:
            self._writers.go_on()

    def _follow(self, command: Follow) -> Iterator[Event]:
        try:
            if command.step is None:
                self._watches.follow(command.ref)
            else:
                self._watches.follow_object(command.ref, command.labels)
        except ClusterError as error:
            yield Lost(command.ref, error, command.step)

    def _find(self, command: Find) -> Iterator[Event]:
        try:
            if not self._watches.is_there(command.step.ref, command.uid):
                yield Vanished(command.step)
        except ClusterError as error:
            yield Lost(command.step.ref, error)

    # ---- the end --------------------------------------------------------------------------------

    def _be_patient(self) -> None:
        """Ends requests that are refused again and again, a while after the rollout was stopped."""
        if self._machine.stopping:
            self._stopped_at = self._stopped_at or time.monotonic()
            if not self._is_patient():
                self._cluster.close()

    def _is_patient(self) -> bool:
        return self._stopped_at is None or time.monotonic() - self._stopped_at <= _PATIENCE

    def _narrow(self) -> None:
        """Lets the inventories name what is there, of jobs all of whose steps are done."""
        if self._machine.is_broken_off or not self._is_last or self._refused is not None:
            return
        self._refused = []
        left = {step.job for step in self._machine.left()}
        for job in dict.fromkeys(step.job for step in self._plan.steps):
            if job is None or job in left:
                continue
            try:
                self._sets.narrow(job, self._kept.get(job, ()))
            except RefusedError as error:
                self._refused.append(error.refusal)
            except ClusterError as error:
                self._refused.append(refusal(self._sets.parent(job), error))
