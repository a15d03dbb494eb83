"""Random faults over several jobs from one seed, and what must hold whenever it is quiet.

ETCOMPILE_STORM says how many faults (100), ETCOMPILE_STORM_SEED which. A storm that ends badly is
played again without parts of it, until every fault that is left is needed: that script is printed.
"""

import contextlib
import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from watched import QUICK, Place, Running, eventually, training_job

from etcompile.cluster import ClusterError, connect
from etcompile.watch.manifests import NAME
from faultproxy import FaultProxy

FAULTS = int(os.environ.get("ETCOMPILE_STORM", "100"))
SEED = int(os.environ.get("ETCOMPILE_STORM_SEED", "0")) or random.randrange(1, 10**6)
JOBS = 20 if FAULTS >= 500 else 5
WORKERS = 4
QUIET_EVERY = 50
SHRINKS = 12
"""Times that a bad storm is played again."""

Fault = tuple[str, int, int]
"""What happens, to which job, to which worker."""

KINDS = {
    "fails": 6, "is killed": 6, "is evicted": 4, "is deleted": 4, "loses its node": 2,
    "write 409": 1, "write 429": 2, "write 500": 2, "write lost": 2, "watch cut": 3,
    "watch 410": 2, "watcher killed": 1, "lease lost": 1,
}  # fmt: skip


def drawn(seed: int, count: int) -> list[Fault]:
    """The faults of a seed."""
    dice = random.Random(seed)
    kinds = dice.choices([*KINDS], [*KINDS.values()], k=count)
    return [(kind, dice.randrange(JOBS), dice.randrange(WORKERS)) for kind in kinds]


class Storm:
    """A namespace, two watchers of it behind a proxy, and the faults that they meet."""

    def __init__(self, place: Place, proxy: FaultProxy, start: Callable[[], Running]) -> None:
        self.place, self.proxy = place, proxy
        self._start = start
        self.watchers = [start(), start()]
        for number in range(JOBS):
            place.submit(
                training_job(
                    f"job-{number}",
                    WORKERS,
                    worker={"restartPolicy": "Always", "replicas": WORKERS},
                )
            )

    def play(self, script: list[Fault]) -> None:
        """All faults, with a look at what must hold now and then."""
        self.quiet()
        for place, fault in enumerate(script, 1):
            self.meet(*fault)
            time.sleep(0.02)
            if place % QUIET_EVERY == 0:
                self.quiet()
        self.quiet()

    def meet(self, kind: str, job: int, worker: int) -> None:
        name = f"job-{job}-worker-{worker}"
        match kind.split():
            case ["fails"]:
                self.place.fails(name, 1)
            case ["is", "killed"]:
                self.place.fails(name, 137)
            case ["is", "evicted"]:
                self.place.becomes(name, "Failed", reason="Evicted")
            case ["loses", *_]:
                self.place.becomes(name, "Failed", reason="NodeLost")
            case ["is", "deleted"]:
                with contextlib.suppress(ClusterError):
                    self.place.cluster.delete(self.place.cluster.resource("v1", "Pod"), name)
            case ["write", "lost"]:
                self.proxy.add("lost", path=r"/(pods|configmaps)", method="PATCH", status=500)
                self.proxy.add("reset-after", path=r"/pods\?", method="POST")
            case ["write", status]:
                for method in ("POST", "DELETE", "PATCH"):
                    self.proxy.add(
                        "status", method=method, path="pods|configmaps", status=int(status)
                    )
            case ["watch", "cut"]:
                self.proxy.add("cut", path="watch=true", after=1)
            case ["watch", "410"]:
                self.proxy.add("cut", path="watch=true", after=1)
                self.proxy.add("status", path="watch=true", status=410)
            case ["watcher", "killed"]:
                self.kill()
            case ["lease", "lost"]:
                self.proxy.add("status", path="leases", status=500, times=15)

    def kill(self) -> None:
        """The watcher that leads is gone without a word; another one starts."""
        for watcher in self.watchers:
            if watcher.leading is not None and watcher.leading.valid:
                self.watchers.remove(watcher)
                watcher.kill()
                self.watchers.append(self._start())
                return

    def quiet(self) -> None:
        """Waits for quiet, and looks at what must hold then."""
        problems: list[str] = ["not looked yet"]

        def calm() -> bool:
            problems[:] = self.problems()
            return not problems

        with contextlib.suppress(AssertionError):
            eventually(calm, 45)
        assert not problems, "; ".join(problems)
        uids = self.uids()
        time.sleep(0.3)
        assert self.uids() == uids, "Pods go although nothing is wrong with them"

    def uids(self) -> dict[str, str]:
        return {name: pod["metadata"]["uid"] for name, pod in self.place.pods().items()}

    def problems(self) -> list[str]:
        return [*self._problems()]

    def _problems(self) -> Iterator[str]:
        pods = self.place.pods()
        for number in range(JOBS):
            job = f"job-{number}"
            wanted = {f"{job}-launcher", *(f"{job}-worker-{one}" for one in range(WORKERS))}
            there = {name for name in pods if name.startswith(f"{job}-")}
            if there != wanted:
                yield f"{job} has {sorted(there)}"
            ready = self.place.ready(job=job)
            hosts = sorted({host.split(".")[0] for host in self.place.hosts(job)})
            if hosts != sorted(ready) or len(ready) != WORKERS:
                phases = {name: pods[name]["status"]["phase"] for name in sorted(there)}
                yield f"{job}: {hosts} are listed, {ready} are ready of {phases}"
            record = json.loads(self.place.data(f"{job}-status").get("record", "{}"))
            if record.get("phase", "Pending") != "Running":
                yield f"{job} is {record.get('phase')}: {record.get('message')}"


