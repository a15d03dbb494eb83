"""The optional features of the watcher, in the order in which they are asked.

A listener sees what the core sees, and later listeners see what earlier ones report. A job that
uses none of them costs nothing.
"""

from functools import partial

from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import PodState, pod_state
from etcompile.watch.core.decide import decide as core_decide
from etcompile.watch.listeners import (
    failures,
    hangs,
    in_place,
    kueue,
    nodes,
    removal,
    timeline,
)

LISTENERS = (
    in_place.LISTENER,
    hangs.LISTENER,
    kueue.LISTENER,
    failures.LISTENER,
    nodes.LISTENER,
    timeline.LISTENER,
    removal.LISTENER,
)

decide = partial(core_decide, listeners=LISTENERS)
"""Decide what is to be done about a job, with all listeners."""


def observed(pod: Object, before: PodState | None = None) -> PodState:
    """Return the state of a Pod, with what all listeners read of it."""
    state = pod_state(pod, before)
    for listener in LISTENERS:
        state = listener.observe(state, pod, before)
    return state
