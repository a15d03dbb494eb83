"""Write down when a run was in training (`etcompile.causes.goodput`).

A reader of `J-status` adds what the Pods say that are there.
"""

from msgspec import structs

from etcompile.causes.goodput import (
    Timeline,
    advanced,
    in_training,
    read_timeline,
    spans_of,
    timeline_text,
)
from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import TIMELINE, RunRecord
from etcompile.watch.core.run import JobView, Listener, Note, Run


def timeline(
    view: JobView, record: RunRecord, now: float, hung: tuple[float, float] | None = None
) -> Timeline | None:
    """Return the timeline as it is now; None before the run has begun.

    Args:
        hung: From when to when it has just hung; None if it has not.
    """
    known = read_timeline(view.notes) if view.run_record is not None else None
    pods = [(pod, pod.spans) for pod in view.pods.values()]
    for gone in view.gone.values():
        # The containers of a Pod that has gone have ended by then.
        ended = (structs.replace(span, end=span.end or gone.at) for span in gone.pod.spans)
        pods.append((gone.pod, tuple(ended)))
    spans = [
        ((pod.role, pod.number), spans)
        for pod, spans in pods
        if spans and pod.spec_hash == view.spec_hash
    ]
    return advanced(known, record, in_training(view.job, spans, record, now), now, hung)


def _observe(state: PodState, pod: Object, before: PodState | None) -> PodState:
    spans = spans_of(pod, before.spans if before is not None else ())
    return structs.replace(state, spans=spans) if spans else state


def _after(run: Run) -> Run:
    def text() -> str:
        """Compute it only if the record is written: a run may have thousands of Pods."""
        hung = run.facts.get("hung")
        known = timeline(run.view, run.record, run.now, hung)
        return timeline_text(known) if known is not None else ""

    return structs.replace(run, notes={**run.notes, TIMELINE: Note(text)})


LISTENER = Listener(observe=_observe, after=_after)
