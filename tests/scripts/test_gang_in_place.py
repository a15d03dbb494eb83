"""Gangs of real supervisors that agree by themselves, and whatever may happen to them.

Each member has an address of its own on the loopback, and reaches the coordinator through a proxy
that can be cut, frozen and slowed down. What is played is the kubelet, which starts containers
again, and the watcher, which brings back Pods that are gone. `witness.py` is the command: its
processes see whether any process of another epoch lives.
"""

import asyncio
import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.programs,  # supervisors go by the clock
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]
SUPERVISOR = Path(__file__).parents[2] / "templates" / "supervise.py"
WITNESS = Path(__file__).with_name("witness.py")
KILLS = int(os.environ.get("ETCOMPILE_KILLS", "10"))
"""Faults that each random test causes."""
SEEDS = range(2, 2 + int(os.environ.get("ETCOMPILE_GANGS", "1")))
SLOWER = float(os.environ.get("ETCOMPILE_SLOWER", "2"))
"""By which all times are longer, for a machine that is busy."""
BEAT, LEASE, FENCE, STOP, GRACE = (SLOWER * time for time in (0.15, 0.8, 0.3, 0.2, 0.6))
LINE = re.compile(
    r"etcompile: epoch (\d+) (begins|is the last|needs new Pods)"
    r" \(restarts: (\d+), in a row: (\d+)\): (.*)"
)


