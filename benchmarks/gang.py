"""Measures gangs of supervisors: from the death of a command until all commands run again.

    python benchmarks/gang.py [--members 8 1000] [--no-docs]

Each supervisor is a process of this machine, as process 1 of a PID namespace of its own as in a
container, and has an address of its own on the loopback. There is no kubelet. The command is
`sleep`, so that what is measured is the supervisors' own part.
"""

import argparse
import contextlib
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from figures import measured_on, short_table, write_figures

ROOT = Path(__file__).parents[1]
SUPERVISOR = ROOT / "templates" / "supervise.py"
COMMAND = 'echo "$ETCOMPILE_EPOCH" >> "$0"; exec sleep 1000000'
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")
TICKS = os.sysconf("SC_CLK_TCK")


class Gang:
    """A gang of so many members."""

    def __init__(self, folder: Path, members: int) -> None:
        self.begun, self.members = folder / "begun", members
        self.begun.touch()
        self.log = (folder / "log").open("ab")
        self.processes: list[subprocess.Popen[bytes]] = []
        for index in range(members):
            root = folder / str(index)
            for name in ("run", "scripts", "status"):
                (root / "etc/etcompile" / name).mkdir(parents=True)
            facts = {"spec-hash": "0f3a9c", "uid": str(index), "role": "worker", "index": index}
            for name, text in facts.items():
                (root / "etc/etcompile/scripts" / name).write_text(str(text))
            options = ["--root", root, "--bind", f"127.9.{1 + index // 200}.{1 + index % 200}"]
            options += ["--gang", f"worker:{members}", "--first", "worker-0", "--forget", 0]
            options += ["--coordinator", "127.9.1.1", "--", "sh", "-c", COMMAND, self.begun]
            line = [*UNSHARE, sys.executable, "-SE", SUPERVISOR, *options]
            self.processes.append(subprocess.Popen([*map(str, line)], stderr=self.log, cwd=root))
            time.sleep(0.02 if index > 20 else 0)  # hundreds that start at once starve all others

    def runs(self) -> tuple[int, float]:
        """Waits until all run the same epoch; returns it, and the time."""
        end = time.monotonic() + 120
        while True:
            epochs = self.begun.read_text().split()
            newest = max(map(int, epochs), default=0)
            if epochs.count(str(newest)) == self.members:
                return newest, time.monotonic()
            if time.monotonic() > end:
                raise TimeoutError(f"{epochs.count(str(newest))} run epoch {newest}")
            time.sleep(0.002)

    def inside(self, index: int) -> list[int]:
        """The supervisor of a member, and its command."""
        pids, pid = [], self.processes[index].pid
        for _ in range(2):
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            pid = int(children[0])
            pids.append(pid)
        return pids

    def restart(self, index: int) -> float:
        """Kills a command; returns the seconds until all run the next epoch."""
        self.begun.write_text("")
        command = self.inside(index)[1]
        began = time.monotonic()
        os.kill(command, signal.SIGKILL)
        return self.runs()[1] - began

    def end(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.log.close()


def processor(pid: int) -> float:
    """The seconds of processor time that a process has used."""
    text = Path(f"/proc/{pid}/schedstat").read_text()
    return int(text.split()[0]) / 1e9


def megabytes(pid: int) -> float:
    """The memory that a process has to itself."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    lines = [line.split() for line in text.splitlines() if line.startswith("Private_")]
    return sum(int(words[1]) for words in lines) / 1024


@contextlib.contextmanager
def gang(members: int) -> Iterator[Gang]:
    """A gang, all of whose commands run."""
    with tempfile.TemporaryDirectory() as folder:
        one = Gang(Path(folder), members)
        try:
            yield one
        finally:
            one.end()


def measure(members: int, kills: int, idle: float) -> Sequence[str]:
    """A row of the table."""
    with gang(members) as one:
        begun = one.runs()[0]
        first, other = one.inside(0)[0], one.inside(members - 1)[0]
        time.sleep(2)
        times = []
        before = processor(first)
        for turn in range(kills):
            times.append(one.restart(turn * 37 % members))
            time.sleep(min(2.0, members / 100))
        assert one.runs()[0] == begun + kills, "an epoch ended by itself"
        busy = (processor(first) - before) / kills
        used = [(processor(first), processor(other))]
        time.sleep(idle)
        used.append((processor(first), processor(other)))
        idles = [(now - then) * 1000 / idle for then, now in zip(*used, strict=True)]
        cells = (
            f"{members:,}",
            f"{statistics.median(times):.2f} s",
            f"{max(times):.2f} s",
            f"{idles[0]:.1f} ms/s, {megabytes(first):.0f} MB",
        )
        print(
            *cells,
            f"a restart: {busy * 1000:.0f} ms",
            f"another, idle: {idles[1]:.1f} ms/s, {megabytes(other):.0f} MB",
            sep=" | ",
            flush=True,
        )
    return cells


def figures_text(rows: list[Sequence[str]], load: float, kills: int) -> str:
    """The figures as the page has them."""
    measured = measured_on(time.strftime("%Y-%m-%d"), load)
    head = ("members", "median", "longest", "first replica, idle")
    return f"{measured} Each row is of {kills} kills.\n\n{short_table(head, rows)}"


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description="Measures gangs of supervisors.")
    parser.add_argument("--members", type=int, nargs="+", default=[8, 100, 1000])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--idle", type=float, default=20.0, help="seconds")
    parser.add_argument("--no-docs", action="store_true", help="print, and write no file")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    rows = [measure(members, options.kills, options.idle) for members in options.members]
    if not options.no_docs:
        text = figures_text(rows, load, options.kills)
        write_figures(ROOT / "docs", "gang", text)


if __name__ == "__main__":
    main()
