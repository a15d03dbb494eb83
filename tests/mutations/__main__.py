"""`python -m mutations FIRST LAST FOLDER...`: recombined inputs, each within two seconds.

Writes each input that ends in a traceback or takes longer to the current directory, under its
number. `PYTHONPATH` must name the folder `tests`.
"""

import faulthandler
import io
import resource
import sys
import time
import traceback
from pathlib import Path

from etcompile import Options, compile  # noqa: A004
from etcompile.integrations.krm import answer
from mutations.recombination import Recombination, texts

SECONDS = 2.0
_LIST = b"apiVersion: config.kubernetes.io/v1\nkind: ResourceList\nitems:\n"


def run(data: bytes, number: int) -> None:
    """Reads an input through one of the doors."""
    if number % 8 == 0:
        lines = data.replace(b"\n", b"\n  ")
        given = answer(_LIST + b"- " + lines, Options())
        "".join(given.texts())
        return
    found = compile("-", stdin=io.BytesIO(data))
    _ = [*found.objects, *map(str, found.diagnostics)]


def main(first: int, last: int, folders: list[Path]) -> None:
    made = Recombination(33, texts(folders))
    slow = wrong = 0
    for number in range(first, last):
        data = made.input(number)
        if len(data) > 100_000:
            continue
        before = time.process_time()
        faulthandler.dump_traceback_later(60, exit=True)
        try:
            run(data, number)
            problem = ""
        except Exception:
            problem = traceback.format_exc()
        faulthandler.cancel_dump_traceback_later()
        took = time.process_time() - before
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
        if problem or took > SECONDS:
            wrong += bool(problem)
            slow += not problem
            Path(f"{number}.yaml").write_bytes(data)
            tail = problem.strip().splitlines()
            print(number, f"{took:.1f}s", *tail[-4:], sep=" | ", flush=True)
    print(f"{first} to {last}: {wrong} tracebacks, {slow} slow, peak {size >> 20} MB")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), [Path(one) for one in sys.argv[3:]])
