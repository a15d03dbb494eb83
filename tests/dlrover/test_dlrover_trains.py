"""A real training with the real DLRover, from what is rendered: no cluster, no operator.

Commands, variables and files are those of the rendered Pods; processes on loopback stand in for
containers, each in namespaces of its own, because DLRover's agents keep sockets under fixed paths.
Who follows a lost worker, and when the run is over, is decided by the watcher's rules, and the Pod
is made as the watcher makes it. Needs a Python before 3.13 with torch and dlrover:
`ETCOMPILE_DLROVER_PYTHON` names one.
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from etcompile.compiler.stored_run import StoredRun
from etcompile.model.run_record import RunRecord, record_data
from etcompile.watch.core.run import CreatePod, EmitEvent, JobView, Requeue, WriteStatus
from specs import compiled, dlrover_type, elastic_job
from watcher_rules import decide, observed

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
    program = Path(os.environ.get("ETCOMPILE_DLROVER_PYTHON", sys.executable))
    probe = [program, "-c", "import torch, dlrover.python.master.main, kubernetes"]
    works = subprocess.run(probe, capture_output=True, check=False).returncode == 0
    require("dlrover", present=works, why=f"{program} has no torch and dlrover, which work")
    alone = subprocess.run([*_unshare(), "true"], capture_output=True, check=False).returncode == 0
    require("dlrover", present=alone, why="`unshare` may not make namespaces here")
    with contextlib.closing(socket.socket()) as port:
        free = port.connect_ex(("127.0.0.1", 50001)) != 0
    require("dlrover", present=free, why="somebody listens on port 50001")
    return program


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


class Containers:
    """The containers of a job as processes.

    Args:
        folder: Where files go that containers share.
    """

    def __init__(self, folder: Path, python: Path, data: Mapping[str, str]) -> None:
        self.folder, self.data, self.bin = folder, data, python.parent
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "hosts").write_text("127.0.0.1 localhost elasticjob-toy-dlrover-master\n")
        (folder / "train.py").write_text(TRAIN)

    def start(self, pod: Pod) -> str:
        """Starts the init containers of a Pod, one after the other, and then its main one."""
        name = pod["metadata"]["name"]
        root = self.folder / name
        scripts, status = root / "scripts", root / "status"
        scripts.mkdir(parents=True, exist_ok=True)
        status.mkdir(exist_ok=True)
        for key, text in self.data.items():
            (scripts / key).write_text(text.replace(PATHS, str(root)))
        run = pod["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        (scripts / "spec-hash").write_text(run)
        [main] = pod["spec"]["containers"]
        with (root / "log").open("ab") as log:
            for container in pod["spec"].get("initContainers", ()):
                assert subprocess.call(**self._process(pod, container, log)) == 0
            self._running[name] = subprocess.Popen(**self._process(pod, main, log))
        return str(name)

    def _process(self, pod: Pod, container: Mapping[str, Any], log: Any) -> dict[str, Any]:
        name = pod["metadata"]["name"]
        root = self.folder / name
        env = {
            one["name"]: one["value"] if "value" in one else _field(pod, one["valueFrom"])
            for one in container.get("env", ())
        }
        command = [word.replace(PATHS, str(root)) for word in container["command"]]
        path = f"{self.bin}:{os.environ['PATH']}"
        shared = {"HOSTS": str(self.folder / "hosts"), "CHECKPOINT": str(self.folder / "step")}
        return {
            "args": [*_unshare(), "sh", "-c", ISOLATED, "sh", *command],
            "env": {"PATH": path, "HOME": str(root), "LANG": "C.UTF-8", **shared, **env},
            "cwd": self.folder,
            "stdout": log,
            "stderr": subprocess.STDOUT,
        }

    def log(self, name: str) -> str:
        return (self.folder / name / "log").read_text(errors="replace")

    def lose(self, name: str) -> None:
        """Ends a container as a node does that goes down."""
        process = self._running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(30)

    def code(self, name: str, timeout: float) -> int:
        return self._running[name].wait(timeout)

    def finish(self, name: str, run: str) -> None:
        """Writes the run record, as it is seen in a container."""
        (self.folder / name / "status" / "done").write_text(run)

    def close(self) -> None:
        for name in [*self._running]:
            self.lose(name)


def _field(pod: Pod, source: Mapping[str, Any]) -> str:
    path = source["fieldRef"]["fieldPath"]
    return str(FIELDS.get(path) or pod["metadata"][path.removeprefix("metadata.")])


class Watched:
    """A job as the watcher sees it: its Pods, with the status that kubelets would report."""

    def __init__(self, objects: Iterable[Mapping[str, Any]], say: Callable[[str], None]) -> None:
        copies = [dict(one) for one in objects]
        [config] = [one for one in copies if one["kind"] == "ConfigMap"]
        metadata = {**config["metadata"], "uid": "config", "resourceVersion": "1"}
        self.run = StoredRun({**config, "metadata": metadata})
        self.data: Mapping[str, str] = config["data"]
        self.pods: dict[str, Pod] = {}
        self.record: RunRecord | None = None
        self._say = say
        for one in copies:
            if one["kind"] == "Pod":
                self.add(one)

    def add(self, pod: Pod) -> None:
        """A Pod that was just created, and runs."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        name = pod["metadata"]["name"]
        metadata = {**pod["metadata"], "uid": f"uid-{name}", "creationTimestamp": now}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
        status = {"phase": "Running", "conditions": [ready]}
        self.pods[name] = {**pod, "metadata": metadata, "status": status}

    def ended(self, name: str, code: int) -> None:
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        status = {
            "phase": "Failed" if code else "Succeeded",
            "containerStatuses": [{"name": "main", "state": state, "restartCount": 0}],
        }
        self.pods[name] = {**self.pods[name], "status": status}

    def created(self) -> list[Pod]:
        """The Pods that are to be created now, and are from now on."""
        pods: list[Pod] = []
        actions = decide(self._view(), time.time())
        for action in actions:
            match action:
                case WriteStatus(record):
                    self.record = record
                case CreatePod(name, role, _, _, follower):
                    assert follower is not None, name
                    pod = self.run.undeclared_pod(role, follower, name)
                    self.add(pod)
                    pods.append(pod)
                case EmitEvent():
                    self._say(f"{action.reason} {action.pod or ''}: {action.message}")
                case Requeue():
                    pass
                case _:
                    raise AssertionError(action)
        return pods

    def _view(self) -> JobView:
        return JobView(
            job=self.run.job,
            settings=self.run.settings,
            namespace=self.run.namespace,
            spec_hash=self.run.spec_hash,
            pods={name: observed(pod) for name, pod in self.pods.items()},
            record=self.record,
        )


