"""A real training with the real DLRover, from what is rendered: no cluster, no operator.

Commands, variables and files are those of the rendered Pods; processes on loopback stand in for
containers, each in namespaces of its own, because DLRover's agents keep sockets under fixed paths.
Who follows a lost worker is made by the compiler from the stored job. Needs a Python before 3.13
with torch and dlrover: `ETCOMPILE_DLROVER_PYTHON` names one.
"""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from etcompile import backend
from etcompile.model import Member
from etcompile.stored import read_stored
from specs import compiled, dlrover_type, elastic_job

STEPS = 120
TRAIN = f"""
import json, os, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
file = os.environ["CHECKPOINT"]
step = json.load(open(file)) if os.path.exists(file) else 0
node = os.environ["NODE_ID"]
print(f"[train] start rank {{rank}}/{{world}} node {{node}} from step {{step}}", flush=True)
while step < {STEPS}:
    ranks = torch.tensor([float(rank)])
    dist.all_reduce(ranks)
    assert ranks.item() == sum(range(world))
    step += 1
    time.sleep(0.3)
    if step % 5 == 0:
        dist.barrier()
        if rank == 0:
            json.dump(step, open(file + ".new", "w"))
            os.replace(file + ".new", file)
            print(f"[train] step {{step}} of world {{world}}", flush=True)
print(f"[train] done rank {{rank}}/{{world}} step {{step}}", flush=True)
"""
LONE = 40
"""Seconds: after 30 a world of one would be formed (reference/dlrover.md 4.5)."""
RUN = (
    "dlrover-run --nnodes=2:2 --nproc_per_node=1 --max_restarts=3 --redirects=1 --tee=1"
    " --rdzv_conf join_timeout=120 train.py"
)
ISOLATED = """
set -e
mkdir -p /tmp/ckpt_sock /tmp/dlrover
for path in /tmp/ckpt_sock /tmp/dlrover /dev/shm; do mount -t tmpfs tmpfs "$path"; done
mount --bind "$HOSTS" /etc/hosts
exec "$@"
"""
PATHS = "/etc/etcompile"
FIELDS = {"status.podIP": "127.0.0.1", "status.hostIP": "127.0.0.1"}
Pod = dict[str, Any]


@pytest.fixture(scope="module")
def python(require: Callable[..., str]) -> Path:
    """A Python with torch and dlrover, on a machine where processes can be isolated."""
    found = Path(os.environ.get("ETCOMPILE_DLROVER_PYTHON", sys.executable))
    probe = [found, "-c", "import torch, dlrover.python.master.main, kubernetes"]
    works = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    require("dlrover", present=works, why=f"{found} has no torch and dlrover, which work")
    alone = subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode == 0
    require("dlrover", present=alone, why="`unshare` may not make namespaces here")
    with contextlib.closing(socket.socket()) as port:
        free = port.connect_ex(("127.0.0.1", 50001)) != 0
    require("dlrover", present=free, why="somebody listens on port 50001")
    return found


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Containers:
    """The containers of a job as processes.

    Args:
        folder: Where files go that containers share.
        python: The Python of their image.
        data: The job's ConfigMap.
    """

    def __init__(self, folder: Path, python: Path, data: Mapping[str, str]) -> None:
        self.folder, self.data, self.bin = folder, data, python.parent
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "hosts").write_text("127.0.0.1 localhost elasticjob-toy-dlrover-master\n")
        (folder / "train.py").write_text(TRAIN)

    def start(self, pod: Pod) -> str:
        """Starts the init containers of a Pod, one after the other, and then its main one."""
        name = pod["metadata"]["name"]
        own = self.folder / name
        scripts, status = own / "scripts", own / "status"
        scripts.mkdir(parents=True, exist_ok=True)
        status.mkdir(exist_ok=True)
        for key, text in self.data.items():
            (scripts / key).write_text(text.replace(PATHS, str(own)))
        run = pod["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        (scripts / "spec-hash").write_text(run)
        [main] = pod["spec"]["containers"]
        with (own / "log").open("ab") as log:
            for container in pod["spec"].get("initContainers", ()):
                assert subprocess.call(**self._process(pod, container, log)) == 0
            self._running[name] = subprocess.Popen(**self._process(pod, main, log))
        return str(name)

    def _process(self, pod: Pod, container: Mapping[str, Any], log: Any) -> dict[str, Any]:
        name = pod["metadata"]["name"]
        own = self.folder / name
        env = {
            one["name"]: one["value"] if "value" in one else _field(pod, one["valueFrom"])
            for one in container.get("env", ())
        }
        command = [word.replace(PATHS, str(own)) for word in container["command"]]
        path = f"{self.bin}:{os.environ['PATH']}"
        shared = {"HOSTS": str(self.folder / "hosts"), "CHECKPOINT": str(self.folder / "step")}
        return {
            "args": [*_unshare(), "sh", "-c", ISOLATED, "sh", *command],
            "env": {"PATH": path, "HOME": str(own), "LANG": "C.UTF-8", **shared, **env},
            "cwd": self.folder,
            "stdout": log,
            "stderr": subprocess.STDOUT,
        }

    def log(self, name: str) -> str:
        """What a container has said."""
        return (self.folder / name / "log").read_text(errors="replace")

    def lose(self, name: str) -> None:
        """Ends a container as a node does that goes down."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def code(self, name: str, timeout: float) -> int:
        """The exit code of a container once it has ended."""
        return self._running[name].wait(timeout)

    def finish(self, name: str, run: str) -> None:
        """Writes the run record, as it is seen in a container."""
        (self.folder / name / "status" / "done").write_text(run)

    def close(self) -> None:
        """Ends all that still run."""
        for name in [*self._running]:
            self.lose(name)


def _field(pod: Pod, source: Mapping[str, Any]) -> str:
    path = source["fieldRef"]["fieldPath"]
    return str(FIELDS.get(path) or pod["metadata"][path.removeprefix("metadata.")])


def eventually(what: str, holds: Callable[[], object], timeout: float = 90) -> float:
    """Seconds until something holds."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < timeout, what
        time.sleep(0.1)
    return time.monotonic() - begun


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="etcompile-dlrover-"))
    yield made
    shutil.rmtree(made)


