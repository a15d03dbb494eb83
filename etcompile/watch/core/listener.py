"""The interface between the core and optional features: values in the core's own words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field, structs

from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import RunRecord
from etcompile.watch.core.actions import Action, Note
from etcompile.watch.core.placement import Placement, Replica
from etcompile.watch.core.view import JobView


class End(Struct, frozen=True):
    """How a run ends.

    Args:
        final: No restart helps.
        again: The job is restarted instead.
        loss: The replica that it failed for, if it was one.
    """

    reason: str
    message: str
    succeeded: bool = False
    final: bool = False
    again: bool = False
    loss: Replica | None = None


class Restart(Struct, frozen=True):
    """A restart of all replicas together; `counted` among the restarts of the run."""

    message: str
    counted: bool = True


class Before(Struct, frozen=True):
    """What listeners know before the core decides about a run that is not over.

    Args:
        record: The run record, with what they have learned.
        actions: Dropped if the run ends.
        lost: The UIDs of Pods that run but count as lost.
        until: No Pod of a joint restart is created before that time, in seconds since 1970.
        facts: For other listeners, by a name.
    """

    record: RunRecord
    actions: tuple[Action, ...] = ()
    lost: frozenset[str] = frozenset()
    restart: Restart | None = None
    end: End | None = None
    until: float = 0.0
    facts: Mapping[str, Any] = {}

    def adding(
        self, *, actions: Sequence[Action] = (), facts: Mapping[str, Any] = {}, **changes: Any
    ) -> "Before":
        """Return it with more actions and facts, and other fields as given."""
        return structs.replace(
            self,
            actions=(*self.actions, *actions),
            facts={**self.facts, **facts} if facts else self.facts,
            **changes,
        )


class Outcome(Struct, frozen=True):
    """A decision of the core, to which listeners add.

    Args:
        before: None if the run is over or suspended.
        previous: The run record from before anything was learned or decided.
        notes: Keys of `J-status`, besides the record.
    """

    placement: Placement
    now: float
    previous: RunRecord
    record: RunRecord
    actions: tuple[Action, ...]
    losses: tuple[Replica, ...] = ()
    before: Before | None = None
    notes: Mapping[str, Note] = field(default_factory=dict)
    facts: Mapping[str, Any] = {}

    @property
    def view(self) -> JobView:
        """What is known of the job."""
        return self.placement.view


def _observe(state: PodState, _pod: Object, _before: PodState | None) -> PodState:
    return state


def _before(_placement: Placement, before: Before, _now: float) -> Before:
    return before


def _after(outcome: Outcome) -> Outcome:
    return outcome


class Listener(Struct, frozen=True):
    """An optional feature.

    Args:
        observe: Adds to the state of a Pod what only the feature reads of it.
        before: Adds to what is known before a decision.
        after: Adds to the decision.
        counters: What it counts, by name: the words of the metric, and the name of its label.
    """

    observe: Callable[[PodState, Object, PodState | None], PodState] = _observe
    before: Callable[[Placement, Before, float], Before] = _before
    after: Callable[[Outcome], Outcome] = _after
    counters: Mapping[str, tuple[str, tuple[str, ...], Sequence[str]]] = {}
