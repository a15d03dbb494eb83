"""The live host list: no host that is gone stays in it, whatever the others do."""

import itertools
import threading

from watched import eventually, is_ready, training_job


def set_ready(place, name: str, *, ready: bool) -> None:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    change = {"status": {"phase": "Running", "conditions": [condition]}}
    place.cluster.patch(
        place.cluster.resource("v1", "Pod"), name, change, place.namespace, subresource="status"
    )


def begun(place, workers: int) -> None:
    place.kubelets()
    place.submit(training_job(workers=workers))
    eventually(lambda: place.whole(workers))
    eventually(lambda: is_ready(place.pod("bert-launcher")))


def test_a_dead_host_goes_while_the_others_come_and_go(place, watching):
    watching()
    begun(place, 4)
    for index in (0, 2, 3):
        set_ready(place, f"bert-worker-{index}", ready=False)
    eventually(lambda: place.hosts() == ["bert-worker-1"])
    # It dies, and of the others one at a time is Ready for a moment.
    stop = threading.Event()

    def flap() -> None:
        for index in itertools.cycle((2, 3)):
            if stop.is_set():
                return
            set_ready(place, f"bert-worker-{index}", ready=True)
            set_ready(place, f"bert-worker-{5 - index}", ready=False)
            stop.wait(0.1)

    set_ready(place, "bert-worker-1", ready=False)
    flapping = threading.Thread(target=flap)
    flapping.start()
    try:
        eventually(lambda: "bert-worker-1" not in place.hosts(), 10)
    finally:
        stop.set()
        flapping.join()


def test_a_dead_host_goes_before_a_new_launcher_reads_the_list(place, watching):
    watching()
    begun(place, 3)
    place.becomes("bert-launcher", "Pending")
    place.holding.set()
    set_ready(place, "bert-worker-1", ready=False)
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])
    place.holding.clear()


def test_a_dead_host_goes_although_its_replacement_cannot_be_made(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, 3)
    proxy.add("status", method="POST", path=r"/pods\?", status=500, times=10_000)
    place.fails("bert-worker-1")
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])


def test_a_dead_host_goes_although_nothing_can_be_recorded(place, watching, proxy):
    watching(server=proxy.url)
    begun(place, 3)
    proxy.add(
        "status",
        method="PATCH",
        path=r"/configmaps/bert-etcompile-status",
        status=500,
        times=10_000,
    )
    place.fails("bert-worker-1")
    eventually(lambda: place.hosts() == ["bert-worker-0", "bert-worker-2"])
    assert place.uid("bert-worker-1"), "what is not recorded must not be done"