class Network:
    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.frozen: set[str] = set()
        self.targets: dict[str, str] = {}
        self.delays: dict[str, float] = {}
        self.writers: dict[str, list[asyncio.StreamWriter]] = {}
        self.servers: list[asyncio.Server] = []
        self.pairs: dict[str, list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]]] = {}
        self.silent: set[asyncio.StreamWriter] = set()

    def open(self, address: str, port: int, target: str) -> None:
        """Leads those who connect to an address to the target."""
        self.targets[address] = target
        self.writers[address] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.writers[address].append(writer)
            try:
                there = await asyncio.open_connection(self.targets[address], port)
            except OSError:
                writer.transport.abort()
                return
            self.writers[address].append(there[1])
            self.pairs.setdefault(address, []).append((writer, there[1]))
            await asyncio.gather(
                self._pump(address, reader, there[1]), self._pump(address, there[0], writer)
            )

        self.servers.append(self._run(asyncio.start_server(serve, address, port)))

    async def _pump(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = await reader.read(1 << 16)
                await asyncio.sleep(self.delays.get(address, 0.0))
                while address in self.frozen:
                    await asyncio.sleep(0.01)
                if not data:
                    break
                writer.write(data)
                await writer.drain()
        if writer not in self.silent:
            writer.close()

    def lead_away(self, address: str, target: str) -> None:
        """Leads to another target; that of before is not told that the connection has ended."""
        self.targets[address] = target

        async def lead_away() -> None:
            for member, coordinator in self.pairs.pop(address, ()):
                self.silent.add(coordinator)
                member.transport.abort()

        self._run(lead_away())

    def cut(self, address: str) -> None:
        async def cut() -> None:
            for writer in self.writers[address]:
                writer.transport.abort()
            self.writers[address].clear()

        self._run(cut())

    def _run(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self.loop).result(10)

    def close(self) -> None:
        async def close() -> None:
            for server in self.servers:
                server.close()
            for writers in self.writers.values():
                for writer in writers:
                    writer.transport.abort()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.sleep(0)

        self._run(close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


class Pod:
    """A Pod: its folder, which outlives its containers, and its container."""

    def __init__(self, gang: "Gang", name: str, number: int) -> None:
        self.gang, self.name, self.uid = gang, name, f"uid-{number}"
        self.address = f"127.{gang.net}.{1 + number // 200}.{1 + number % 200}"
        self.folder = gang.place / f"{name}.{number}"
        for folder in ("scripts", "run", "status"):
            (self.folder / "etc/etcompile" / folder).mkdir(parents=True)
        role, _, index = name.rpartition("-")
        facts = {"spec-hash": "0f3a9c", "uid": self.uid, "role": role, "index": index}
        for fact, text in {**facts, "epoch": gang.annotation}.items():
            (self.folder / "etc/etcompile/scripts" / fact).write_text(text)
        self.process: subprocess.Popen[bytes] | None = None
        self.starts_at = time.monotonic()
        self.killed_at: float | None = None
        self.codes: list[int] = []
        self.proxy = f"127.{gang.net}.{101 + number // 200}.{1 + number % 200}"
        self.leads = name == gang.names[0]
        if not self.leads:
            gang.network.open(self.proxy, gang.port, gang.coordinator_address)

    def start(self) -> None:
        gang = self.gang
        options = ["--root", self.folder, "--bind", self.address, "--port", gang.port]
        options += ["--gang", gang.roles, "--first", gang.names[0], "--coordinator", self.proxy]
        options += ["--beat", BEAT, "--lease", LEASE, "--fence", FENCE, "--stop", STOP]
        options += ["--backoff", 0.05, *gang.options]
        command = [sys.executable, "-SE", WITNESS, gang.place, self.name]
        command += ["stubborn"] * (self.name in gang.stubborn)
        words = [sys.executable, "-SE", SUPERVISOR, *options, "--", *command]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*map(str, words)], stdout=log, stderr=log, cwd=self.folder
            )

    def inside(self) -> Iterator[int]:
        """The processes in the container but its first: they work in the Pod's folder."""
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "cwd").readlink() == self.folder:
                    state = (folder / "stat").read_text().rsplit(") ", 1)[1][0]
                    first = self.process is not None and int(folder.name) == self.process.pid
                    if state != "Z" and not first:
                        yield int(folder.name)

    def send(self, number: int, *, all_of_it: bool = False) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            if all_of_it:
                self.send_command(number)

    def send_command(self, number: int) -> bool:
        processes = [*self.inside()]
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return bool(processes)

    def kill(self) -> None:
        """Ends the container as a whole, as the kernel does when its first process goes."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        while self.send_command(signal.SIGKILL):
            time.sleep(0.005)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""


class Gang:
    def __init__(
        self, place: Path, size: int, seed: int, *options: object, stubborn: Iterable[str] = ()
    ) -> None:
        self.place, self.options = place, options
        self.random = random.Random(seed)
        self.net = 16 + (os.getpid() + seed) % 200
        self.port, self.count, self.annotation = 29999, 0, ""
        self.roles = f"master:1,worker:{size - 1}"
        self.names = ["master-0", *(f"worker-{index}" for index in range(size - 1))]
        self.network = Network()
        self.coordinator_address = ""
        self.pods: dict[str, Pod] = {}
        self.old: list[Pod] = []
        self.restarts, self.stubborn = True, {self.names[-1], *stubborn}
        for name in self.names:
            self.make(name)

    def make(self, name: str) -> Pod:
        self.count += 1
        pod = Pod(self, name, self.count)
        if pod.leads:
            self.coordinator_address = pod.address
            for address in self.network.targets:
                self.network.targets[address] = pod.address
        self.pods[name] = pod
        return pod

    # ---- faults --------------------------------------------------------------------------------

    def delete(self, name: str) -> None:
        pod = self.pods[name]
        if pod.killed_at is None:
            pod.send(signal.SIGTERM)
            pod.killed_at = time.monotonic() + GRACE

    def force_delete(self, name: str, grace: float = 0.0) -> Pod:
        """The Pod is gone for the API server at once, and made again; it may live on."""
        old = self.pods[name]
        self.old.append(old)
        if grace < GRACE:
            old.send(signal.SIGTERM)
        old.killed_at = time.monotonic() + grace
        self.make(name)
        return old

    # ---- kubelets and watcher --------------------------------------------------------------------

    def turn(self) -> None:
        now = time.monotonic()
        for pod in [*self.pods.values(), *self.old]:
            if pod.process is not None and pod.process.poll() is not None:
                pod.codes.append(pod.process.returncode)
                pod.kill()
                pod.process, pod.starts_at = None, now + self.random.uniform(0.05, 0.2)
            if pod.killed_at is not None and (not pod.runs or now >= pod.killed_at):
                pod.kill()
                if pod in self.old:
                    self.old.remove(pod)
                elif self.pods[pod.name] is pod:
                    self.make(pod.name)
            elif pod.process is None and now >= pod.starts_at:
                ended = pod.codes and (pod.codes[-1] == 0 or not self.restarts)
                if not ended:
                    pod.start()

    def passes(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.turn()
            time.sleep(0.01)

    def until(self, condition: Callable[[], Any], what: str, seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds * SLOWER
        while not condition():
            assert time.monotonic() < end, f"{what} in vain\n{self.story()}"
            self.passes(0.02)

    def story(self) -> str:
        pods = [*self.pods.values(), *self.old]
        return "\n".join(f"== {pod.folder.name} {pod.codes}\n{pod.log[-700:]}" for pod in pods)

    def clean_up(self) -> None:
        for pod in [*self.pods.values(), *self.old]:
            pod.send(signal.SIGCONT, all_of_it=True)
            pod.kill()
        self.network.close()

    # ---- what is to be seen --------------------------------------------------------------------

    def epochs(self) -> dict[int, set[str]]:
        """The members that have begun each epoch."""
        by_epoch: dict[int, set[str]] = {}
        path = self.place / "begun"
        for line in path.read_text().splitlines() if path.exists() else ():
            epoch, member = line.split()[:2]
            by_epoch.setdefault(int(epoch), set()).add(member)
        return by_epoch

    def begun(self) -> int:
        full = [epoch for epoch, members in self.epochs().items() if len(members) == self.size]
        return max(full, default=-1)

    @property
    def size(self) -> int:
        return len(self.names)

    def runs(self, since: int, seconds: float = 20.0) -> int:
        """Waits until all run an epoch that is newer, and nobody a newer one."""

        def together() -> bool:
            return self.begun() > since and self.begun() == max(self.epochs())

        self.until(together, f"waited for an epoch after {since}", seconds)
        return self.begun()

    def lines(self, name: str = "master-0") -> list[tuple[int, str, int, int, str]]:
        rows = []
        for match in LINE.finditer(self.pods[name].log):
            epoch, what, restarts, row, why = match.groups()
            rows.append((int(epoch), what, int(restarts), int(row), why))
        return rows

    def last(self, name: str = "master-0") -> tuple[int, str]:
        """Restarts and reason of the newest epoch."""
        line = self.lines(name)[-1]
        return line[2], line[4]

    def is_sound(self) -> None:
        violations = self.place / "violations"
        story = self.place / "story"
        known = story.read_text() if story.exists() else ""
        assert not violations.exists(), violations.read_text() + known + self.story()
        for pod in [*self.pods.values(), *self.old]:
            assert "Traceback" not in pod.log, pod.log
            assert "dropped the connection" not in pod.log, pod.log


@pytest.fixture
def gang(place: Path) -> Iterator[Callable[..., Gang]]:
    gangs: list[Gang] = []

    def make(size: int = 4, seed: int = 0, *options: object, **more: Any) -> Gang:
        gangs.append(Gang(place, size, seed, *options, **more))
        gangs[-1].runs(-1)
        return gangs[-1]

    yield make
    for one in gangs:
        one.clean_up()
        one.is_sound()


# One fault, and what is said of it ----------------------------------------------------------------


def test_the_first_to_fail_is_named_though_others_follow_at_once(gang):
    group = gang(5)
    for turn, name in enumerate(["worker-2", "master-0", "worker-3"]):
        before = group.begun()
        # Of this epoch: the next may begin any moment.
        first, pods = group.pods[name], group.pods.values()
        ending = {*first.inside()}
        others = [process for pod in pods if pod is not first for process in pod.inside()]
        (group.place / f"exit-{name}").write_text(str(3 + turn))
        group.until(lambda: not ending & {*first.inside()}, "end")  # noqa: B023
        time.sleep(0.02 * SLOWER)
        for other in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        group.runs(before)
        assert group.last() == (turn + 1, f"{name} failed first: exit code {3 + turn}")
        assert [group.lines(one)[-1] for one in group.names] == [group.lines()[-1]] * 5


@pytest.mark.parametrize("name", ["worker-1", "master-0"])
def test_a_container_that_is_killed_is_named_though_others_end_first(gang, name):
    group = gang(4)
    for other in group.pods.values():
        if other.name != name:
            other.send_command(signal.SIGKILL)
    group.pods[name].kill()
    group.runs(0)
    # An epoch may have begun between the two kills.
    assert group.last()[1] == f"the container of {name} was killed"


@pytest.mark.parametrize("peers", ["before", "at once", "after", "not at all"])
def test_deletions_are_not_counted_whatever_order_they_are_seen_in(gang, peers):
    group = gang(4, 0, "--backoff-limit", 2)
    for turn, name in enumerate(["worker-1", "master-0", "worker-2", "worker-0"]):
        before, others = group.begun(), [pod for pod in group.pods.values() if pod.name != name]
        if peers == "before":
            others[turn % 3].send_command(signal.SIGKILL)
            group.passes(0.02 * turn)
        group.delete(name)
        if peers == "at once":
            for other in others:
                other.send_command(signal.SIGKILL)
        if peers == "after":
            group.passes(0.02 * turn)
            others[turn % 3].send_command(signal.SIGKILL)
        group.runs(before)
        if peers == "before" and (group.lines()[-1][4] != f"{name} was deleted"):
            # The next epoch had begun before anybody was told of the deletion.
            before = group.begun()
        restarts, why = group.last()
        assert peers == "before" or (restarts, why) == (0, f"{name} was deleted")
        assert restarts <= (1 if peers == "before" else 0)


def test_two_pods_that_are_deleted_together_are_one_epoch_and_no_failure(gang):
    group = gang(4, 0, "--backoff-limit", 0)
    for names in (("worker-0", "worker-1"), ("worker-2", "master-0")):
        before = group.begun()
        for name in names:
            group.delete(name)
        group.until(lambda: all(group.pods[n].runs for n in names), "start")  # noqa: B023
        group.runs(before)
        assert group.last()[0] == 0
        assert group.last()[1].endswith(" was deleted")


def test_a_pod_that_is_deleted_by_force_is_not_counted(gang):
    group = gang(4, 0, "--backoff-limit", 0)
    for name in ("worker-1", "master-0"):
        before = group.begun()
        group.force_delete(name)
        group.runs(before)
        assert group.last() == (0, f"{name} was deleted")


def test_a_coordinator_that_goes_in_good_order_keeps_nobody_waiting(gang):
    group = gang(4)
    group.delete("master-0")
    began = time.monotonic()
    group.runs(0)
    assert time.monotonic() - began < LEASE
    assert group.last() == (0, "master-0 was deleted")


@pytest.mark.parametrize("name", ["worker-1", "master-0"])
def test_a_frozen_node_loses_its_lease_and_comes_back(gang, name):
    group = gang(4)
    group.pods[name].send(signal.SIGSTOP, all_of_it=True)
    group.passes(2 * LEASE)
    assert group.begun() == 0
    group.pods[name].send(signal.SIGCONT, all_of_it=True)
    group.runs(0)
    assert group.last()[1].startswith("the connection to ")


def test_a_frozen_moment_is_none(gang):
    group = gang(4)
    for name in group.names:
        group.pods[name].send(signal.SIGSTOP, all_of_it=True)
        group.passes(0.4 * LEASE)
        group.pods[name].send(signal.SIGCONT, all_of_it=True)
        group.passes(0.3)
    assert group.lines() == []
    assert max(group.epochs()) == 0


def test_a_connection_that_is_cut_ends_the_epoch(gang):
    group = gang(4)
    group.network.cut(group.pods["worker-1"].proxy)
    group.runs(0)
    assert group.last() == (1, "the connection to worker-1 was lost")


def test_a_slow_network_is_no_fault(gang):
    group = gang(4)
    for pod in group.pods.values():
        group.network.delays[pod.proxy] = 0.1
    group.passes(2 * LEASE)
    assert group.begun() == 0
    group.pods["worker-1"].send_command(signal.SIGKILL)
    group.runs(0)
    assert group.last() == (1, "worker-1 failed first: exit code 137 (SIGKILL)")


# Partitions ---------------------------------------------------------------------------------------


def test_the_old_pod_behind_a_partition_ends_before_the_new_one_begins(gang):
    group = gang(4, 0, "--backoff-limit", 0)
    old = group.pods["worker-1"]
    group.network.frozen.add(old.proxy)
    group.force_delete("worker-1", grace=1000)
    group.runs(0)
    assert group.last() == (0, "worker-1 was deleted")
    # It comes back, but its place is taken.
    group.network.frozen.clear()
    group.passes(2 * LEASE)
    assert group.begun() == max(group.epochs()) == 1
    assert old.runs


@pytest.mark.parametrize("replaced", [(), ("worker-1",)])
def test_of_two_coordinators_the_old_one_has_ended_its_command_in_time(gang, replaced):
    stop = STOP if replaced else 3
    group = gang(4, 0, "--stop", stop, stubborn=["master-0"])
    old = group.pods["master-0"]
    targets = dict(group.network.targets)
    stays = [group.force_delete(name, grace=1000) for name in ("master-0", *replaced)]
    group.network.targets.update(targets)
    # The old worker that was replaced stays with the old coordinator. The others are led to the
    # new one; the old one hears nothing of them any more.
    old_ones = {pod.proxy for pod in stays}
    for pod in [*group.pods.values()]:
        if not pod.leads and pod.proxy not in old_ones:
            group.network.lead_away(pod.proxy, group.coordinator_address)
    group.runs(0)
    assert group.last() == (0, "master-0 was deleted")
    # The old coordinator is reached again by all. It waits as the new one has.
    for pod in [*group.pods.values()]:
        if not pod.leads:
            group.network.lead_away(pod.proxy, old.address)
    group.passes(LEASE)
    old.kill()
    for pod in group.pods.values():
        group.network.targets[pod.proxy] = group.coordinator_address
    group.runs(1)


@pytest.mark.parametrize("stopping", ["master-0", "worker-1"])
def test_a_pod_that_its_kubelet_stops_does_not_outlive_its_epoch(gang, stopping):
    """Its kubelet may give it minutes, but a new coordinator does not wait for that."""
    group = gang(4, stubborn=["master-0", "worker-1"])
    old = {group.pods[name].proxy for name in ("master-0", "worker-1")}
    group.pods[stopping].send(signal.SIGTERM)
    group.passes(0.3)
    targets = dict(group.network.targets)
    for name in ("master-0", "worker-1"):
        group.force_delete(name, grace=1000)
    group.network.targets.update({proxy: targets[proxy] for proxy in old & targets.keys()})
    for proxy in group.network.targets.keys() - old:
        group.network.cut(proxy)
    group.runs(0)
    assert group.last() == (0, "master-0 was deleted")


def test_what_was_sent_before_a_partition_and_comes_after_it_does_no_harm(gang):
    group = gang(4)
    for turn in range(2):
        before, pod = group.begun(), group.pods[f"worker-{turn}"]
        group.network.frozen.add(pod.proxy)
        group.passes((1 + turn) * LEASE)
        group.network.frozen.clear()
        group.runs(before)
        group.passes(0.5)


# Ends ---------------------------------------------------------------------------------------------


def test_a_run_that_is_done_ends_with_0_everywhere(gang):
    group = gang(4)
    (group.place / "finish").touch()
    group.until(lambda: all(pod.codes for pod in group.pods.values()), "end")
    assert [pod.codes for pod in group.pods.values()] == [[0]] * 4


def test_members_that_are_done_end_nothing_while_the_first_replica_goes_on(gang):
    group = gang(6)
    for name in group.names[1:]:
        (group.place / f"exit-{name}").write_text("0")
    group.until(lambda: all(group.pods[name].codes for name in group.names[1:]), "end")
    group.passes(0.5)
    assert group.begun() == 0
    assert not group.lines()
    (group.place / "finish").touch()
    group.until(lambda: group.pods["master-0"].codes, "end")
    assert [pod.codes for pod in group.pods.values()] == [[0]] * 6


@pytest.mark.parametrize("ends", ["fails", "is deleted"])
def test_a_gang_in_which_somebody_is_done_needs_new_pods(gang, ends):
    group = gang(4)
    group.restarts = False
    (group.place / "exit-worker-0").write_text("0")
    group.until(lambda: group.pods["worker-0"].codes, "end")
    if ends == "fails":
        (group.place / "exit-worker-1").write_text("3")
    else:
        group.delete("worker-1")
    others = ("master-0", "worker-2")
    group.until(lambda: all(group.pods[name].codes for name in others), "end")
    cause = "worker-1 failed first: exit code 3" if ends == "fails" else "worker-1 was deleted"
    for name in others:
        assert group.lines(name) == [(0, "needs new Pods", 0, 0, cause)]


def test_without_restarts_left_all_end_and_say_why_again_when_they_are_started_again(gang):
    group = gang(4, 0, "--backoff-limit", 1)
    for _ in range(2):
        before = group.begun()
        (group.place / "exit-worker-1").write_text("3")
        if before == 0:
            group.runs(before)
    group.until(lambda: all(len(pod.codes) > 1 for pod in group.pods.values()), "end")
    why = "backoffLimit 1 is reached: worker-1 failed first: exit code 3"
    for name, pod in group.pods.items():
        assert pod.codes[:2] == [3 if name == "worker-1" else 143, 1]
        assert group.lines(name)[-2:] == [(1, "is the last", 1, 1, why)] * 2


def test_an_exit_code_that_is_not_retried_ends_the_run(gang):
    group = gang(4, 0, "--permanent=exit-code")
    group.pods["worker-0"].send_command(signal.SIGKILL)
    group.runs(0)
    group.restarts = False
    (group.place / "exit-worker-0").write_text("3")
    group.until(lambda: all(pod.codes for pod in group.pods.values()), "end")
    why = "its exit code is not retried: worker-0 failed first: exit code 3"
    assert group.lines()[-1] == (1, "is the last", 1, 1, why)


def test_after_five_failures_in_a_row_other_pods_are_needed_which_go_on_counting(gang):
    group = gang(3)
    group.restarts = False
    for epoch in range(6):
        (group.place / "exit-worker-0").write_text("3")
        if epoch < 5:
            group.runs(epoch)
    group.until(lambda: all(pod.codes for pod in group.pods.values()), "end")
    assert group.last("worker-1")[0] == 5
    assert group.lines("worker-1")[-1][:4] == (5, "needs new Pods", 5, 5)
    group.annotation, group.restarts = "5 5", True
    for name in group.names:
        group.make(name)
    group.runs(5)
    assert group.lines() == [(6, "begins", 5, 0, "all Pods were made anew")]
    (group.place / "exit-worker-0").write_text("3")
    group.runs(6)
    assert group.last() == (6, "worker-0 failed first: exit code 3")


# Whatever may happen ------------------------------------------------------------------------------


class Faults:
    def __init__(self, group: Gang) -> None:
        self.group, self.random = group, group.random
        self.undo: list[Callable[[], None]] = []
        self.frozen: set[str] = set()

    def kill_command(self, name: str) -> None:
        self.group.pods[name].send_command(signal.SIGKILL)

    def fail(self, name: str) -> None:
        (self.group.place / f"exit-{name}").write_text("1")

    def kill_container(self, name: str) -> None:
        self.group.pods[name].kill()

    def delete(self, name: str) -> None:
        self.group.delete(name)

    def force_delete(self, name: str) -> None:
        self.group.force_delete(name, self.random.choice((0.0, 0.3)))

    def cut(self, name: str) -> None:
        if not self.group.pods[name].leads:
            self.group.network.cut(self.group.pods[name].proxy)

    def partition(self, name: str) -> None:
        proxy = self.group.pods[name].proxy
        self.group.network.frozen.add(proxy)
        self.undo.append(lambda: self.group.network.frozen.discard(proxy))

    def replace_behind_partition(self, name: str) -> None:
        group = self.group
        if group.pods[name].uid in self.frozen:
            return  # nobody can end what is frozen: docs/recovery.md takes that on trust
        if not group.pods[name].leads:
            self.partition(name)
        group.force_delete(name, grace=3 * LEASE)
        if group.pods[name].leads:
            for pod in group.pods.values():
                if not pod.leads and self.random.random() < 0.7:
                    group.network.lead_away(pod.proxy, group.coordinator_address)

    def freeze(self, name: str) -> None:
        pod = self.group.pods[name]
        whole = self.random.random() < 0.5
        self.frozen.add(pod.uid)
        pod.send(signal.SIGSTOP, all_of_it=whole)
        self.undo.append(lambda: pod.send(signal.SIGCONT, all_of_it=True))

    def slow(self, name: str) -> None:
        proxy = self.group.pods[name].proxy
        self.group.network.delays[proxy] = self.random.uniform(0, 0.3)
        self.undo.append(lambda: self.group.network.delays.pop(proxy, None))

    def one(self) -> Callable[[str], None]:
        kinds = (self.kill_command, self.fail, self.kill_container, self.delete, self.force_delete)
        kinds += (self.cut, self.partition, self.freeze, self.slow, self.replace_behind_partition)
        return self.random.choice(kinds)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_no_two_epochs_meet_and_all_run_again(gang, seed):
    group = gang(4 + seed % 5, seed, "--forget", 0.3)
    faults, done = Faults(group), 0
    while done < KILLS:
        before, story = group.begun(), []
        for _ in range(group.random.choice((1, 1, 2, 3))):
            fault, name = faults.one(), group.random.choice(group.names)
            story.append(f"{fault.__name__} {name}")
            fault(name)
            done += 1
            group.passes(group.random.choice((0.0, 0.02, 0.1, LEASE)))
        group.passes(group.random.choice((0.0, 0.1, LEASE, 1.5 * LEASE)))
        for undo in faults.undo:
            undo()
        faults.undo.clear()
        faults.frozen.clear()
        for path in group.place.glob("exit-*"):
            path.unlink(missing_ok=True)
        with (group.place / "story").open("a") as file:
            file.write(f"{time.time():.3f} {before} {story}\n")
        group.passes(0.3)
        group.until(
            lambda: group.begun() == max(group.epochs()),
            f"{(group.place / 'story').read_text()}",
            30,
        )
        group.is_sound()
