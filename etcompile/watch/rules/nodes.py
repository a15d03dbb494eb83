"""Nodes: those that do not answer let go of their Pods, and those that fail Pods are avoided.

Both only where the job asks for it. No right on nodes is needed: what a node does to the Pods of a
job is seen in these Pods.

A node that does not answer keeps its Pods, and with them their names, until somebody says that it
is gone for good; Kubernetes does not dare to. `etcompile.dev/lost-node-after` dares to, after a
time: the Pod is asked to go, so that its kubelet, should it come back, ends it; then it is deleted
by force. The processes may still run, cut off from the API server and not from each other. Where
commands restart in place none of them joins a later epoch: whose Pod is gone is never told to.

A node that breaks what is started on it is quick, so it has room, so the scheduler sends it the
next Pod. `etcompile.dev/avoid-nodes` counts, per node, the failures that were not the program's
(`etcompile.failures.strikes`), and after so many of them has Pods that come instead of others
avoid it, for as long as the run lasts.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from etcompile.failures import OTHER_NODE_WANTED, FailureLog, avoided_nodes
from etcompile.watch.actions import (
    Action,
    CreatePod,
    DeletePod,
    EmitEvent,
    ReplacePod,
    Requeue,
)
from etcompile.watch.rules.placement import Placement
from etcompile.watch.state import JobView, PodView


def released(placement: Placement, now: float) -> Iterator[Action]:
    """The Pods that nodes are to let go of that have not answered for too long.

    Args:
        placement: Who is there.
        now: The time, in seconds since 1970.
    """
    run = placement.job.run
    if run.lost_node_after is None:
        return
    record = placement.view.own_record
    over = run.suspended or (record is not None and record.ended)
    for pod in placement.of_this_run:
        since = silent_since(pod)
        if not since or (over and not pod.deleting):
            continue
        due = since + run.lost_node_after
        if now < due:
            yield Requeue(due)
        elif not pod.deleting:
            yield DeletePod(pod.name, pod.uid, "NodeLost")
            yield _word(pod, run.lost_node_after)
        elif pod.due:  # else the answer to that is still on its way here
            yield DeletePod(pod.name, pod.uid, "NodeLost", force=True)
            if pod.asked + 1 < due:  # somebody else has asked
                yield _word(pod, run.lost_node_after)


def _word(pod: PodView, limit: int) -> Action:
    message = (
        f"node {pod.node} has not answered for {limit} s: the Pod is deleted by force; if the node "
        "still runs, so may its processes"
    )
    return EmitEvent("PodReleased", message, pod.name, pod.uid, warning=True)


def silent_since(pod: PodView) -> float:
    """Since when a Pod's node has not answered, in seconds since 1970; 0 if nothing says so.

    That a Pod should have gone and is still there says so as well: its kubelet ends it in time,
    whatever it does.
    """
    if pod.ended or not pod.node:
        return 0.0
    if pod.unreachable_since:
        return pod.unreachable_since
    return pod.due if pod.deleting else 0.0


def avoiding(view: JobView, log: FailureLog | None, actions: Sequence[Action]) -> list[Action]:
    """Actions, with the nodes that Pods avoid which come instead of others.

    Args:
        view: What is known of the job.
        log: What the run has failed of, with what has just been seen.
        actions: What is to be done.
    """
    limit = view.job.run.avoid_nodes_after
    if log is None or (limit is None and view.job.preflight is None):
        return [*actions]
    avoided = avoided_nodes(log, limit)
    if not avoided:
        return [*actions]
    before = view.failures if view.failures is not None and view.failures.run == log.run else None
    known = avoided_nodes(before, limit) if before is not None else ()
    told = [_told(node, log, limit) for node in avoided if node not in known]
    return [
        *(
            structs.replace(action, avoid=avoided)
            if isinstance(action, CreatePod | ReplacePod)
            else action
            for action in actions
        ),
        *told,
    ]


def _told(node: str, log: FailureLog, limit: int | None) -> Action:
    causes = ", ".join(
        f"{name} {count} times" if count > 1 else name for name, count in log.nodes[node].items()
    )
    if OTHER_NODE_WANTED.name in log.nodes[node]:
        why = "a preflight check has sent a Pod of this run away"
    else:
        why = f"it has failed Pods of this run at least {limit} times by its own fault ({causes})"
    message = f"Pods that are recreated avoid the node {node}: {why}"
    return EmitEvent("NodeAvoided", message, warning=True)