def eventually(what: str, holds: Callable[[], object], timeout: float = 90) -> float:
    """Seconds until something holds."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < timeout, what
        time.sleep(0.1)
    return time.monotonic() - begun


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="etcompile-dlrover-"))
    yield path
    shutil.rmtree(path)


@pytest.mark.programs  # goes by the clock
def test_workers_train_to_the_end_although_one_and_the_master_are_lost(
    folder: Path, python: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unbuffered = [{"name": "PYTHONUNBUFFERED", "value": "1"}]
    worker = dlrover_type(2, command=["bash", "-c", RUN], env=unbuffered)
    job = elastic_job({"worker": worker}, name="toy")
    lines: list[str] = []
    begun = time.monotonic()

    def say(text: str) -> None:
        lines.append(f"{time.monotonic() - begun:6.1f} s  {text}")

    watched = Watched(compiled(job).objects, say)
    pods = watched.pods
    master, first, second = (
        "elasticjob-toy-dlrover-master-0",
        "toy-edljob-worker-0",
        "toy-edljob-worker-1",
    )
    assert [*pods] == [master, first, second]
    assert not watched.created()
    containers = Containers(folder, python, watched.data)

    def starts() -> int:
        return containers.log(first).count("[train] start rank 0/2")

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
            before = starts()
            containers.lose(lost)
            killed = time.monotonic()
            say(f"{lost} is killed")
            if index == 3:
                # Longer than a master that knows of no rendezvous waits with a single node.
                time.sleep(LONE)
                say("the other worker has waited for another one")
            watched.ended(lost, 137)
            [follower] = watched.created()
            assert not watched.created()
            labels, name = follower["metadata"]["labels"], containers.start(follower)
            assert name == f"toy-edljob-worker-{index}"
            assert labels["elasticjob.dlrover/rank-index"] == "1"
            assert labels["elasticjob.dlrover/relaunch-count"] == str(index - 1)
            eventually(
                "two workers again",
                lambda n=name, m=before: (
                    "[train] start rank 1/2" in containers.log(n) and starts() > m
                ),
            )
            took = time.monotonic() - killed
            say(f"both train again, {name} with rank 1, {took:.1f} s after the kill")
        for name in (first, "toy-edljob-worker-3"):
            code = containers.code(name, 180)
            assert code == 0, containers.log(name)[-2000:]
            watched.ended(name, code)
        say("both workers have ended with 0")
        assert not watched.created()
        assert watched.record is not None
        assert watched.record.phase == "Succeeded"
        containers.finish(master, record_data(watched.record)["done"])
        assert containers.code(master, 30) == 0
        say("the master has ended with the run")
        log = containers.log(first)
        assert f"[train] done rank 0/2 step {STEPS}" in log
        assert set(re.findall(r"start rank (\d/\d)", log)) == {"0/2"}
        begun_at = [int(step) for step in re.findall(r"start rank 0/2 .* from step (\d+)", log)]
        assert len(begun_at) == 3
        assert begun_at == sorted(begun_at)
        assert begun_at[1] > 0
        say(f"rank 0 started from steps {begun_at}, and ended at step {STEPS}")
        said = re.findall(r"Completed \d+ round rendezvous of .*", containers.log(master))
        lines.extend(f"master: {line}" for line in said)
    finally:
        containers.close()
        with capsys.disabled():
            print("\n" + "\n".join(lines))
