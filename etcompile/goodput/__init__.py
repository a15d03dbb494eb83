"""How long a run has been in training, and which attempts it took.

`spans` reads from a Pod when its containers ran, `times` makes of the spans of all Pods when the
run as a whole was in training, and `timeline` is what is kept of that in `J-status`. All are
functions from values to values: the watcher keeps the timeline, `status` and `why` read it, and
each adds what the Pods say that are there now.
"""

from etcompile.goodput.spans import Span, spans_of
from etcompile.goodput.timeline import (
    Attempt,
    Goodput,
    Timeline,
    advanced,
    goodput,
    read_timeline,
    timeline_text,
)
from etcompile.goodput.times import ReplicaSpans, in_training

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
