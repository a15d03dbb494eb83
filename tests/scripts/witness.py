"""A command whose processes see whether any process of another epoch lives.

    witness.py FOLDER MEMBER [stubborn]

Each process locks the byte of its epoch in the file `epochs` for as long as it lives, and looks
whether anybody holds another. The kernel drops the lock of a process that dies in whatever way.
A file `exit-MEMBER` tells it to end with the exit code in it, `finish` to end with 0.
"""

import fcntl
import os
import signal
import struct
import sys
import time
from pathlib import Path

folder, member = Path(sys.argv[1]), sys.argv[2]
epoch = int(os.environ["ETCOMPILE_EPOCH"])
LOCK = "hhqqi"  # type, whence, start, length, process


def note(name, text):
    number = os.open(folder / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(number, (text + "\n").encode())
    os.close(number)


def lock():
    number = os.open(folder / "epochs", os.O_RDWR | os.O_CREAT)
    read_lock = struct.pack(LOCK, fcntl.F_RDLCK, os.SEEK_SET, epoch, 1, 0)
    fcntl.fcntl(number, fcntl.F_SETLK, read_lock)
    for start, length in ((0, epoch), (epoch + 1, 0)):
        if start or length:
            query = struct.pack(LOCK, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
            holder = struct.unpack(LOCK, fcntl.fcntl(number, fcntl.F_GETLK, query))
            if holder[0] != fcntl.F_UNLCK:
                note(
                    "violations",
                    f"{time.time():.3f} epoch {epoch} of {member} met {holder[2]} in {holder[4]}",
                )


lock()
if "stubborn" in sys.argv and not os.fork():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lock()
    while True:
        signal.pause()
note("begun", f"{epoch} {member} {time.time():.6f} {os.getpid()}")
while True:
    time.sleep(0.01)
    if (folder / "finish").exists():
        sys.exit(0)
    exit_file = folder / f"exit-{member}"
    if exit_file.exists() and (code := exit_file.read_text(encoding="utf-8")):
        exit_file.unlink()
        sys.exit(int(code))
