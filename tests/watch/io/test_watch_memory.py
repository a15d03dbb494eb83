"""A watcher that runs for months: nothing is kept of jobs that are gone."""

from collections import deque
from typing import Any

from watched import eventually, training_job

from specs import dlrover_type, elastic_job, kubeflow_job
from world import of_replicas

ROUNDS = 6


def sizes_of(root: Any) -> dict[str, int]:
    """The sizes of all containers below an object of ours, by the way to them."""
    sizes: dict[str, int] = {}
    done: set[int] = set()

    def walk(value: Any, path: str) -> None:
        if id(value) in done or path.count(".") > 4:
            return
        done.add(id(value))
        if isinstance(value, (dict, set, frozenset, list, deque)):
            sizes[path] = len(value)
            return
        if type(value).__module__.startswith("etcompile.watch"):
            fields = getattr(value, "__struct_fields__", None) or getattr(value, "__dict__", ())
            for name in fields:
                walk(getattr(value, name), f"{path}.{name}")

    walk(root, "watcher")
    return sizes


STEADY = ("_informers", "_threads", "_waiting", "_timers", "checked")
"""What depends on namespaces alone, empties by itself, or has a bound (test_work_queue)."""


def submit(place, number: int) -> None:
    gang = elastic_job({"worker": dlrover_type(2)}, name=f"e-{number}")
    gang["metadata"]["namespace"] = place.namespace
    torch = kubeflow_job("PyTorchJob", {"Worker": 2})
    torch["metadata"] = {"name": f"t-{number}"}
    place.submit(training_job(name=f"h-{number}", workers=2), gang, torch)


def clear(place) -> None:
    for kind in ("Pod", "ConfigMap"):
        resource = place.cluster.resource("v1", kind)
        for one in place.cluster.list(resource, place.namespace).items:
            if one["metadata"]["name"] != "kube-root-ca.crt":
                place.cluster.delete(resource, one["metadata"]["name"], grace=0)


def test_watcher_forgets_jobs_that_are_deleted(place, watching):
    running = watching()
    place.kubelets()
    before = sizes_of(running.watcher)
    assert any(path.endswith("._memory") for path in before), "the walk sees nothing"
    for number in range(ROUNDS):
        submit(place, number)
        names = (f"h-{number}", f"t-{number}", f"e-{number}")
        eventually(
            lambda names=names: all(of_replicas(place.run_record(name), "seen") for name in names),
            30,
        )
        place.fails(f"h-{number}-worker-1")
        clear(place)
        eventually(lambda: not running.watcher._store.known(), 30)  # noqa: SLF001
        for kind in ("Service", "Secret", "ServiceAccount"):
            resource = place.cluster.resource("v1", kind)
            for one in place.cluster.list(resource, place.namespace).items:
                if f"-{number}" in one["metadata"]["name"]:
                    place.cluster.delete(resource, one["metadata"]["name"])
    eventually(lambda: running.watcher.idle)

    def grown() -> dict[str, tuple[int, int]]:
        after = sizes_of(running.watcher)
        return {
            path: (before.get(path, 0), size)
            for path, size in after.items()
            if size > before.get(path, 0) and not path.endswith(STEADY)
        }

    eventually(lambda: not grown(), 10, why=str(grown()))
