"""A gang whose commands restart in place: its kubelets, supervisors and processes, step by step.

A supervisor here does what templates/supervise.sh.j2 does, a kubelet delivers late, probes once a
second and reports late, and a process that has lost a peer ends soon, late or never. Whatever is
random comes from one seed. What must never be is checked at each step: two processes alive at once
of different epochs.
"""

import random
from typing import Any

from msgspec import Struct, structs

from etcompile.model import InPlace
from etcompile.model.epochs import Command
from etcompile.watch.actions import CommandPod
from etcompile.watch.state import Supervised, SupervisedContainer
from specs import kubeflow_job, replicas
from world import World

STEP = 0.25
"""Seconds of a step."""
GRACE = 8
"""Seconds that processes may take to end."""


def stamp(now: float) -> str:
    """A time as a kubelet writes it: without fractions, and equal within a second."""
    return f"1970-01-12T{int(now) // 3600 % 24:02}:{int(now) // 60 % 60:02}:{int(now) % 60:02}Z"


class Process(Struct):
    """A process of the command.

    Attributes:
        epoch: The epoch that it belongs to.
        ends: When it ends, in seconds since 1970; None while nothing ends it.
        code: The exit code that it ends with.
    """

    epoch: int
    ends: float | None = None
    code: int = 1


class Container(Struct):
    """The container of a Pod, with its supervisor.

    Attributes:
        name: The Pod's name.
        uid: The Pod's UID.
        starts: When the container starts, in seconds since 1970.
        mark: The last epoch that a process of this Pod began; -1 if none has.
        process: What runs.
        running: The file by which the kubelet knows that the command runs.
        began: When the process began.
        held: Since when the supervisor waits; None if it does not.
        deadline: Until when it waits.
        told: Commands on their way: when they arrive, and what they say.
        heard: The last that arrived.
        watched: Whether the run record had an epoch when the container started.
        up: Whether the container runs.
        ends: How often it has ended.
        probes: When the kubelet probes next.
        reports: Statuses on their way to the API server: when they arrive, and what they say.
        ready: What the kubelet believes.
        since: Since when it believes that.
        started: When the container was last started.
        gone: The Pod's object does not exist any more.
        killed: By when its processes end, once it is to go.
    """

    name: str
    uid: str
    starts: float
    mark: int = -1
    process: Process | None = None
    running: bool = False
    began: float = 0.0
    held: float | None = None
    deadline: float | None = None
    told: list[tuple[float, Command]] = []
    heard: Command | None = None
    watched: bool = False
    up: bool = False
    ends: int = 0
    probes: float = 0.0
    reports: list[tuple[float, Supervised]] = []
    ready: bool = False
    since: str = ""
    started: str = ""
    gone: bool = False
    killed: float | None = None


