"""Random faults over several jobs from one seed, and what must hold whenever it is quiet.

    ETCOMPILE_STORM=100 ETCOMPILE_STORM_KILLS=60 ETCOMPILE_STORM_PAUSE=1 \\
    pytest -s -m cluster tests/watch/io/test_watch_storm.py

STORM says how many faults (1000 over 20 jobs take two minutes), KILLS how many times a watcher is
killed besides, PAUSE for how many seconds at most nothing happens between two, STORM_SEED which.
"""

import contextlib
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from watched import Place, eventually, is_ready, training_job

from etcompile.integrations.watcher_manifests import NAME
from etcompile.kubeapi import ClusterError
from etcompile.model.run_record import RunRecord, read_record
from faultproxy import FaultProxy

FAULTS = int(os.environ.get("ETCOMPILE_STORM", "60"))
SEED = int(os.environ.get("ETCOMPILE_STORM_SEED", "601"))
KILLS = int(os.environ.get("ETCOMPILE_STORM_KILLS", "0"))
PAUSE = float(os.environ.get("ETCOMPILE_STORM_PAUSE", "0.04"))
JOBS = 20 if FAULTS >= 500 else 5
WORKERS = 4
QUIET_EVERY = 50
CALM = 45.0
"""Seconds in which all must be well again."""

Fault = tuple[str, int, int]
"""What happens, to which job, to which worker."""

KINDS = {
    "fails": 6, "is-killed": 6, "is-evicted": 4, "is-deleted": 4, "loses-its-node": 2,
    "goes-silent": 2, "write-409": 1, "write-429": 2, "write-500": 2, "write-lost": 2,
    "watch-cut": 3, "watch-410": 2, "watcher-killed": 1, "lease-lost": 1,
}  # fmt: skip
FAILING = {
    "fails": (1, ""),
    "is-killed": (137, ""),
    "is-evicted": (None, "Evicted"),
    "loses-its-node": (None, "NodeLost"),
}
"""Exit code and reason of what is a failure of a Pod."""


def drawn() -> list[Fault]:
    dice = random.Random(SEED)
    kinds = dice.choices([*KINDS], [*KINDS.values()], k=FAULTS)
    for _ in range(KILLS):
        kinds.insert(dice.randrange(len(kinds) + 1), "watcher-killed")
    faults = [(kind, dice.randrange(JOBS), dice.randrange(WORKERS)) for kind in kinds]
    # Only under `Always` does a worker come back whose node does not answer.
    return [
        ("loses-its-node" if kind == "goes-silent" and policy(job) != "Always" else kind, job, one)
        for kind, job, one in faults
    ]


def policy(job: int) -> str:
    return "Always" if job % 4 else "OnFailure"


def worker_name(job: int, worker: int) -> str:
    return f"job-{job}-worker-{worker}"


@dataclass
class Ledger:
    """What has become of each Pod, by UID: what the watchers must have counted, and may delete."""

    failed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    silent: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def counted(self, name: str) -> range:
        """How many failures of a worker may have been counted.

        Each Pod that failed, once. If somebody removed it, nobody need have seen it fail; if its
        node did not answer before, it was lost already.
        """
        failed = self.failed[name]
        return range(len(failed - self.removed[name] - self.silent[name]), len(failed) + 1)

    def may_be_deleted(self, uid: str) -> bool:
        """Whether that Pod is one that must go."""
        return any(uid in uids for ends in (self.failed, self.silent) for uids in ends.values())


