"""Commands that run again in the Pods that are there, while ranks are killed at random moments.

    ETCOMPILE_KILLS=200 ETCOMPILE_KILLS_SEED=$RANDOM pytest -m node -s \\
        tests/node/test_in_place_on_a_real_node.py -k killed
"""

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from failures.cases import ROOT
from node.real_cluster import Cluster
from node.real_gang import Gang, Watcher, epoch_of, forgetful, read_step
from node.test_kubeflow_on_a_real_node import job as kubeflow_job
from node.test_kubeflow_on_a_real_node import replicas
from specs import container, launcher, training_job, worker
from waiting import eventually

pytestmark = pytest.mark.node

KILLS = int(os.environ.get("ETCOMPILE_KILLS", "12"))
HANGS = int(os.environ.get("ETCOMPILE_HANGS", "3"))
RUSH = float(os.environ.get("ETCOMPILE_KILLS_RUSH", "0.25"))
"""How many kills are not waited for: the next one comes while ranks begin again."""
SEED = int(os.environ.get("ETCOMPILE_KILLS_SEED", "17"))
IN_PLACE = {"etcompile.dev/restart": "in-place", "etcompile.dev/checkpoint-signal": "USR1"}
SILENT = {**IN_PLACE, "etcompile.dev/stuck-after": "60"}
HEALTHY = float(os.environ.get("ETCOMPILE_HEALTHY", "150"))
"""Seconds of steps in which nobody hangs."""
LONGEST = 300.0
"""Seconds without a step after which the run hangs: ranks on two busy cores take their time."""
FROZEN = 20.0
"""Seconds for which a kubelet does nothing."""
WAYS = ("process", "container", "deletion", "forced deletion")

_EACH = (
    "{.metadata.name} {.metadata.uid} {.status.phase}"
    " {.status.containerStatuses[*].ready} {.status.containerStatuses[*].restartCount}"
    " {.status.containerStatuses[*].state.waiting.reason}"
    ' {.metadata.annotations.etcompile\\.dev/epoch}{"\\n"}'
)


@pytest.fixture
def watch(cluster: Cluster, tmp_path: Path) -> Iterator[Callable[..., Watcher]]:
    """Starts the watcher of the namespace, which is stopped in the end."""
    started: list[Watcher] = []

    def start(**how: Any) -> Watcher:
        started.append(Watcher(cluster.namespace, tmp_path / "watcher.log", **how))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.fixture
