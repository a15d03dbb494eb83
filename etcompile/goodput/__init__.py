"""How long a run has been in training, and which attempts it took.

`spans` makes of what Pods say when the run was in training, and `timeline` is what is kept of that
in `J-status`. All are functions from values to values: the watcher keeps the timeline, `status` and
`why` read it, and each adds what the Pods say that are there now.
"""

from etcompile.goodput.spans import ReplicaSpans, Span, in_training, spans_of
from etcompile.goodput.timeline import (
    Attempt,
    Goodput,
    Timeline,
    advanced,
    goodput,
    read_timeline,
    timeline_text,
)

__all__ = [
    "Attempt",
    "Goodput",
    "ReplicaSpans",
    "Span",
    "Timeline",
    "advanced",
    "goodput",
    "in_training",
    "read_timeline",
    "spans_of",
    "timeline_text",
]