class Gang(World):
    """A PyTorchJob that restarts in place, or another job that does.

    Args:
        seed: Of all that is random.
        workers: How many replicas there are beside the master.
        documents: Another job that restarts in place, with what belongs to it.
        loses: How many of the commands for Pods that run never get into them, of one.
        options: More of what the job says of restarts in place (`InPlace`).
    """

    def __init__(
        self,
        seed: int,
        workers: int = 3,
        *,
        loses: float = 0.0,
        documents: tuple[dict[str, Any], ...] = (),
        **options: Any,
    ) -> None:
        self.random = random.Random(seed)
        self.loses = loses
        self.containers: dict[str, Container] = {}
        self.patches: list[tuple[float, str, int]] = []
        self.violations: list[str] = []
        self.kept = True
        self.met: set[int] = set()
        self.watched_from = 1e12
        types = {
            "Master": {**replicas("PyTorchJob", 1), "restartPolicy": "OnFailure"},
            "Worker": {**replicas("PyTorchJob", workers), "restartPolicy": "OnFailure"},
        }
        for replica in types.values():
            replica["template"]["spec"]["terminationGracePeriodSeconds"] = GRACE
        super().__init__(*(documents or (kubeflow_job("PyTorchJob", types),)), start=False)
        roles = tuple(role.name for role in self.job.roles)
        self.main = self.job.roles[0].template.main
        asked = self.job.run.in_place or InPlace("together", roles)
        in_place = structs.replace(asked, **{"hold": 20, "stop": 2, **options})
        run = structs.replace(self.job.run, in_place=in_place, together=in_place.mode == "together")
        self.job = structs.replace(self.job, run=run)
        self.sync()

    # ---- the watcher ---------------------------------------------------------------------------

    def create(
        self, name: str, role: str = "", follower: Any = None, *, here: bool = False
    ) -> None:
        super().create(name, role, follower, here=here)
        uid = self.pods[name].uid
        self.change(name, supervised=Supervised((SupervisedContainer(self.main),)))
        starts = self.now + self.random.choice((0.25, 1.0, 2.0, 5.0))
        self.containers[uid] = Container(name, uid, starts, told=[], reports=[])

    def _remove(self, name: str, uid: str) -> None:
        super()._remove(name, uid)
        if self._is(name, uid):
            self.containers[uid].killed = self.now + self.random.choice((0.25, 1.0, 4.0))

    def tell(self, name: str, command: Command | None) -> None:
        super().tell(name, command)
        if command is None:
            return
        container = self.containers[self.pods[name].uid]
        late = 0.0 if container.starts > self.now else self.random.choice((0.0, 0.5, 1.0, 1.0, 3.0))
        before = container.told[-1][0] if container.told else 0.0
        if container.starts > self.now or not self.loses or self.random.random() >= self.loses:
            container.told.append((max(before, self.now + late), command))

    def act(self, action: Any) -> None:
        if isinstance(action, CommandPod):
            self.patches.append((self.now, action.name, action.command.epoch))
        super().act(action)

    # ---- what happens --------------------------------------------------------------------------

    @property
    def alive(self) -> list[Container]:
        """The containers with a process that runs."""
        return [found for found in self.containers.values() if found.process is not None]

    def pass_time(self, seconds: float) -> None:
        """Lets time pass, step by step."""
        until = self.now + seconds
        while self.now < until:
            self.now += STEP
            for container in [*self.containers.values()]:
                self._step(container)
            self._peers()
            if self.kept:
                self.settle()
            if "epoch" in (self.status or {}):
                self.watched_from = min(self.watched_from, self.now)
            epochs = {found.process.epoch for found in self.alive if found.process is not None}
            if len(epochs) > 1:
                who = [(c.name, c.process.epoch) for c in self.alive if c.process is not None]
                self.violations.append(f"{self.now - 1e6:.2f}: {who}")

    def kill_process(self, name: str, code: int = 137) -> None:
        container = self._of(name)
        if container is not None and container.process is not None:
            self._ends(container, code)

    def kill_container(self, name: str) -> None:
        container = self._of(name)
        if container is not None and container.up:
            container.process, container.running, container.up = None, False, False
            container.held = container.deadline = None
            container.ends += 1
            container.starts = self.now + (0.5 if container.ends < 2 else 10.0)
            self._report(container)

    def delete_pod(self, name: str) -> None:
        container = self._of(name)
        if container is None or self.pods[name].deleting:
            return
        self.change(name, deleting=True)
        container.killed = self.now + self.random.choice((0.25, 1.0, 4.0))

    def force_delete(self, name: str) -> None:
        container = self._of(name)
        if container is not None:
            container.killed = self.now + self.random.choice((0.25, 3.0, 7.5))
            container.gone = True
            self.vanish(name)

    def _of(self, name: str) -> Container | None:
        pod = self.pods.get(name)
        return self.containers.get(pod.uid) if pod is not None else None

    def _peers(self) -> None:
        """Processes that have lost a peer end, sooner or later, or hang."""
        alive = {c.name: c.process.epoch for c in self.alive if c.process is not None}
        if len(alive) == len(self.declared):
            self.met |= {*alive.values()}
        for container in self.alive:
            process = container.process
            if process is None or process.ends is not None or process.epoch not in self.met:
                continue
            missing = any(alive.get(name) != process.epoch for name in self.declared)
            if missing and self.random.random() < 0.3:
                process.ends = self.now + self.random.choice((0.0, 0.5, 2.0, 1e9))

    # ---- kubelet and supervisor ----------------------------------------------------------------

    def _step(self, container: Container) -> None:
        if container.killed is not None and self.now >= container.killed:
            container.process, container.up = None, False
            if not container.gone:
                self._goes(container)
            del self.containers[container.uid]
            return
        while container.told and container.told[0][0] <= self.now:
            container.heard = container.told.pop(0)[1]
        if not container.up and container.killed is None and self.now >= container.starts:
            self._boot(container)
        if container.up and container.killed is None:
            self._supervise(container)
            if container.uid not in self.containers:
                return
        if container.up and self.now >= container.probes:
            container.probes = self.now + 1.0
            if container.ready != container.running:
                container.ready, container.since = container.running, stamp(self.now)
                self._report(container)
        while container.reports and container.reports[0][0] <= self.now:
            seen = container.reports.pop(0)[1]
            if not container.gone:
                self._shows(container, seen)

    def _boot(self, container: Container) -> None:
        container.up, container.running, container.ready = True, False, False
        container.started = container.since = stamp(self.now)
        container.probes = self.now + self.random.random()
        container.held = None
        container.watched = self.watched_from <= self.now - 2
        if container.mark < 0 and container.heard is None and not container.watched:
            self._begin(container, 0)
        else:
            container.held, container.deadline = self.now, None
        self._report(container)

    def _begin(self, container: Container, epoch: int) -> None:
        container.process = Process(epoch)
        container.mark, container.running, container.began = epoch, True, self.now
        container.held = container.deadline = None

    def _supervise(self, container: Container) -> None:
        process, wanted = container.process, container.heard
        newer = wanted is not None and wanted.epoch > container.mark
        if process is not None:
            if process.ends is not None and self.now >= process.ends:
                if process.ends < 1e9:
                    self._ends(container, process.code)
            elif newer and (process.ends is None or process.ends >= 1e9):
                process.ends = self.now + self.random.choice((0.0, 0.5, 2.0))
                process.code = -1  # ended by its supervisor
            return
        if container.held is None:
            return
        # What was meant for the container before this one is not for this one.
        if newer and wanted is not None and wanted.run and wanted.ends >= container.ends:
            self._begin(container, wanted.epoch)
        elif newer and wanted is not None and not wanted.run:
            container.running = False
        elif container.deadline is not None and self.now >= container.deadline:
            self.kill_container(container.name)
        elif self.now >= container.began + 3:
            container.running = False

    def _ends(self, container: Container, code: int) -> None:
        container.process, container.held = None, self.now
        by_itself = code != -1
        if by_itself and "epoch" not in (self.status or {}):
            container.running = False
            self.kill_container(container.name)
            return
        in_place = self.job.run.in_place
        assert in_place is not None
        container.deadline = self.now + in_place.hold if by_itself else None
        if not by_itself:
            container.running = False

    def _report(self, container: Container) -> None:
        pod = self.pods.get(container.name)
        if pod is None or pod.uid != container.uid or pod.supervised is None:
            return
        found = SupervisedContainer(
            self.main,
            ready=container.ready and container.up,
            ends=container.ends,
            started=container.started if container.up else "",
        )
        late = self.now + self.random.choice((0.0, 0.25, 0.5))
        last = container.reports[-1][0] if container.reports else 0.0
        container.reports.append(
            (
                max(late, last),
                structs.replace(pod.supervised, containers=(found,), since=container.since),
            )
        )

    def _shows(self, container: Container, seen: Supervised) -> None:
        pod = self.pods.get(container.name)
        if pod is None or pod.uid != container.uid or pod.supervised is None:
            return
        now = pod.supervised
        seen = structs.replace(seen, command=now.command, notice=now.notice)
        up = bool(seen.containers[0].started)
        self.change(
            container.name,
            supervised=seen,
            ready=seen.containers[0].ready,
            phase="Running" if up or pod.phase == "Running" else "Pending",
            restarts=max(0, seen.containers[0].ends - (not up)),
        )

    def _goes(self, container: Container) -> None:
        if self._is(container.name, container.uid):
            if self.random.random() < 0.7:  # else nobody sees that it has ended
                self.change(container.name, phase="Failed", ready=False, exits=((self.main, 143),))
            self.vanish(container.name)
