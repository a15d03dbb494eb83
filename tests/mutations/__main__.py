"""`python -m mutations FIRST LAST FOLDER...`: recombined inputs, each within two seconds.

Every fifth is a command line with files of its own (`invocations`). Writes each input that ends in
a traceback, takes longer or needs more than 300 MB to the current directory, under its number.
`PYTHONPATH` must name the folder `tests`.
"""

import io
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

from etcompile import Options, compile, emit  # noqa: A004
from etcompile.integrations.krm import answer
from mutations.invocations import Invocations, resource_list
from mutations.recombination import Recombination, texts

SECONDS, MEGABYTES = 2.0, 300
LARGEST = 100_000
"""Bytes of an input."""


def run(data: bytes, number: int) -> None:
    """Reads an input through one of the doors."""
    if number % 8 == 0:
        for _ in answer(resource_list(data), Options()).texts():
            pass  # written as it comes, as the program does
        return
    compilation = compile("-", stdin=io.BytesIO(data))
    _ = [*map(str, compilation.diagnostics)]
    for _ in emit.blocks(compilation.in_order(), compilation.sources):
        pass


def main(first: int, last: int, folders: list[Path]) -> None:
    whole = texts(folders)
    recombination = Recombination(33, whole)
    start, scratch = Path.cwd(), Path(tempfile.mkdtemp())
    os.environ |= {"KUBECONFIG": str(scratch / "none"), "HOME": str(scratch)}
    lines = Invocations(33, recombination, whole, scratch)
    signal.signal(signal.SIGPROF, signal.default_int_handler)  # by its own time, on a busy machine
    counts = dict.fromkeys(("inputs", "command lines", "tracebacks", "slow", "large"), 0)
    slowest = largest = (0.0, -1)
    for number in range(first, last):
        is_line = number % 5 == 0
        data = b"" if is_line else recombination.input(number)
        if len(data) > LARGEST:
            continue
        counts["command lines" if is_line else "inputs"] += 1
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        size, before = _memory("VmRSS"), time.process_time()
        signal.setitimer(signal.ITIMER_PROF, 30)
        problem = ""
        try:
            if is_line:
                lines.run(number)
            else:
                run(data, number)
        except (Exception, KeyboardInterrupt):
            problem = traceback.format_exc()
        signal.setitimer(signal.ITIMER_PROF, 0)
        took, size = time.process_time() - before, _memory("VmHWM") - size
        slowest, largest = max(slowest, (took, number)), max(largest, (size, number))
        faults = {"tracebacks": problem, "slow": took > SECONDS, "large": size > MEGABYTES}
        for fault in (name for name, is_there in faults.items() if is_there):
            counts[fault] += 1
            if is_line:
                shutil.copytree(scratch / "here", start / str(number), dirs_exist_ok=True)
            else:
                (start / f"{number}.yaml").write_bytes(data)
            tail = problem.strip().splitlines()
            words = [" ".join(lines.last)] if is_line else []
            print(
                number,
                fault,
                f"{took:.1f}s {size:.0f}MB",
                *words,
                *tail[-5:],
                sep=" | ",
                flush=True,
            )
            (start / f"{number}.txt").write_text("\n".join((*words, *tail)), "utf-8", "replace")
    os.chdir(start)
    shutil.rmtree(scratch)
    print(f"{first} to {last}:", *(f"{count} {name}," for name, count in counts.items()))
    print(f"slowest {slowest[0]:.2f} s ({slowest[1]}), largest {largest[0]:.0f} MB ({largest[1]})")
    print(f"all of them in {_memory('VmRSS'):.0f} MB")


def _memory(what: str) -> float:
    match = re.search(rf"{what}:\s*(\d+)", Path("/proc/self/status").read_text())
    return int(match[1]) / 1024 if match else 0.0


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [Path(one) for one in sys.argv[3:]])
