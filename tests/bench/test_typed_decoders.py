"""Typed decoders of msgspec are created at import, because creating one in a thread may crash.

`msgspec.json.decode(text, type=T)` builds what it knows of `T` the first time that it sees it. Two
threads that do so at once can read it half built, and the process ends with a segmentation fault
(docs/dependencies.md). `msgspec.json.Decoder(T)` at module level builds all of it at import.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import etcompile

ROOT = Path(etcompile.__file__).parent
SINGLE_THREADED = ("plan/ignore_differences.py", "plan/plan_file.py", "capacity/snapshot.py")
"""Read files, from the command line only; convert has no form that is built at import."""


SIX_THREADS = """
import sys, threading
from etcompile.causes.log import FailureLog
from etcompile.causes.log import log_text, read_log
from etcompile.causes.goodput import read_timeline
from etcompile.model.run_record import RunRecord, read_record, record_data
sys.setswitchinterval(1e-5)
data = {**record_data(RunRecord("run")), "failures": log_text(FailureLog("run")), "timeline": "{}"}
barrier = threading.Barrier(6)
def work():
    barrier.wait()
    read_record(data), read_log(data), read_timeline(data)
threads = [threading.Thread(target=work) for _ in range(6)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""

TYPED = re.compile(
    r"^ +.*(?:decode\(.*\btype=|\bDecoder\(|(?<!def )(?<!super\(\)\.)\bconvert\()", re.MULTILINE
)
"""Inside a function: a call that names a type to decode to, or builds a decoder."""


def test_no_function_decodes_to_a_type_for_the_first_time() -> None:
    calls = [
        f"{path.relative_to(ROOT)}: {call}"
        for path in sorted(ROOT.rglob("*.py"))
        if str(path.relative_to(ROOT)) not in SINGLE_THREADED
        for call in TYPED.findall(path.read_text("utf-8"))
    ]
    assert calls == [], "create the decoder at module level"


@pytest.mark.parametrize("file", SINGLE_THREADED)
def test_exception_still_decodes_to_a_type_in_a_function(file: str) -> None:
    assert TYPED.search((ROOT / file).read_text("utf-8"))


def test_six_threads_read_a_status_for_the_first_time_at_once():
    for _ in range(10):
        done = subprocess.run([sys.executable, "-c", SIX_THREADS], check=False, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
