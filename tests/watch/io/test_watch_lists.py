"""The live host list: whole in every sample, and without hosts that are gone.

`ETCOMPILE_SCALINGS` says through how many scalings it is sampled.
"""

import bisect
import contextlib
import json
import os
import random
import re
import threading
import time

from watched import QUICK, eventually, is_ready, maps, training_job

from etcompile.kubeapi import ClusterError
from etcompile.watch.core.run import ANCHOR

SCALINGS = int(os.environ.get("ETCOMPILE_SCALINGS", "8"))
PAUSE = 0.02
"""Seconds between two samples."""
LEAVES = 2.0
"""Seconds within which a host that is gone leaves the list (docs/recovery.md)."""


def applied(place, job: dict) -> None:
    """What is declared is applied: the ConfigMap with its list, and workers that are new."""
    there = place.pods()
    for value in place.compiled(job):
        if value["kind"] == "ConfigMap":
            place.cluster.server_side_apply(value, force=True)
        elif value["kind"] == "Pod" and value["metadata"]["name"] not in there:
            with contextlib.suppress(ClusterError):  # the watcher may have been faster
                place.cluster.create(value)


# Sampled ----------------------------------------------------------------------------------------


class Samples:
    """The list every 20 ms, and when each Pod was Ready, as a watch of the Pods reports it."""

    def __init__(self, place) -> None:
        self.place = place
        self.lists: list[tuple[float, str, frozenset[str]]] = []
        self.slowest = 0.0
        self.ready: dict[str, list[tuple[float, bool]]] = {}
        self._stop = threading.Event()
        listed = place.cluster.list(place.cluster.resource("v1", "Pod"), place.namespace)
        for pod in listed.items:
            self._record(pod)
        self._version = listed.resource_version
        threading.Thread(target=self._watch, daemon=True).start()
        self._sampling = threading.Thread(target=self._sample)
        self._sampling.start()

    def stop(self) -> None:
        self._stop.set()
        self._sampling.join()

    def _record(self, pod: dict, *, gone: bool = False) -> None:
        known = self.ready.setdefault(pod["metadata"]["name"], [])
        is_up = is_ready(pod) and "deletionTimestamp" not in pod["metadata"] and not gone
        known.append((time.monotonic(), is_up))

    def _watch(self) -> None:
        pods = self.place.cluster.resource("v1", "Pod")
        with contextlib.suppress(ClusterError):
            for event in self.place.cluster.watch(pods, self._version, self.place.namespace):
                self._record(event.object, gone=event.type == "DELETED")

    def _sample(self) -> None:
        while not self._stop.wait(PAUSE):
            sent_at = time.monotonic()
            config_map = self.place.cluster.get(maps(self.place), "bert-etcompile-hosts")
            self.slowest = max(self.slowest, time.monotonic() - sent_at)
            anchors = json.loads(config_map["metadata"]["annotations"].get(ANCHOR, "{}"))
            self.lists.append((sent_at, config_map["data"]["hostfile"], frozenset(anchors)))

    def gone_for(self, host: str, at: float) -> float:
        """For how many seconds a host had not been Ready then."""
        known = self.ready.get(host, [])
        before = bisect.bisect(known, at, key=lambda one: one[0])
        since = at
        for changed, is_up in reversed(known[:before]):
            if is_up:
                return at - since
            since = changed
        return float("inf")


def hosts(text: str) -> list[str]:
    """The hosts of a list; one that was replaced has a longer form of its name."""
    return [line.split(":")[0] for line in text.splitlines()]


def test_sampled_list_is_whole_and_has_no_dead_host_but_the_anchor(place, watching):
    watching()
    place.begin(5)
    eventually(lambda: is_ready(place.pod("bert-launcher")))
    samples, dice = Samples(place), random.Random(50)
    written = [place.data("bert-etcompile-hosts")["hostfile"]]
    for _ in range(SCALINGS):
        count = dice.randint(2, 8)
        applied(place, training_job(workers=count))
        for number in dice.sample(range(count), dice.randint(1, count)):
            time.sleep(dice.random() * 0.3)
            place.fails(f"bert-worker-{number}", dice.choice((1, 137)))
    eventually(lambda: place.whole(count), 60)
    samples.stop()
    written += [
        event["requestObject"]["data"]["hostfile"]
        for event in place.plane.writes(place.namespace)
        if event["objectRef"].get("name") == "bert-etcompile-hosts"
        and "hostfile" in (event["requestObject"].get("data") or {})
    ]
    assert {text for _, text, _ in samples.lists} <= {*written}, "a list that nobody wrote"
    # The API server answers late on a busy machine: a few requests stand between loss and list.
    allowed = LEAVES + 4 * samples.slowest
    worst, current = {True: 0.0, False: 0.0}, hosts(samples.lists[0][1])
    twice: dict[str, float] = {}
    for at, text, anchors in samples.lists:
        listed = hosts(text)
        assert len({*listed}) == len(listed)
        assert re.fullmatch(r"(bert-worker-\d+(\.[\w.-]+)?:\d+\n)+", text), text
        assert {*current} & {*listed}, "a list of new hosts only"
        current = listed
        for host in listed:
            seconds = samples.gone_for(host.split(".")[0], at)
            names = [name for name in listed if name.split(".")[0] == host.split(".")[0]]
            # Under its old name, one of five in turn, it is gone, although its Pod is Ready again.
            assert sum(name not in anchors for name in names) <= 1
            if len(names) > 1 and host in anchors:
                seconds = at - twice.setdefault(host, at)
            else:
                twice.pop(host, None)
            is_anchor = host in anchors
            worst[is_anchor] = max(worst[is_anchor], seconds)
            limit = allowed + (QUICK.overlap if is_anchor else 0.0)
            assert seconds <= limit, f"{host} is listed {seconds:.1f} s after it was gone"
    print(f"{len(samples.lists)} samples of {len(written)} lists; gone and listed for at most")
    print(
        f"{worst[False]:.2f} s, anchors {worst[True]:.2f} s; slowest answer {samples.slowest:.2f} s"
    )
