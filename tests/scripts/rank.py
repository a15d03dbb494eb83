"""A rank of a gang: in each step all meet at rank 0, and none may be of another epoch.

    rank.py RANK WORLD PORT STEPS FOLDER

Rank 0 writes a checkpoint, the number of steps done, and begins from it. Peers of another epoch are
written to the file `violations`: that must never be. A rank that loses another ends with 1, as a
collective operation does. On USR1 it writes where it is; on USR2 it hangs in a place of its own.
"""

import faulthandler
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, TextIO

faulthandler.register(signal.SIGUSR1)
rank, world, port, steps = map(int, sys.argv[1:5])
folder = Path(sys.argv[5])
epoch = int(os.environ["ETCOMPILE_EPOCH"])
checkpoint = folder / "checkpoint"


def say(name: str, **what: object) -> None:
    with (folder / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"rank": rank, "epoch": epoch, "at": time.time(), **what}) + "\n")


def load_batch(*_: object) -> None:
    while True:
        sum(range(100_000))
        time.sleep(0.05)


def hear(peer: TextIO) -> dict[str, Any]:
    return json.loads(peer.readline())


def lead() -> None:
    server = socket.create_server(("127.0.0.1", port))
    server.settimeout(60)
    step = int(checkpoint.read_text("utf-8")) if checkpoint.exists() else 0
    peers = [server.accept()[0].makefile("rw") for _ in range(world - 1)]
    while step < steps:
        met = list(map(hear, peers))
        if (
            any(one["epoch"] != epoch for one in met)
            or len({one["rank"] for one in met}) < world - 1
        ):
            say("violations", met=met)
        total = sum(one["rank"] for one in met)
        step += 1
        (folder / "checkpoint.new").write_text(str(step), "utf-8")
        (folder / "checkpoint.new").replace(checkpoint)
        for peer in peers:
            peer.write(json.dumps({"epoch": epoch, "step": step, "total": total}) + "\n")
            peer.flush()
        say("steps", step=step, total=total)
        time.sleep(0.05)
    for peer in peers:
        peer.readline()  # until all have left


def follow() -> None:
    end = time.monotonic() + 60
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=60)
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
    peer = connection.makefile("rw")
    step = 0
    while step < steps:
        peer.write(json.dumps({"epoch": epoch, "rank": rank}) + "\n")
        peer.flush()
        heard = hear(peer)
        if heard["epoch"] != epoch:
            say("violations", heard=heard)
        step = heard["step"]


signal.signal(signal.SIGUSR2, load_batch)
say("begun")
if rank == 0:
    lead()
else:
    follow()
