"""Finish deletions that nobody else finishes, and give Pods up whose nodes do not answer.

Such a node keeps its Pods, and with them their names, until somebody says that it is gone for good.
`etcompile.dev/lost-node-after` says so after a time: the Pod is deleted, so that its kubelet,
should it come back, ends it; then it is deleted by force. Its processes may still run. If commands
restart in place, none of them takes part in the next restart.

The API server deletes a Pod that has ended in two steps, and leaves out the second when it is
killed in between. The Pod then keeps its name for as long as its node does not answer, or for ever
if it has none. Another request finishes it (k8s.io/apiserver, registry/rest/delete.go).
"""

from etcompile.k8s.pod_state import PodState
from etcompile.watch.core.run import Action, DeletePod, EmitEvent, Listener, Requeue, Run


def silent_since(pod: PodState) -> float:
    """Return since when a Pod's node has not answered, in seconds since 1970; 0 if nothing says so.

    A Pod that should be gone and is still there says so as well: its kubelet ends it in time.
    """
    if pod.ended or not pod.node:
        return 0.0
    return pod.unreachable_since or (pod.due if pod.deleting else 0.0)


def _after(run: Run) -> Run:
    limit, record, actions = run.job.run.lost_node_after, run.view.run_record, list[Action]()
    for pod in run.view.pods.values():
        if pod.half_deleted:
            due, delete = pod.due + run.timeouts.settle, DeletePod(pod.name, pod.uid, "HalfDeleted")
            actions.append(Requeue(due) if run.now < due else delete)
    over = run.job.run.suspended or (record is not None and record.ended)
    for pod in run.pods if limit is not None else ():
        since = silent_since(pod)
        if limit is None or not since or (over and not pod.deleting):
            continue
        message = (
            f"node {pod.node} has not answered for {limit} s: the Pod is force-deleted; if the "
            "node is still running, so may be its processes"
        )
        event = EmitEvent("PodReleased", message, pod.name, pod.uid, warning=True)
        due = since + limit
        if run.now < due:
            actions.append(Requeue(due))
        elif not pod.deleting:
            actions += (DeletePod(pod.name, pod.uid, "NodeLost"), event)
        elif pod.due:  # else the answer to that is still on its way here
            actions.append(DeletePod(pod.name, pod.uid, "NodeLost", force=True))
            if pod.deletion_requested + 1 < due:  # somebody else has requested it
                actions.append(event)
    return run.adding(actions)


LISTENER = Listener(after=_after)