def deleted(place: Place) -> Counter[str]:
    return Counter(
        name for verb, kind, name in place.writes(NAME) if (verb, kind) == ("delete", "pods")
    )


@pytest.fixture
def storm(control_plane, proxy_certificate, granted) -> Iterator[Callable[[list[Fault]], None]]:
    """`storm(script)`: plays a script in a namespace of its own."""
    started: list[Running] = []
    opened: list[Place] = []

    def play(script: list[Fault]) -> None:
        namespace = control_plane.namespace()
        token = granted(namespace=namespace)
        trusted = control_plane.authority.file
        cluster = connect(kubeconfig=control_plane.kubeconfig(), namespace=namespace)
        place = Place(control_plane, cluster, namespace)
        opened.append(place)
        place.kubelets()
        with FaultProxy(control_plane.server, trusted, *proxy_certificate) as proxy:
            kubeconfig = control_plane.kubeconfig(
                token=token, namespace=namespace, server=proxy.url
            )

            def start() -> Running:
                started.append(Running(kubeconfig, namespace, leads=True, patience=QUICK))
                started[-1].begin()
                return started[-1]

            try:
                Storm(place, proxy, start).play(script)
                for name, times in deleted(place).items():
                    # Nobody's Pod was made to go that did not fail.
                    asked = sum(
                        1
                        for kind, job, one in script
                        if name == f"job-{job}-worker-{one}" and kind in FAILING
                    )
                    assert times <= asked, f"{name} was deleted {times} times, failed {asked}"
            finally:
                for one in started:
                    one.stop()
                started.clear()
                place.close()

    yield play
    for place in opened:
        place.cluster.close()


FAILING = {"fails", "is killed", "is evicted", "loses its node"}


def shrunk(script: list[Fault], fails: Callable[[list[Fault]], bool]) -> list[Fault]:
    """A script that still fails, with as little in it as a few tries find."""
    size = max(1, len(script) // 2)
    for _ in range(SHRINKS):
        for begin in range(0, len(script), size):
            shorter = script[:begin] + script[begin + size :]
            if shorter and fails(shorter):
                script = shorter
                break
        else:
            if size == 1:
                return script
            size = max(1, size // 2)
    return script


def test_whatever_happens_each_job_ends_up_whole(storm):
    script = drawn(SEED, FAULTS)
    print(f"ETCOMPILE_STORM={FAULTS} ETCOMPILE_STORM_SEED={SEED}")
    try:
        storm(script)
    except AssertionError as first:

        def fails(shorter: list[Fault]) -> bool:
            try:
                storm(shorter)
            except AssertionError:
                return True
            return False

        short = shrunk(script, fails)
        lines = "\n".join(f"  {kind} job-{job}-worker-{worker}" for kind, job, worker in short)
        pytest.fail(f"seed {SEED}: {first}\nshortest script found:\n{lines}")
