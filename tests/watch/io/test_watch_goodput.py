"""How long a run has been in training: kept in `J-status`, told by `status` and by the metric."""

import time
from typing import Any

from watched import Place, eventually

from etcompile.goodput import read_timeline
from etcompile.k8s.objects import timestamp
from etcompile.status import seen
from specs import kubeflow_job

NAMES = ("mnist-master-0", "mnist-worker-0", "mnist-worker-1")


def runs(place: Place, name: str, since: float, ended: float = 0.0) -> None:
    """Writes that the container of a Pod has run since then, or until then."""
    told = timestamp(ended or since)
    ready = {"type": "Ready", "status": str(not ended), "lastTransitionTime": told}
    state: dict[str, Any] = {"running": {"startedAt": timestamp(since)}}
    if ended:
        times = {"startedAt": timestamp(since), "finishedAt": timestamp(ended)}
        state = {"terminated": {**times, "exitCode": 1, "reason": "Error"}}
    container = {"name": "pytorch", "state": state, "ready": not ended, "restartCount": 0}
    status = {
        "phase": "Failed" if ended else "Running",
        "conditions": [ready],
        "containerStatuses": [{**container, "image": "i", "imageID": ""}],
    }
    pods = place.cluster.resource("v1", "Pod")
    place.cluster.patch(pods, name, {"status": status}, place.namespace, subresource="status")


def test_what_was_counted_outlives_the_watcher(place: Place, watching: Any) -> None:
    document = kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2})
    for value in place.compiled(document):
        place.cluster.create(value)
    since = float(int(time.time()) + 1)  # after its Pods were created, by any clock of seconds
    time.sleep(2.5)
    for name in NAMES:
        runs(place, name, since)
    first = watching()
    labels = {"job_namespace": place.namespace, "job_name": "mnist"}
    eventually(lambda: first.value("etcompile_watch_goodput_ratio", **labels) > 0.3)
    time.sleep(4)
    failed = float(int(time.time()))
    runs(place, "mnist-worker-1", since, failed)

    def times() -> Any:
        found = read_timeline(place.data("mnist-etcompile-status"))
        return found.times if found is not None else None

    # It was written as it was before, too, with what was written anyway.
    eventually(lambda: times() == ((since, failed),), why="the failure is what ended it")
    first.stop()
    for name in NAMES:
        place.cluster.delete(place.cluster.resource("v1", "Pod"), name, grace=0)
    [status] = seen(place.cluster, "mnist", place.namespace).statuses()
    assert status.goodput is not None
    assert status.goodput.training == failed - since
    assert status.goodput.elapsed > status.goodput.training
