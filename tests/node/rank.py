"""One rank of a training run, which checks in every step whom it runs it with.

It runs inside Pods, from a ConfigMap. In every step all ranks tell each other their epoch, their
step and what they have added up so far, and sum a number that only the right ranks can make right.
Each writes down how far it is; whoever begins goes on from the furthest of all. What was wrong once
is in that, too, and so in the last line of every rank.

    MEETS=gloo|sockets   how ranks meet: torch.distributed, or plain sockets, which start quickly
    STAYS=SECONDS        after TERM it stays until all have written a checkpoint, at most so long
    PAUSE=SECONDS        between two steps
    LOST=CODE            how it ends when it has lost its peers [1]
    HANGS=1              it does not: it waits for them for ever, as NCCL does, and minds no signal

On USR2 it writes where it is, and on ALRM it hangs in a place of its own.
"""

import os
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path

EPOCH = int(os.environ.get("ETCOMPILE_EPOCH", "0"))
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
ADDRESS = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
STAYS = float(os.environ.get("STAYS", "0"))
PAUSE = float(os.environ.get("PAUSE", "0.05"))
STATE = Path("/state")
SINCE = time.time()


class Signals:
    """What this rank was told last: a signal, and when it leaves at the latest."""

    signal, leaves_at = "", 0.0


def say(*words):
    """A line, in one call: others write to the same log."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def on_signal(number, _frame):
    Signals.signal = signal.Signals(number).name
    say("signal", Signals.signal, "t", round(time.time(), 3))
    if number == signal.SIGTERM:
        if not STAYS:
            os._exit(143)
        Signals.leaves_at = time.time() + STAYS


def load_batch(_number, _frame):
    """Loads for ever."""
    while True:
        sum(range(100_000))
        time.sleep(0.1)


signal.signal(signal.SIGALRM, load_batch)
HANGS = bool(os.environ.get("HANGS"))
if not HANGS:
    signal.signal(signal.SIGUSR1, on_signal)
    signal.signal(signal.SIGTERM, on_signal)


class Gloo:
    """Ranks that meet by torch.distributed."""

    def __init__(self):
        import torch
        import torch.distributed

        self.torch, self.group = torch, torch.distributed
        self.group.init_process_group("gloo")

    def gathered(self, row):
        mine = self.torch.tensor(row, dtype=self.torch.int64)
        rows = [self.torch.zeros_like(mine) for _ in range(WORLD)]
        self.group.all_gather(rows, mine)
        return [row.tolist() for row in rows]

    def reduced(self, number):
        total = self.torch.tensor([number], dtype=self.torch.int64)
        self.group.all_reduce(total)
        return int(total)


class Sockets:
    """Ranks that meet at the first of them."""

    def __init__(self):
        self.peers = []
        if RANK == 0:
            server = socket.create_server(("", ADDRESS[1]), backlog=WORLD)
            self.peers = [server.accept()[0] for _ in range(WORLD - 1)]
            server.close()
        else:
            self.first = self.connected()
        for peer in self.peers or [self.first]:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connected(self):
        while True:
            try:
                connection = socket.create_connection(ADDRESS, timeout=1)
                connection.settimeout(None)
                return connection
            except OSError:
                time.sleep(0.05)

    def gathered(self, row):
        one = struct.Struct(f"!{len(row)}q")
        if RANK == 0:
            rows = [list(row), *(list(one.unpack(self.read(p, one.size))) for p in self.peers)]
            for peer in self.peers:
                peer.sendall(b"".join(one.pack(*values) for values in rows))
            return rows
        self.first.sendall(one.pack(*row))
        received = self.read(self.first, one.size * WORLD)
        return [list(values) for values in one.iter_unpack(received)]

    def reduced(self, number):
        return sum(row[0] for row in self.gathered([number]))

    def read(self, peer, size):
        received = b""
        while len(received) < size:
            more = peer.recv(size - len(received))
            if not more:
                raise ConnectionError("a peer has gone")
            received += more
        return received


def written():
    """Step, sum and number of faults of the last checkpoint."""
    try:
        return [int(word) for word in (STATE / "checkpoint").read_text().split()]
    except FileNotFoundError:
        return [0, 0, 0]


def write(name, *words):
    new = STATE / f"{name}.new"
    new.write_text(" ".join(map(str, words)))
    new.replace(STATE / name)


def last_step():
    """The step after which it is to end; 0 while nobody has said one."""
    try:
        return int((STATE / "last").read_text())
    except (FileNotFoundError, ValueError):
        return 0


def main():
    say("begin", "epoch", EPOCH, "rank", RANK, "t", round(SINCE, 3))
    peers = {"gloo": Gloo, "sockets": Sockets}[os.environ.get("MEETS", "gloo")]()
    step, total, faults = max(peers.gathered(written()))
    while True:
        if Signals.leaves_at and time.time() > Signals.leaves_at:
            return 143
        warned = bool(Signals.signal)
        rows = peers.gathered([EPOCH, step, RANK, total, faults, warned, last_step()])
        epochs, steps, ranks, totals, all_faults, warned, lasts = map(list, zip(*rows, strict=True))
        added = peers.reduced((RANK + 1) * (step + 1))
        right = WORLD * (WORLD + 1) // 2 * (step + 1)
        faults = max(all_faults)
        agree = all(len(set(each)) == 1 for each in (epochs, steps, totals))
        if not agree or sorted(ranks) != list(range(WORLD)) or added != right:
            faults += 1
            say("VIOLATION", "rows", rows, "added", added, "instead of", right)
        step, total = step + 1, total + added
        write("checkpoint", step, total, faults)
        epochs = ",".join(map(str, epochs))
        say("step", step, "epochs", epochs, "sum", total, "since", SINCE, "t", time.time())
        if all(warned):
            say("checkpoint", "step", step, "t", round(time.time(), 3))
            if Signals.signal == "SIGTERM":
                return 143
            Signals.signal = ""
        if 0 < max(lasts) <= step:
            say("done", "step", step, "epochs", epochs, "sum", total, "faults", faults)
            return 0
        time.sleep(PAUSE)


try:
    sys.exit(main())
except (OSError, RuntimeError):
    traceback.print_exc()
    while HANGS:
        signal.pause()
    sys.exit(int(os.environ.get("LOST", "1")))