def test_workers_train_to_the_end_although_one_and_the_master_are_lost(
    folder: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unbuffered = [{"name": "PYTHONUNBUFFERED", "value": "1"}]
    worker = dlrover_type(2, command=["bash", "-c", RUN], env=unbuffered)
    job = elastic_job({"worker": worker}, name="toy")
    objects = compiled(job).objects
    [config] = [one for one in objects if one["kind"] == "ConfigMap"]
    pods = {one["metadata"]["name"]: one for one in objects if one["kind"] == "Pod"}
    master, first, second = (
        "elasticjob-toy-dlrover-master-0",
        "toy-edljob-worker-0",
        "toy-edljob-worker-1",
    )
    assert [*pods] == [master, first, second]
    run = pods[master]["metadata"]["annotations"]["etcompile.dev/spec-hash"]
    told: list[str] = []
    begun = time.monotonic()

    def say(text: str) -> None:
        told.append(f"{time.monotonic() - begun:6.1f} s  {text}")

    def follow(index: int) -> Pod:
        """The Pod that follows the lost one of rank 1."""
        stored, settings = read_stored(yaml.safe_load(config["data"]["job.yaml"]))
        role = stored.role("worker")
        assert role is not None
        member = Member(index, rank=1, relaunches=index - 1)
        one = structs.replace(stored, roles=(structs.replace(role, members=(member,)),))
        made = backend.lower(one, settings, backend.Texts(), "")
        [pod] = [value for value in made if value["kind"] == "Pod"]
        return pod

    containers = Containers(folder, python, config["data"])
    try:
        containers.start(pods[master])
        for name in (first, second):
            containers.start(pods[name])
            say(f"{name} starts: its gate has found the master")
        eventually("step 10", lambda: "step 10 of world 2" in containers.log(first))
        say("step 10, two workers")
        for index, lost in ((2, second), (3, "toy-edljob-worker-2")):
            if index == 3:
                containers.lose(master)
                say("the master is killed")
                before = containers.log(first).count("[train] step")
                eventually(
                    "steps without a master",
                    lambda n=before: containers.log(first).count("[train] step") > n,
                )
                containers.start(pods[master])
                eventually(
                    "the rendezvous of the new master",
                    lambda: containers.log(master).count("told the master") == 2,
                )
                say("steps went on; the new master is told of its rendezvous")
            containers.lose(lost)
            say(f"{lost} is killed")
            if index == 3:
                # Longer than a master that knows of no rendezvous waits with a single node.
                time.sleep(LONE)
                say("the other worker has waited for another one")
            name = containers.start(follow(index))
            took = eventually(
                "two workers again",
                lambda n=name: "[train] start rank 1/2" in containers.log(n),
            )
            say(f"{name}, rank 1, trains {took:.1f} s after it started")
        for name in (first, "toy-edljob-worker-3"):
            assert containers.code(name, 180) == 0, containers.log(name)[-2000:]
        say("both workers have ended with 0")
        containers.finish(master, run)
        assert containers.code(master, 30) == 0
        say("the master has ended with the run")
        log = containers.log(first)
        assert f"[train] done rank 0/2 step {STEPS}" in log
        assert set(re.findall(r"start rank (\d/\d)", log)) == {"0/2"}
        starts = [int(step) for step in re.findall(r"start rank 0/2 .* from step (\d+)", log)]
        assert len(starts) == 3
        assert starts == sorted(starts)
        assert starts[1] > 0
    finally:
        containers.close()
        with capsys.disabled():
            print("\n" + "\n".join(told))
