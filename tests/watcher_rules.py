"""The rules of the watcher as tests call them: with all listeners."""

from functools import partial

from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import PodState, pod_state
from etcompile.watch.core.decide import decide as core_decide
from etcompile.watch.listeners import LISTENERS

decide = partial(core_decide, listeners=LISTENERS)
"""Decide what is to be done about a job."""


def observed(pod: Object, before: PodState | None = None) -> PodState:
    """Return the state of a Pod, with what all listeners read of it."""
    state = pod_state(pod, before)
    for listener in LISTENERS:
        state = listener.observe(state, pod, before)
    return state
