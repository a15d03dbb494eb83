"""Write down what a run fails of, in a log that outlives the Pods (`etcompile.causes`).

It holds what ended before its time, but not what the watcher ended itself: what containers make of
the signal when a gang is restarted says nothing.
"""

from collections.abc import Iterator, Mapping

from msgspec import structs

from etcompile.causes.causes import names
from etcompile.causes.log import (
    COMMAND_ENDED,
    Failure,
    FailureLog,
    failures_of,
    log_text,
    read_log,
    with_lines,
)
from etcompile.k8s.objects import Object
from etcompile.k8s.pod_state import PodState
from etcompile.model.run_record import FAILURES
from etcompile.watch.core.run import Count, JobView, Listener, Note, ReadLog, Run
from etcompile.watch.listeners.lost_nodes import silent_since

_LOSSES: Mapping[str | None, str] = {
    "deleted": "Deleted",
    "erased": "Deleted",
    "vanished": "Vanished",
    "hung": "Stuck",
}
_PURPOSE = "end"
_LINES, _BYTES = 1000, 256 * 1024  # of the end of a log, which may have the next epoch as well
EVERY = 1.0
"""Seconds between two writes for failures alone. What is decided because of them is not delayed."""


def _observe(state: PodState, pod: Object, _before: PodState | None) -> PodState:
    """Add what a Pod says that it has failed of. Most events say that a Pod is well."""
    may_have = state.exits or state.restarts or state.init_restarts or state.phase == "Pending"
    if not (may_have or state.reason or state.disrupted or state.phase == "Failed"):
        return state
    failures = tuple(failures_of(pod, state.deletion_requested))
    return structs.replace(state, failures=failures) if failures else state


def log_of(run: Run) -> FailureLog | None:
    """Return the log of a run, with what Pods, listeners and losses add; None if there is none."""
    view = run.view
    failures = [*_of_pods(run), *run.facts.get("reported", ()), *_of_losses(run)]
    log = read_log(view.notes)
    if log is None or log.run != view.spec_hash or view.run_record is None:
        log = FailureLog(view.spec_hash) if failures else None
    if log is None or not failures:
        return log
    visible = {pod.uid for pod in view.pods.values()}
    visible |= {gone.pod.uid for gone in view.gone.values()}
    return log.with_failures(failures, visible, run.now)


def _after(run: Run) -> Run:
    view, known, log = run.view, read_log(run.view.notes), log_of(run)
    if log is None:
        return run
    ends = [reads[_PURPOSE] for reads in view.logs.values() if _PURPOSE in reads]
    lines = {end.of: end.lines or () for end in ends if end.failed or end.lines is not None}
    read = {
        failure.uid: with_lines(failure, lines[failure.uid])
        for failure in log.failures
        if failure.is_unread and failure.uid in lines
    }
    log = log.with_read(read) if read else log
    before = {failure.uid for failure in (known.failures if known is not None else ())}
    counts = [
        Count("failures", 1, (failure.cause.name,))
        for failure in log.failures
        if failure.uid not in before
    ]
    due = float("inf")
    if log != known:
        due = known.written + EVERY if known is not None else run.now
    written = log
    return run.adding(
        (*counts, *_unread(log, view)),
        notes={**run.notes, FAILURES: Note(lambda: log_text(written), due)},
        facts={**run.facts, "failures": log},
    )


def _of_pods(run: Run) -> Iterator[Failure]:
    view, record = run.view, run.view.begun
    gang = frozenset(record.gang)
    began = record.restarted_at if record.epoch else 0.0
    pods = (*view.pods.values(), *[gone.pod for gone in view.gone.values()])
    for pod in [pod for pod in pods if pod.failures and pod.spec_hash == view.spec_hash]:
        for failure in pod.failures:
            # Those of a gang that is recreated are of the attempt before. So is what an epoch
            # begins for: that is learned before the kubelet says so, or after.
            before = pod.uid in gang or (failure.at is not None and failure.at < began)
            yield structs.replace(failure, attempt=max(0, record.attempt - before))


def _of_losses(run: Run) -> Iterator[Failure]:
    attempt, limit = run.attempt, run.job.run.lost_node_after
    for loss in run.losses:
        reason, pod = _LOSSES.get("deleted" if loss.was_deleted else loss.cause, ""), loss.latest
        if loss.cause == "hung" and loss.role.recovery.relaunch is None:
            reason = ""  # reported by `hangs`
        if not reason or (pod is not None and pod.failures):
            continue
        failure = Failure(loss.role.name, loss.number, loss.name, attempt=attempt)
        at = loss.since or (pod.deletion_requested if pod is not None else 0.0) or run.now
        if pod is not None:
            silent = silent_since(pod)
            late = limit is not None and (loss.since or run.now) >= silent + limit
            if pod.unreachable_since or (late and silent > 0):
                reason = "NodeLost"
            failure = Failure(pod.role, pod.number, pod.name, attempt=attempt, node=pod.node)
        uid = f"{pod.uid if pod is not None else loss.name}.{attempt}.{reason}"
        yield structs.replace(failure, uid=uid, at=at, reason=reason)


def _unread(log: FailureLog, view: JobView) -> Iterator[ReadLog]:
    """Yield the logs of commands that ended in containers that stay; of each Pod the last end."""
    last = {
        failure.uid.partition(".")[0]: failure
        for failure in log.failures
        if failure.reason == COMMAND_ENDED
    }
    there = {pod.uid for pod in view.pods.values()} if last else set()
    for uid, failure in last.items():
        if uid in there and failure.is_unread and view.log(uid, _PURPOSE).of != failure.uid:
            what = failure.pod, uid, failure.container, _PURPOSE, failure.uid
            yield ReadLog(*what, tail=_LINES, limit=_BYTES)


LISTENER = Listener(
    observe=_observe,
    after=_after,
    counters={
        "failures": (
            "What was written down of runs that failed, by cause (docs/failures.md).",
            ("cause",),
            tuple(sorted(names())),
        )
    },
)
