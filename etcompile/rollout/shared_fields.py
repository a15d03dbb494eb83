"""Conflicts about fields that mean the same on both sides, settled by sharing them.

A list that the API server treats as one value, such as the sources of a projected volume, is in
conflict as soon as it filled in a default in it, although nobody wants it to change (seen with two
server-side applies of one manifest). Who sends the value as it is there becomes its second owner,
and nothing is taken from the first.
"""

import copy
from collections.abc import Mapping
from typing import Any

from etcompile.k8s.fieldpath import overlap
from etcompile.k8s.managedfields import Ownership
from etcompile.k8s.serverpath import place
from etcompile.kubeapi.errors import ClusterError
from etcompile.plan.comparison import compared

_NOBODY = Ownership(None, (), known=False)


def shared(
    desired: Mapping[str, Any], live: Mapping[str, Any], error: ClusterError
) -> dict[str, Any] | None:
    """The desired object with the live values of fields that are in conflict about nothing.

    Args:
        desired: What was sent.
        live: What is there.
        error: The conflicts.

    Returns:
        The object; None if any conflict is about a real difference.
    """
    differing = [one.path for one in compared(desired, live, _NOBODY, whole=False).places]
    body: dict[str, Any] = copy.deepcopy(dict(desired))
    for conflict in error.conflicts:
        ours, theirs = place(body, conflict.field), place(live, conflict.field)
        if ours is None or theirs is None:
            return None
        if any(overlap(ours.steps, path) for path in differing):
            return None
        ours.holder[ours.key] = theirs.value
    return body
