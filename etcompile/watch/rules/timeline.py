"""When a run was in training: the timeline, for those who ask how much of its time it has trained.

It costs no request: it is written with what is written anyway. So what stands in `J-status` may be
old; whoever reads it adds what the Pods say that are there.
"""

from msgspec import structs

from etcompile.goodput import ReplicaSpans, Timeline, advanced, in_training
from etcompile.model.run_record import RunRecord
from etcompile.watch.state import JobView


def timeline(
    view: JobView, record: RunRecord, now: float, hung: tuple[float, float] | None = None
) -> Timeline | None:
    """The timeline as it is now; None before the run has begun.

    Args:
        view: What is known of the job.
        record: The run record as it is, or as it is to be.
        now: The time, in seconds since 1970.
        hung: From when to when it has just hung; None if it has not.
    """
    known = view.timeline if view.own_record is not None else None
    seen = [(pod, 0.0) for pod in view.pods.values()]
    seen += [(gone.pod, gone.at) for gone in view.gone.values()]
    spans = [
        ReplicaSpans(
            pod.role,
            pod.rank if pod.rank is not None else pod.index or 0,
            # The containers of a Pod that has gone have ended by then.
            tuple(structs.replace(span, end=span.end or at) for span in pod.spans)
            if at
            else pod.spans,
        )
        for pod, at in seen
        if pod.spans and pod.spec_hash == view.spec_hash
    ]
    return advanced(known, record, in_training(view.job, spans, record, now), now, hung)