class Storm:
    """A namespace, two watchers of it behind a proxy, and the faults that they meet."""

    def __init__(self, place: Place, proxy: FaultProxy, command: list[str], log: Path) -> None:
        self.place, self.proxy, self.log, self.jobs = place, proxy, log, range(JOBS)
        self.ledger = Ledger()
        self._pods = place.cluster.resource("v1", "Pod")
        self._maps = place.cluster.resource("v1", "ConfigMap")
        self._leases = place.cluster.resource("coordination.k8s.io/v1", "Lease")
        self._command = command
        self.watchers = [self._started(), self._started()]
        for number in self.jobs:
            worker = {"restartPolicy": policy(number), "replicas": WORKERS}
            place.submit(training_job(f"job-{number}", WORKERS, worker=worker))

    def play(self, faults: list[Fault]) -> None:
        begun: list[str] = []
        eventually(lambda: self._is_calm(begun), 90)
        dice = random.Random(SEED)
        for met, fault in enumerate(faults, 1):
            self.meet(*fault)
            time.sleep(dice.random() * PAUSE)
            if met % QUIET_EVERY == 0 or met == len(faults):
                self.quiet(met)

    def close(self) -> None:
        for one in self.watchers:
            one.stdin.close()
        for one in self.watchers:
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.wait(15)
            _kill(one)

    # ---- faults --------------------------------------------------------------------------------

    def meet(self, kind: str, job: int, worker: int) -> None:
        name = worker_name(job, worker)
        if kind in FAILING:
            self._ends(name, "Failed", self.ledger.failed, *FAILING[kind])
            return
        match kind:
            case "goes-silent":
                self._ends(name, "Unknown", self.ledger.silent)
            case "is-deleted":
                self._is_deleted(name)
            case "write-lost":
                self.proxy.add("lost", path=r"/(pods|configmaps)", method="PATCH", status=500)
                self.proxy.add("reset-after", path=r"/pods\?", method="POST")
            case "write-409" | "write-429" | "write-500":
                for method in ("POST", "DELETE", "PATCH"):
                    self.proxy.add(
                        "status", method=method, path="pods|configmaps", status=int(kind[-3:])
                    )
            case "watch-cut":
                self.proxy.add("cut", path="watch=true", after=1)
                self.proxy.hang_up("watch=true")
            case "watch-410":
                self.proxy.add("status", path="watch=true", status=503)
                self.proxy.add("status", path="watch=true", status=410, times=3)
                self.proxy.hang_up("watch=true")
            case "watcher-killed":
                self._kill()
            case "lease-lost":
                self.proxy.add("status", path="leases", status=500, times=15)

    def _ends(
        self,
        name: str,
        phase: str,
        ends: dict[str, set[str]],
        code: int | None = None,
        reason: str = "",
    ) -> None:
        pod = self.place.pod(name)
        if pod is None or pod["status"]["phase"] == "Failed":
            return
        uid = pod["metadata"]["uid"]
        if self.place.becomes(name, phase, code, reason, uid=uid):
            ends[name].add(uid)

    def _is_deleted(self, name: str) -> None:
        uid = self.place.uid(name)
        with contextlib.suppress(ClusterError):
            if uid and self.place.cluster.delete(self._pods, name, uid=uid):
                self.ledger.removed[name].add(uid)

    def _kill(self) -> None:
        """The watcher that leads is gone in the middle of whatever it does; another one starts."""
        lease = self.place.cluster.get(self._leases, NAME) or {"spec": {}}
        holder = lease["spec"].get("holderIdentity") or ""
        leads = [one for one in self.watchers if holder.startswith(f"test-{one.pid}-")]
        victim = (leads or self.watchers)[0]
        _kill(victim)
        self.watchers.remove(victim)
        self.watchers.append(self._started())

    def _started(self) -> subprocess.Popen:
        with self.log.open("a") as log:
            return subprocess.Popen(self._command, stdin=subprocess.PIPE, stderr=log)

    # ---- what must hold ------------------------------------------------------------------------

    def quiet(self, met: int) -> None:
        problems: list[str] = ["not looked yet"]
        with contextlib.suppress(AssertionError):
            eventually(lambda: self._is_calm(problems), CALM)
        problems += self._undeserved()
        problems += [line for line in self.log.read_text().splitlines() if "this is a bug" in line]
        assert not problems, f"after {met} faults of seed {SEED}"

    def _is_calm(self, problems: list[str]) -> bool:
        """Whether all is well, and stays as it is for a moment."""
        seen = []
        for _ in range(2):
            pods = {one["metadata"]["name"]: one for one in self._listed(self._pods)}
            maps = {one["metadata"]["name"]: one for one in self._listed(self._maps)}
            problems[:] = self._problems(pods, maps)
            if problems:
                return False
            seen.append({one["metadata"]["uid"]: one.get("data") for one in maps.values()})
            seen[-1] |= dict.fromkeys(one["metadata"]["uid"] for one in pods.values())
            time.sleep(0.4)
        if seen[0] != seen[1]:
            problems.append("Pods go, or are listed anew, although nothing is wrong with them")
        return not problems

    def _listed(self, resource: Any) -> list[dict]:
        return self.place.cluster.list(resource).items

    def _problems(self, pods: Mapping[str, dict], maps: Mapping[str, dict]) -> Iterator[str]:
        wanted = set()
        for number in self.jobs:
            job = f"job-{number}"
            workers = [worker_name(number, one) for one in range(WORKERS)]
            wanted |= {f"{job}-launcher", *workers}
            ready = [name for name in workers if name in pods and is_ready(pods[name])]
            lines = (
                maps.get(f"{job}-etcompile-hosts", {}).get("data", {}).get("hostfile", "").split()
            )
            hosts = [line.split(":")[0].split(".")[0] for line in lines]
            if hosts != ready or ready != workers:
                yield f"{job}: {hosts} are listed, {ready} are ready"
            yield from self._miscounted(
                job, workers, maps.get(f"{job}-etcompile-status", {}).get("data", {})
            )
        if pods.keys() != wanted:
            yield f"missing {sorted(wanted - pods.keys())}, too many {sorted(pods.keys() - wanted)}"

    def _miscounted(self, job: str, workers: list[str], status: dict[str, str]) -> Iterator[str]:
        record = read_record(status) or RunRecord("")
        if record.phase != "Running":
            yield f"{job} is {record.phase}: {record.message}"
        total = 0
        for name in workers:
            count = record.replica(("worker", int(name.rpartition("-")[2]))).failed
            total += count
            allowed = self.ledger.counted(name)
            if count not in allowed:
                yield f"{name} failed {allowed[0]} to {allowed[-1]} times, {count} are counted"
        if (counted := record.replaced.get("worker", 0)) != total:
            yield f"{job}: {counted} replacements are counted, {total} failures"

    def _undeserved(self) -> Iterator[str]:
        """Deletions by a watcher of Pods that nothing was wrong with."""
        for event in self.place.plane.writes(self.place.namespace):
            about = event["objectRef"]
            if NAME not in event["user"]["username"] or about["resource"] != "pods":
                continue
            if event["verb"] == "delete":
                uid = event["requestObject"].get("preconditions", {}).get("uid")
                if not self.ledger.may_be_deleted(uid):
                    yield f"{about['name']} ({uid}) was deleted, and had not failed"


def _kill(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    process.stdin.close()


def test_storm_of_faults_leaves_every_job_whole_and_counted(
    place, control_plane, proxy, granted, tmp_path
):
    place.kubelets()
    kubeconfig = control_plane.kubeconfig(
        token=granted(), namespace=place.namespace, server=proxy.url
    )
    process = Path(__file__).with_name("watching_process.py")
    command = [sys.executable, str(process), str(kubeconfig), place.namespace]
    faults = drawn()
    storm = Storm(place, proxy, command, tmp_path / "watchers.log")
    try:
        storm.play(faults)
    finally:
        storm.close()
    failures = sum(len(uids) for uids in storm.ledger.failed.values())
    kills = sum(kind == "watcher-killed" for kind, _, _ in faults)
    print(f"seed {SEED}: {len(faults)} faults, {failures} failures, {kills} kills")