def seen(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """Every change of every Pod, a line each."""
    file = tmp_path / "pods"
    with file.open("w") as output:
        words = cluster.command("get", "pods", "--watch", "-o", f"jsonpath={_EACH}")
        process = subprocess.Popen(words, stdout=output)
        yield file
        process.terminate()
        process.wait()


# A gang -----------------------------------------------------------------------------------------


class Storm:
    """Kills at random moments, of which it is known what they may take along."""

    def __init__(self, gang: Gang, watcher: Watcher) -> None:
        self.gang, self.watcher = gang, watcher
        self.draws = random.Random(SEED)
        self.lost: set[str] = set()
        """Pods that were lost since it was looked at the last time."""
        self.uids = gang.uids()

    def strike(self) -> tuple[float, list[str]]:
        """Kills something, some of it under a frozen kubelet; returns when, and what."""
        kind = self.draws.choice(("one", "one", "one", "two", "watcher", "kubelet"))
        began = time.time()
        killed: list[str] = []
        if kind == "watcher":
            self.watcher.kill()
            killed.append("watcher")
        if kind == "kubelet":
            node = next(pod["spec"]["nodeName"] for pod in self.gang.pods().values())
            self.gang.freeze_kubelet(node, FROZEN)
            killed.append("kubelet")
        for _ in range(2 if kind == "two" else 1):
            # A kubelet puts off a container that ends twice in ten minutes, whoever ends it.
            there = [
                (name, pod["status"]["containerStatuses"][0]["restartCount"])
                for name, pod in self.gang.pods().items()
                if pod["status"]["phase"] == "Running"
                and "deletionTimestamp" not in pod["metadata"]
                and name not in killed
            ]
            while there:
                name, ends = self.draws.choice(there)
                way = self.draws.choice([way for way in WAYS if way != "container" or not ends])
                if self._killed(name, way, 3.0 if kind == "kubelet" else 0.0):
                    killed += (name, way)
                    break
        if kind == "watcher":
            self.watcher.start()
        return began, killed

    def _killed(self, name: str, way: str, after: float) -> bool:
        if way in ("process", "container"):
            return self.gang.kill(name, way, after) is not None
        self.lost.add(name)
        time.sleep(after)
        self.gang.delete(name, *(("--grace-period=0", "--force") if way != "deletion" else ()))
        return True

    def check_pods(self) -> None:
        """Pods that nobody has deleted are those that were there before."""
        pods = self.gang.pods()
        now = {name: pod["metadata"]["uid"] for name, pod in pods.items()}
        surviving = {name for name in self.uids if name not in self.lost}
        assert {name: now.get(name) for name in surviving} == {
            name: self.uids[name] for name in surviving
        }, f"{self.gang.diagnosis()}\n{self.watcher.log.read_text()}"
        # Under a frozen kubelet, what is deleted stays for a while.
        if now.keys() == self.uids.keys():
            self.lost = {
                name
                for name in self.lost
                if now[name] == self.uids[name] or "deletionTimestamp" in pods[name]["metadata"]
            }
            self.uids = now


@pytest.mark.parametrize("what", ["stop", "loop"])
def test_a_run_of_which_a_rank_hangs_restarts_in_place(
    cluster: Cluster, torch: str, watch: Callable[..., Watcher], what: str
) -> None:
    gang = Gang(cluster, torch, SILENT, MEETS="sockets", PAUSE="0.5")
    gang.apply()
    watcher = watch()
    gang.until_step_of(0.0, LONGEST)
    gang.until_watched(LONGEST)
    gang.prepare()
    before = gang.uids()
    draws = random.Random(SEED)
    for number in range(HANGS):
        name = draws.choice(gang.names)
        began = gang.kill(name, what)
        assert began is not None
        step = gang.until_step_of(began, LONGEST)
        begun = number + 1
        eventually(lambda n=begun: epoch_of(cluster, "gang") == n, 30, watcher.log.read_text)
        record = json.loads(cluster.get("configmap", "gang-etcompile-status")["data"]["record"])
        print(f"{name}: step {step.number} after {step.at - began:.1f} s: {record['epoch_reason']}")
        assert record["epoch"] == number + 1, watcher.log.read_text()
        assert record["epoch_reason"] == "no replica has logged anything for 60 s"
    assert gang.uids() == before
    report = cluster.etcompile("why", "gang")
    print(report)
    assert "Last failure: " in report


def test_healthy_steps_never_count_as_a_hang(
    cluster: Cluster, torch: str, watch: Callable[..., Watcher]
) -> None:
    gang = Gang(cluster, torch, SILENT, MEETS="sockets", PAUSE="1")
    gang.apply()
    watcher = watch()
    gang.until_step_of(0.0, LONGEST)
    gang.until_watched(LONGEST)
    uids = gang.uids()
    time.sleep(HEALTHY)
    last = gang.last_step(gang.names[-1])
    assert last is not None
    assert last.at > time.time() - 30
    status = cluster.get("configmap", "gang-etcompile-status")["data"]
    assert json.loads(status["record"])["epoch"] == 0, watcher.log.read_text()
    assert "failures" not in status
    assert gang.uids() == uids


@pytest.mark.parametrize("meets", ["gloo", "sockets"])
def test_a_gang_whose_ranks_are_killed_ends_with_the_right_sum(
    cluster: Cluster, torch: str, watch: Callable[..., Watcher], seen: Path, meets: str
) -> None:
    gang = Gang(cluster, torch, IN_PLACE, MEETS=meets)
    with forgetful(2.0):
        gang.apply()
    # Kills that follow each other would be a row of failures, after which a run fails.
    watcher = watch(forget=2.0)
    gang.until_step_of(0.0, LONGEST)
    gang.until_watched(LONGEST)
    gang.prepare()
    storm = Storm(gang, watcher)
    took: list[float] = []
    number = 0
    while number < KILLS:
        began, killed = storm.strike()
        number += sum(word in (*WAYS, "watcher") for word in killed)
        print(f"\n{number}: {', '.join(killed)}", end="", flush=True)
        if storm.draws.random() < RUSH and number < KILLS:
            time.sleep(storm.draws.uniform(0, 5))  # whether all run again or not
            continue
        try:
            step = gang.until_step_of(began, LONGEST)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{watcher.log.read_text()}") from error
        took.append(step.at - began)
        print(f": step {step.number} of epoch {step.epoch} after {took[-1]:.1f} s", end="")
        storm.check_pods()
        time.sleep(storm.draws.uniform(0, 3))

    last = gang.finish(after=40)
    cluster.until(
        lambda phases: all(phases[name] in ("Succeeded", "Failed") for name in gang.names), 180
    )
    storm.check_pods()
    assert not storm.lost
    ends = {}
    for name in gang.names:
        lines = gang.lines(name)
        steps = [line for line in lines if line.startswith("step ")]
        assert not [line for line in lines if "VIOLATION" in line]
        assert all(len(set(line.split()[3].split(","))) == 1 for line in steps)
        ends[name] = lines[-1] if "done" not in lines[-2] else lines[-2]
    print("", *ends.items(), watcher.log.read_text(), sep="\n")
    epoch = read_step(steps[-1]).epoch
    epochs, total = ",".join([str(epoch)] * 8), 36 * last * (last + 1) // 2
    expected = f"done step {last} epochs {epochs} sum {total} faults 0"
    assert ends == dict.fromkeys(gang.names, expected)
    assert {cluster.phases()[name] for name in gang.names} == {"Succeeded"}
    assert "CrashLoopBackOff" not in seen.read_text()
    print(f"{number} kills; from kill to step {sorted(round(one, 1) for one in took)} s")


def test_all_ranks_of_a_gang_are_notified_before_one_drains(
    cluster: Cluster, torch: str, watch: Callable[..., Watcher], tmp_path: Path
) -> None:
    gang = Gang(cluster, torch, IN_PLACE, grace=30, MEETS="sockets", STAYS="25")
    gang.apply()
    watcher = watch()
    gang.until_step_of(0.0, LONGEST)
    gang.until_watched(LONGEST)
    uids = gang.uids()
    followers = []
    for name in gang.names:
        with (tmp_path / name).open("w") as output:
            words = cluster.command("logs", "--follow", name, "-c", "pytorch")
            followers.append(subprocess.Popen(words, stdout=output))
    began = time.time()
    gang.evict("gang-worker-3")
    gang.until_step_of(began, LONGEST)
    for follower in followers:
        follower.terminate()
        follower.wait()
    signalled, written = {}, {}
    for name in gang.names:
        for words in map(str.split, (tmp_path / name).read_text().splitlines()):
            if words[:1] == ["signal"]:
                signalled[name] = min(signalled.get(name, 1e12), float(words[words.index("t") + 1]))
            if words[:1] == ["checkpoint"]:
                written[name] = int(words[2]), float(words[words.index("t") + 1])
        after = signalled.get(name, 0) - began
        print(f"\n{name}: told {after:.1f} s after the eviction, {written.get(name)}")
    print(watcher.log.read_text())
    assert signalled.keys() == set(gang.names)
    assert written.keys() == set(gang.names)
    # Nobody ends before all are told; and the checkpoint is one, of the same step everywhere.
    assert max(signalled.values()) < min(at for _, at in written.values())
    assert len({step for step, _ in written.values()}) == 1
    now = gang.uids()
    assert {name for name in gang.names if now[name] != uids[name]} == {"gang-worker-3"}


# A launcher -------------------------------------------------------------------------------------

# Its first mpirun runs until somebody kills it; the next one computes.
LAUNCH = """
echo "epoch $ETCOMPILE_EPOCH"
if [ "$ETCOMPILE_EPOCH" = 0 ]; then
  mpirun -np 2 sleep 100000 &
  echo $! > /tmp/mpirun
  wait $!
  exit $?
fi
mpirun -np 2 hostname
"""
TRUST = """
printf 'StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n' >> /etc/ssh/ssh_config
"""


Job = Callable[[str], dict[str, Any]]


def mpi_job(image: str) -> dict[str, Any]:
    """An MPIJob whose launcher needs no host list but the one that it finds in its environment."""
    roles = {
        "Launcher": replicas(image, "mpi", 1, command=["sh", "-c", TRUST + LAUNCH], env=ROOT),
        "Worker": replicas(image, "mpi", 2),
    }
    for role in roles.values():
        role["restartPolicy"] = "OnFailure"
    policy = {"cleanPodPolicy": "None"}
    document = kubeflow_job("MPIJob", "mpiReplicaSpecs", roles, "v2beta1", runPolicy=policy)
    document["metadata"]["annotations"] = IN_PLACE
    return document


def elastic_job(image: str) -> dict[str, Any]:
    """A TrainingJob that starts its ranks where its list of hosts says."""
    document = training_job("train", replicas=2, cleanPodPolicy="None")
    document["metadata"]["annotations"] = IN_PLACE
    for role in (launcher(document), worker(document)):
        role["template"]["spec"]["containers"] = [container(image=image)]
        role["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    launcher(document)["restartPolicy"] = "OnFailure"
    trainer = launcher(document)["template"]["spec"]["containers"][0]
    script = LAUNCH.replace("mpirun -np 2", "mpirun -np 2 --hostfile /job/hostfile")
    trainer.update(command=["sh", "-c", script], env=ROOT)
    return document


@pytest.mark.parametrize("job", [mpi_job, elastic_job], ids=["mpijob-v2", "trainingjob"])
def test_launcher_command_restarts_with_the_same_workers(
    cluster: Cluster, mpi: str, watch: Callable[..., Watcher], tmp_path: Path, job: Job
) -> None:
    cluster.create_key("train", tmp_path)
    cluster.apply(job(mpi))
    watcher = watch()

    def pods() -> dict[str, tuple[str, int]]:
        """UID, and how often a container of it has ended, of each Pod."""
        ends_by_pod = {}
        for pod in cluster.get("pods")["items"]:
            ends = sum(one["restartCount"] for one in pod["status"].get("containerStatuses", ()))
            ends_by_pod[pod["metadata"]["name"]] = pod["metadata"]["uid"], ends
        return ends_by_pod

    def name() -> str:
        """The launcher's Pod; a Job of Kubernetes adds to its name."""
        return next((name for name in pods() if name.startswith("train-launcher")), "")

    def why() -> str:
        log = cluster.log(name(), "--all-containers") if name() else ""
        return f"{cluster.kubectl('get', 'pods')}{log}{watcher.log.read_text()}"

    eventually(lambda: epoch_of(cluster, "train") is not None, 120, why)
    # Both ranks run: they are there when their launcher dies.
    ranks = ("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    for index in range(2):
        eventually(
            lambda worker=f"train-worker-{index}": (
                "sleep 100000" in cluster.kubectl("exec", worker, "--", *ranks)
            ),
            120,
            why,
        )
    before = pods()
    began = time.monotonic()
    cluster.kubectl("exec", name(), "--", "sh", "-c", 'kill -9 "$(cat /tmp/mpirun)"')
    eventually(lambda: "epoch 1\n" in cluster.log(name()), 120, why)
    print(f"\nits command ran again within {time.monotonic() - began:.1f} s")
    eventually(lambda: cluster.phases()[name()] in ("Succeeded", "Failed"), 120, why)
    lines = cluster.log(name()).splitlines()
    print(*lines, watcher.log.read_text(), sep="\n")
    assert sorted(line for line in lines if line.startswith("train-worker")) == [
        "train-worker-0",
        "train-worker-1",
    ]
    assert cluster.phases()[name()] == "Succeeded"
    now = pods()
    assert {name: now[name] for name in before} == before
    assert dict.fromkeys(now, 0) == {name: ends for name, (_, ends) in now.items()}
