"""A gang that restarts in place, of real processes: the real supervisors under the real rules.

What is played is the kubelet: it starts supervisors, puts what the watcher says into their files a
little late, looks each half second whether the command runs, and says so a little late.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct, structs

from etcompile.model import InPlace
from etcompile.model.epochs import Command, command_text
from etcompile.watch.actions import ReadLog, ReadTail, WarnPod
from etcompile.watch.state import LogActivity, Supervised, SupervisedContainer, Tail
from specs import kubeflow_job, replicas
from world import World

RANK = Path(__file__).with_name("rank.py")
KILLS = int(os.environ.get("ETCOMPILE_KILLS", "10"))
"""Of each of the two gangs."""
WORLD, STEPS = 4, 10_000_000
PROBE, LATE, GRACE = 0.5, 0.3, 1


def stamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Container(Struct):
    """A container with its supervisor, and what its kubelet has yet to deliver."""

    name: str
    uid: str
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    told: list[tuple[float, str]] = []
    reports: list[tuple[float, Supervised]] = []
    ends: int = 0
    ready: bool = False
    since: str = ""
    started: str = ""
    starts: float = 0.0
    probes: float = 0.0
    end_of_grace: float | None = None


class Node(World):
    """A node with a gang on it."""

    def __init__(
        self, place: Path, script: Callable[..., str], shell: list[str], seed: int
    ) -> None:
        self.place, self.script, self.shell = place, script, shell
        self.random = random.Random(seed)
        self.containers: dict[str, Container] = {}
        self.going: list[Container] = []
        self.port = 20_000 + (os.getpid() * 7 + seed * 101) % 20_000
        types = {
            "Master": {**replicas("PyTorchJob", 1), "restartPolicy": "OnFailure"},
            "Worker": {**replicas("PyTorchJob", WORLD - 1), "restartPolicy": "OnFailure"},
        }
        for replica in types.values():
            replica["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE
        super().__init__(kubeflow_job("PyTorchJob", types), start=False)
        roles = tuple(role.name for role in self.job.roles)
        in_place = InPlace("together", roles, hold=20, stop=2)
        run = structs.replace(self.job.run, in_place=in_place, together=True)
        self.job = structs.replace(self.job, run=run)
        self.timeouts = structs.replace(
            self.timeouts, settle=0.5, confirm=0.7, backoff=0.1, forget=1
        )
        self.now = self.watched_since = self.config_created = time.time()
        self.sync()

    # ---- what the watcher does -----------------------------------------------------------------

    def create(
        self, name: str, role: str = "", follower: Any = None, *, here: bool = False
    ) -> None:
        super().create(name, role, follower, here=here)
        uid = self.pods[name].uid
        nothing = SupervisedContainer("pytorch")
        self.change(name, supervised=Supervised((nothing,)))
        folder = self.place / uid
        (folder / "run").mkdir(parents=True)
        (folder / "spec-hash").write_text(self.spec_hash)
        found = Container(name, uid, folder, told=[], reports=[], starts=time.time() + 0.2)
        self.containers[uid] = found

    def tell(self, name: str, command: Command | None) -> None:
        super().tell(name, command)
        if command is not None:
            container = self.containers[self.pods[name].uid]
            late = 0.0 if container.process is None else self.random.uniform(0, LATE)
            container.told.append((time.time() + late, command_text(command)))

    def _remove(self, name: str, uid: str) -> None:
        super()._remove(name, uid)
        if self._is(name, uid):
            self._terminate(self.containers[uid])

    # ---- faults --------------------------------------------------------------------------------

    def kill_process(self, name: str) -> None:
        for container in self._of(name):
            for pid in self._processes(container):
                os.kill(pid, signal.SIGKILL)

    def kill_container(self, name: str) -> None:
        for container in self._of(name):
            self._kill(container)

    def delete_pod(self, name: str) -> None:
        for container in self._of(name):
            if not self.pods[name].deleting:
                self.change(name, deleting=True)
                self._terminate(container)

    def force_delete(self, name: str) -> None:
        for container in self._of(name):
            del self.containers[container.uid]
            self.going.append(container)
            self._terminate(container)
            self.vanish(name)

    def _of(self, name: str) -> Iterator[Container]:
        pod = self.pods.get(name)
        found = self.containers.get(pod.uid) if pod is not None else None
        if found is not None and found.process is not None and found.process.poll() is None:
            yield found

    def _terminate(self, container: Container) -> None:
        if container.process is not None and container.process.poll() is None:
            container.process.terminate()
        container.end_of_grace = time.time() + GRACE

    def _processes(self, container: Container) -> list[int]:
        """The ranks that run in a container: they name its folder among their arguments."""
        found = []
        for status in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = status.read_bytes().split(b"\0")
            except OSError:
                continue
            supervisor = container.process.pid if container.process is not None else 0
            pid = int(status.parent.name)
            if {str(container.folder).encode(), str(RANK).encode()} <= {
                *words
            } and pid != supervisor:
                found.append(pid)
        return found

    def _kill(self, container: Container) -> None:
        """Ends all processes of a container, as the kernel does when its first one goes."""
        if container.process is not None:
            container.process.kill()
            container.process.wait()
        for pid in self._processes(container):
            os.kill(pid, signal.SIGKILL)

    # ---- the kubelet ---------------------------------------------------------------------------

    def pass_time(self, seconds: float) -> None:
        end = time.time() + seconds
        while time.time() < end:
            self.now = time.time()
            for container in [*self.containers.values(), *self.going]:
                self._look_after(container)
            self.settle()
            time.sleep(0.03)

    def _look_after(self, container: Container) -> None:
        now = time.time()
        process = container.process
        if "epoch" in (self.status or {}):
            self._write(container, "status-epoch", (self.status or {})["epoch"])
        if container.end_of_grace is not None:
            if process is not None and process.poll() is None and now < container.end_of_grace:
                return
            self._kill(container)
            if container in self.going:
                self.going.remove(container)
            elif self._is(container.name, container.uid):
                self.change(container.name, phase="Failed", ready=False, exits=(("pytorch", 143),))
                self.settle()
                if self._is(container.name, container.uid):
                    self.vanish(container.name)
            self.containers.pop(container.uid, None)
            return
        while container.told and container.told[0][0] <= now:
            self._write(container, "command", container.told.pop(0)[1])
        if process is not None and process.poll() is not None:
            self._kill(container)
            container.process, container.ready, container.since = None, False, stamp()
            container.ends += 1
            container.starts = now + 0.2
            self._report(container, 0)
        if container.process is None and now >= container.starts:
            self._start(container)
        if container.process is not None and now >= container.probes:
            container.probes = now + PROBE
            ready = (container.folder / "run" / "running").exists()
            if ready != container.ready:
                container.ready, container.since = ready, stamp()
                self._report(container, self.random.uniform(0, LATE))
        while container.reports and container.reports[0][0] <= now:
            self._shows(container, container.reports.pop(0)[1])

    def _start(self, container: Container) -> None:
        folder, index = container.folder, self.declared.index(container.name)
        path = folder / "supervise.sh"
        if not path.exists():
            files = {
                "run_dir": "run",
                "command_file": "command",
                "notice_file": "notice",
                "status_epoch": "status-epoch",
                "status_done": "done",
                "spec_hash_file": "spec-hash",
            }
            told = {name: str(folder / file) for name, file in files.items()}
            made = self.script(
                "supervise.sh",
                **told,
                hold_seconds=20,
                stop_seconds=2,
                checkpoint_signal=None,
                warn_seconds=0,
            )
            Path(made).replace(path)
        rank = [sys.executable, "-S", "-E", str(RANK), str(index), str(WORLD), str(self.port)]
        command = [*self.shell, str(path), "--", *rank, str(STEPS), str(self.place), str(folder)]
        with (self.place / f"{container.name}.log").open("ab") as log:
            container.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.place)
        container.started = container.since = stamp()
        container.probes = time.time() + self.random.uniform(0, PROBE)
        self._report(container, 0)

    def _write(self, container: Container, name: str, text: str) -> None:
        new = container.folder / f"{name}.new"
        new.write_text(f"{text}\n")
        new.replace(container.folder / name)

    def _report(self, container: Container, late: float) -> None:
        pod = self.pods.get(container.name)
        if pod is None or pod.uid != container.uid or pod.supervised is None:
            return
        up = container.process is not None
        seen = SupervisedContainer(
            "pytorch", container.ready, container.ends, container.started if up else ""
        )
        last = container.reports[-1][0] if container.reports else 0.0
        due = max(last, time.time() + late)
        told = Supervised((seen,), since=container.since)
        container.reports.append((due, told))

    def _shows(self, container: Container, told: Supervised) -> None:
        if not self._is(container.name, container.uid):
            return
        supervised = self.pods[container.name].supervised
        if supervised is not None:  # what stands in annotations is no kubelet's to change
            told = structs.replace(told, command=supervised.command, notice=supervised.notice)
        self.change(
            container.name,
            supervised=told,
            ready=told.containers[0].ready,
            phase="Running",
            restarts=told.containers[0].ends,
        )

    def clean_up(self) -> None:
        for container in [*self.containers.values(), *self.going]:
            self._kill(container)

    # ---- what is to be seen --------------------------------------------------------------------

    def steps(self) -> int:
        checkpoint = self.place / "checkpoint"
        return int(checkpoint.read_text()) if checkpoint.exists() else 0

    def trains_on(self, seconds: float = 60) -> None:
        """Waits until another step is done, in the epoch of the record."""
        end, before = time.time() + seconds, self.steps()
        while self.steps() < before + 5:
            assert time.time() < end, f"no step since {before}\n{self.story()}"
            self.pass_time(0.2)

    def story(self) -> str:
        logs = [f"== {log.name}\n{log.read_text()}" for log in sorted(self.place.glob("*.log"))]
        return "\n".join([*logs, repr(self.status), *map(repr, self.pods.values())])


@pytest.mark.parametrize("seed", [1, 2])
def test_no_kill_lets_two_epochs_meet_and_training_goes_on_after_each(
    seed: int, place: Path, script: Callable[..., str], require: Callable[..., str]
) -> None:
    shell = [require("shells", which="dash")] if seed == 1 else [require("shells", which="bash")]
    node = Node(place, script, shell, seed)
    try:
        node.trains_on()
        kills = 0
        while kills < KILLS:
            node.pass_time(node.random.choice((0.0, 0.3, 1.0, 3.5)))
            faults = (node.kill_process, node.kill_container, node.delete_pod, node.force_delete)
            for _ in range(node.random.choice((1, 1, 2))):
                node.random.choice(faults)(node.random.choice(node.declared))
                kills += 1
            if node.random.random() < 0.3:
                node.restart_watcher()
            if node.random.random() < 0.7:
                node.trains_on()
        node.trains_on()
        assert not (place / "violations").exists(), (place / "violations").read_text()
        assert node.record.phase == "Running", node.record
        assert (node.record.epoch or 0) > 0
    finally:
        node.clean_up()


# One rank hangs, and all others wait for it -------------------------------------------------------

HANGS = int(os.environ.get("ETCOMPILE_HANGS", "8"))
SILENT = 3


class Silent(Node):
    """A node whose watcher may read logs, and looks whether they grow."""

    def __init__(self, *given: Any) -> None:
        self.lines: dict[str, list[str]] = {}
        super().__init__(*given)
        in_place = structs.replace(self.job.run.in_place, stack_signal="USR1")
        run = structs.replace(self.job.run, stuck_after=SILENT, in_place=in_place)
        self.job = structs.replace(self.job, run=run)
        self.timeouts = structs.replace(self.timeouts, report=5)

    def act(self, action: Any) -> None:
        super().act(action)
        pod = self.pods.get(getattr(action, "name", ""))
        container = self.containers.get(pod.uid) if pod is not None else None
        if isinstance(action, ReadLog):
            # Of all ranks the first speaks for all: with each step it writes a line.
            written = (self.place / "steps").stat().st_mtime if action.name == self.first else 0.0
            self.heard[action.uid] = LogActivity(self.now, written, "step")
        elif isinstance(action, ReadTail):
            self.tails[action.uid] = Tail(action.of, tuple(self.lines[action.name][-action.most :]))
        elif isinstance(action, WarnPod) and container is not None:
            self._write(container, "notice", action.notice)

    def settle(self, until: Callable[[Any], bool] | None = None) -> float | None:
        # Each line of a log has the time at which it was written.
        for name in self.declared:
            log, known = self.place / f"{name}.log", self.lines.setdefault(name, [])
            found = log.read_text().splitlines() if log.exists() else []
            known += [f"{stamp()} {line}" for line in found[len(known) :]]
        return super().settle(until)

    @property
    def first(self) -> str:
        return self.declared[0]

    def send(self, name: str, number: signal.Signals) -> bool:
        found = [pid for container in self._of(name) for pid in self._processes(container)]
        for pid in found:
            os.kill(pid, number)
        return bool(found)


@pytest.mark.programs
@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (signal.SIGSTOP, "is stopped by a signal"),
        (signal.SIGUSR2, "is in load_batch (rank.py, line "),
    ],
    ids=["stopped", "computes-for-ever"],
)
def test_the_rank_that_hangs_is_named_each_time(
    sent: signal.Signals,
    words: str,
    place: Path,
    script: Callable[..., str],
    require: Callable[..., str],
) -> None:
    node = Silent(place, script, [require("shells", which="dash")], 5)
    try:
        node.trains_on()
        for hang in range(HANGS):
            name = node.random.choice(node.declared)
            before = node.record.epoch or 0
            node.pass_time(node.random.uniform(0, 1))
            assert node.send(name, sent), node.story()
            end = time.time() + 60
            while (node.record.epoch or 0) == before:
                assert time.time() < end, f"{hang}: nobody noticed\n{node.story()}"
                node.pass_time(0.2)
            assert node.record.epoch_reason.startswith(f"{name}: process "), (
                hang,
                name,
                node.record,
            )
            assert words in node.record.epoch_reason
            node.trains_on()
            last = [one for one in node.failures if one.reason == "Stuck"][-1]
            assert (last.pod, last.attempt) == (name, hang)
            assert (sent == signal.SIGUSR2) == ("  load_batch (rank.py, line " in last.tail)
        assert node.record.epoch == HANGS
        assert not (place / "violations").exists(), (place / "violations").read_text()
    finally:
        node.clean_up()


@pytest.mark.programs
def test_healthy_steps_are_never_taken_for_a_hang(
    place: Path, script: Callable[..., str], require: Callable[..., str]
) -> None:
    node = Silent(place, script, [require("shells", which="dash")], 6)
    try:
        node.trains_on()
        node.pass_time(float(os.environ.get("ETCOMPILE_HEALTHY", "30")))
        node.trains_on()
        assert node.record.epoch == 0, node.record.epoch_reason
        assert not node.failures
    finally:
        node.clean_up()
