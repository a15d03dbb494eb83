"""Pods whose deletion was begun and never finished: it is asked for again.

The API server deletes a Pod that has ended in two steps, and leaves out the second when whoever
asked is killed in between. The Pod then keeps its name for as long as its node does not answer, and
nobody can be created in its place. Another request finishes it (k8s.io/apiserver,
registry/rest/delete.go, BeforeDelete). It does not matter who asked first, nor of which run the
Pod is.
"""

from collections.abc import Iterator

from etcompile.watch.actions import Action, DeletePod, Requeue
from etcompile.watch.state import JobView


def half_deleted(view: JobView, now: float) -> Iterator[Action]:
    """The deletions to be asked for again, after the moment that one takes.

    Args:
        view: What is known of the job.
        now: The time.
    """
    for pod in view.pods.values():
        if not pod.half_deleted:
            continue
        due = pod.due + view.timeouts.settle
        if now < due:
            yield Requeue(due)
        else:
            yield DeletePod(pod.name, pod.uid, "HalfDeleted")
