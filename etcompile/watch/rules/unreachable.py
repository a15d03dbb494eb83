"""Pods that hold up others and stay where they are: nothing can be done, so it is told.

A Pod that is asked to go stays until its kubelet says that it has ended. While a node does not
answer nobody knows whether its Pods still train, and no other Pod can have their names; so the
watcher waits, for as long as it takes (reference/training-operator.md 5.4). Where others follow
(ElasticJob) it need not. Nor can a Pod of this run have a name that one of another run has: whoever
began to exchange them has stopped half way.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.watch.actions import EmitEvent, Requeue
from etcompile.watch.rules.decision import Decision
from etcompile.watch.rules.run_state import RunState
from etcompile.watch.state import PodView, RunRecord


def told(run_state: RunState, record: RunRecord, now: float) -> Decision:
    """The record, with the Pods that hold up their replacements, and word of those that are new.

    Args:
        run_state: Who is there.
        record: The run record.
        now: The time.
    """
    known = frozenset(record.unreachable)
    overdue = run_state.view.timeouts.start
    found: list[PodView] = []
    later: list[float] = []
    for pod in _in_the_way(run_state):
        if pod.phase == "Unknown" or now >= pod.due + overdue:
            found.append(pod)
        else:
            later.append(pod.due + overdue)
    actions = [
        EmitEvent("PodUnreachable", _words(pod), pod.name, pod.uid, warning=True)
        for pod in found
        if pod.uid not in known
    ]
    others = _of_other_runs(run_state)
    if others:
        newest = max(pod.created for pod in (*others, *run_state.of_this_run))
        due = max(newest, run_state.view.declared_at or 0.0) + overdue
        if now < due:
            # Somebody may be about to exchange them.
            later.append(due)
            others = []
        elif any(pod.uid not in known for pod in others):
            actions.append(EmitEvent("NameTaken", _words_of(others), warning=True))
    uids = tuple(sorted(pod.uid for pod in (*found, *others)))
    again = [Requeue(min(later))] if later else []
    return Decision(structs.replace(record, unreachable=uids), (*actions, *again))


def _in_the_way(run_state: RunState) -> Iterator[PodView]:
    """Pods on their way out, and those of which nothing is known."""
    for place in run_state.places:
        pod = place.pod
        if pod is not None and (pod.phase == "Unknown" or (pod.deleting and pod.due)):
            yield pod


def _of_other_runs(run_state: RunState) -> list[PodView]:
    """Pods of other runs of the job that have the names of this one's."""
    pods = run_state.view.pods
    found = (pods[place.name] for place in run_state.places if place.taken)
    return [pod for pod in found if pod.spec_hash not in ("", run_state.view.spec_hash)]


def _words_of(others: Sequence[PodView]) -> str:
    first = others[0]
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return (
        f"{first.name}{more}: not of the run that the ConfigMap describes, but of run "
        f"{first.spec_hash}, so nothing replaces them and their hosts are not listed; apply the "
        "job with --replace to exchange them"
    )


def _words(pod: PodView) -> str:
    if pod.ended:
        return "has ended and is kept by a finalizer: nothing can replace it until that is removed"
    what = "its node does not answer, so it is not known whether it still runs; it is replaced when"
    force = f"if the node is gone for good: kubectl delete pod {pod.name} --force --grace-period=0"
    return f"{what} it is gone ({force})"
