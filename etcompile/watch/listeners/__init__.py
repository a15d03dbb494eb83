"""The optional features of the watcher, in the order in which they are asked.

A listener sees what the core sees, and later listeners see what earlier ones report. A job that
uses none of them costs nothing.
"""

from etcompile.watch.listeners import (
    failures,
    first_failure,
    gates,
    hangs,
    in_place,
    kueue_groups,
    lost_nodes,
    nodes,
    pending_timeout,
    removal,
    stalls,
    timeline,
)

LISTENERS = (
    gates.LISTENER,
    stalls.LISTENER,
    lost_nodes.LISTENER,
    in_place.LISTENER,
    hangs.LISTENER,
    pending_timeout.LISTENER,
    kueue_groups.LISTENER,
    failures.LISTENER,
    first_failure.LISTENER,
    nodes.LISTENER,
    timeline.LISTENER,
    removal.LISTENER,
)
