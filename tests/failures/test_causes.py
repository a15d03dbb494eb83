"""What an exit code, a reason and the last lines of a program say it died of."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcompile.causes.causes import Row, cause_of, is_strike, known, names

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
ROWS = [*known().messages, *known().texts]
LABELS = {
    **{name: {name} for name in names()},
    "DeviceMemory": {"GPUMemory"},
    "HostMemory": {"Memory"},
    "Hardware": {"GPUFault"},
    "NoDevice": {"NoGPU"},
    "CudaMismatch": {"NoGPU", "Exception"},
    "MissingLibrary": {"Import"},
    "PeerLost": {"LostPeer"},
    "RankEnded": {"PeerFailed"},
    "WorkerUnreachable": {"Launcher"},
    "PortInUse": {"Rendezvous", "Exception"},
    "SshServer": {"SshServer", "Launcher"},
    **{name: {"unknown"} for name in ("ExitCode", "Unknown", "Terminated")},
    **{name: {"Exception"} for name in ("DeviceFault", "Permission", "Storage", "Usage")},
    "Unauthorized": {"Exception", "Answered"},
    "Exception": {"Exception", "Answered"},
    **{name: {"Exception", "Service"} for name in ("Unreachable", "Connection")},
}
"""By our causes those of `log_tails.yaml`; some of its exceptions have a finer name here."""
STRICT = {
    **LABELS,
    "Exception": {"Exception", "Answered", "Service"},
    "Unauthorized": {"Answered"},
    **{name: {"Service"} for name in ("Unreachable", "Connection")},
}
"""Those of `fresh_log_tails.yaml`, where nothing else is called an exception."""


@pytest.mark.parametrize(
    ("reason", "code", "signal", "text", "expected"),
    [
        ("OOMKilled", 137, 0, "", "OOMKilled"),
        ("Evicted", None, 0, "The node was low on resource: memory.", "NodePressure"),
        ("Evicted", None, 0, "through the API, as when a node is drained", "Evicted"),
        ("OutOfcpu", None, 0, "Node didn't have enough resource: cpu", "Refused"),
        ("OutOfnvidia.com/gpu", None, 0, "", "Refused"),
        ("TaintToleration", None, 0, "Node doesn't tolerate the Pod", "Refused"),
        ("UnexpectedAdmissionError", None, 0, "Allocate failed", "Refused"),
        ("StartError", 128, 0, 'exec: "trian": executable file not found in $PATH',
         "CommandNotFound"),
        ("StartError", 128, 0, "error mounting /x to rootfs", "ContainerCannotRun"),
        ("Error", 139, 0, "", "Segfault"),
        ("Error", 1, 11, "", "Segfault"),
        ("Error", 137, 0, "", "Killed"),
        ("Error", 127, 0, "sh: 1: trian: not found", "CommandNotFound"),
        ("Error", 126, 0, "", "NotExecutable"),
        ("Error", 126, 0, "sh: 1: exec: /etc/passwd: Permission denied", "NotExecutable"),
        ("Error", 126, 0, "sh: /x: cannot execute: Exec format error", "ExecFormat"),
        ("Error", 143, 0, "", "Terminated"),
        ("Error", 3, 0, "", "ExitCode"),
        ("Completed", 0, 0, "", "EndedEarly"),
        ("Error", 1, 0, f"{TRACE}ValueError: bad shape", "Exception"),
        ("Error", 1, 0, f"{TRACE}ModuleNotFoundError: No module named 'apex'", "Import"),
        ("Error", 1, 0, f"{TRACE}OSError: [Errno 28] No space left on device", "DiskFull"),
        ("Error", 1, 0, f"{TRACE}OutOfMemoryError: CUDA out of memory.", "DeviceMemory"),
        ("Error", 1, 0, f"{TRACE}RuntimeError: CUDA error: uncorrectable ECC error", "Hardware"),
        ("Error", 1, 0, f"{TRACE}RuntimeError: CUDA error: unspecified launch failure",
         "DeviceFault"),
        ("Error", 1, 0, "exec /usr/bin/python: exec format error", "ExecFormat"),
        ("Error", 135, 0, "", "BusError"),
        ("Error", 134, 0, "NCCL WARN ... ncclRemoteError: A call failed", "PeerLost"),
        ("Error", 1, 0, "[Rank 3] Watchdog caught collective operation timeout",
         "CollectiveTimeout"),
        ("Error", 1, 0, "horovod.common.exceptions.HorovodInternalError: x", "PeerLost"),
        ("", None, 0, "", "Unknown"),
    ],
)  # fmt: skip
def test_each_end_has_a_name(
    reason: str, code: int | None, signal: int, text: str, expected: str
) -> None:
    assert cause_of(reason, code, signal, tail=text).name == expected


def of(text: str) -> str:
    return cause_of("Error", 1, tail=text, job="bert").name


def test_an_error_that_the_program_survived_is_not_what_it_died_of() -> None:
    warned = "ldconfig: /usr/lib: permission denied\n"
    assert of(f"{warned}{TRACE}ncclRemoteError: a call failed") == "PeerLost"
    log = f"lost: Connection reset by peer, retrying\n{TRACE}PermissionError: [Errno 13] /ckpt"
    assert of(log) == "Permission"
    assert of(f"CUDA out of memory handling on\n{TRACE}AssertionError: no size fits") == "Exception"
    assert of("CUDA out of memory. Tried to allocate 2 GiB\nstep 9 loss 1.0") == "ExitCode"
    assert of("OSError: [Errno 30] Read-only file system (ignored)") == "ExitCode"


def test_traceback_before_other_output_is_the_probable_cause() -> None:
    cause = cause_of("Error", 1, tail=f"{TRACE}ValueError: bad shape\nclosing the writer\nstep 3")
    assert cause.text == "probably ended with an exception, ValueError: bad shape"
    # Python ends with 1 if nobody handles an exception.
    assert cause_of("Error", 3, tail=f"{TRACE}ValueError: x\nepoch 3 is done").name == "ExitCode"
    assert of(f"{TRACE}ValueError: bad shape\nsample skipped\nbye") == "ExitCode"
    assert of(f"step 1\n{TRACE}OSError: late\nstep 2\nstep 3\nstep 4") == "ExitCode"
    thread = f"Exception in thread eval:\n{TRACE}RuntimeError: no data\n"
    assert of(f"{thread}step 1\nstep 2\nbudget is used up") == "ExitCode"
    assert of(f"{thread}giving up") == "Exception"
    interrupted = f"{TRACE.splitlines()[0]}\n[data] shard 3\n{TRACE.splitlines()[1]}"
    assert of(f"{interrupted}\nKeyError: 'lr'\n[data] shard 4") == "Exception"


def test_traceback_counts_behind_time_stamps_and_inside_json() -> None:
    lines = f"{TRACE}ValueError: bad shape".splitlines()
    stamped = "\n".join(f"2026-11-20T10:00:01.5Z {line}" for line in lines)
    encoded = json.dumps({"level": "ERROR", "error": "\n".join(lines)})
    assert [of(stamped), of(encoded)] == ["Exception", "Exception"]


def test_crash_after_a_clear_message_has_the_cause_of_the_message() -> None:
    full = "OSError: [Errno 28] No space left on device: '/ckpt/8'"
    again = "Fatal Python error: Segmentation fault"
    assert cause_of("Error", 139, tail=f"{full}\n{again}").name == "DiskFull"
    assert cause_of("Error", 139, tail=again).name == "Segfault"
    assert cause_of("Error", 139, tail="Connection reset by peer").name == "Segfault"
    assert cause_of("Error", 143, tail=full).name == "Terminated"


def test_process_that_open_mpi_names_is_shown_as_its_rank() -> None:
    rule = "-" * 74
    box = "mpirun detected that one or more processes exited with non-zero status, thus causing"
    process = "  Process name: [[13784,1],3]\n  Exit code:    7"
    text = f"{rule}\n{box}\nthe job to end:\n\n{process}\n{rule}"
    assert "Process name: rank 3 Exit code: 7" in cause_of("Error", 7, tail=text).line


def test_every_cause_outside_the_platform_has_advice() -> None:
    assert {c.name for c in known().causes if not c.advice and c.blame != "platform"} == {
        "NodeLost"  # `why` says more where such a Pod waits
    }


def test_of_processes_that_ended_together_the_one_counts_that_lost_no_peer() -> None:
    lost = "torch.distributed.DistBackendError: ncclRemoteError: a call failed"
    assert of(f"[rank0]: {TRACE}[rank0]: {lost}") == "PeerLost"
    split = "DistBackendError: NCCL error\nncclRemoteError: a call failed"
    assert of(f"{TRACE}torch.distributed.{split}") == "PeerLost"
    text = f"{TRACE}ValueError: bad shape\n{TRACE}{lost}"
    assert of(text) == "Exception"
    text = f"OSError: [Errno 28] No space left on device\n{TRACE}{lost}"
    assert of(text) == "DiskFull"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ConnectionResetError: [Errno 104] Connection reset by peer", "Connection"),
        ("ConnectionResetError: [Errno 104] reset by peer: bert-worker-3:9000", "PeerLost"),
        ("ConnectionRefusedError: [Errno 111] Connection refused: 10.0.0.3:29500", "PeerLost"),
        ("socket.gaierror: [Errno -2] Name or service not known", "Connection"),
        ("curl: (6) Could not resolve host: data.example.com", "Unreachable"),
        ("could not connect to minio.storage:9000: Connection refused", "Unreachable"),
        ("redis.exceptions.ConnectionError: Error 111 connecting to redis:6379", "Unreachable"),
        ("psycopg2.OperationalError: connection to server at 'db' failed", "Unreachable"),
        ("OSError: [Errno 98] Address already in use", "PortInUse"),
        ("BrokenPipeError: [Errno 32] Broken pipe", "Connection"),
    ],
)
def test_a_connection_is_a_lost_peer_only_if_it_names_one(text: str, expected: str) -> None:
    assert of(f"{TRACE}{text}") == expected


def test_the_library_that_raised_says_whose_connection_it_was() -> None:
    frame = '  File "/x/site-packages/{}.py", line 3, in recv\n'
    head, error = "Traceback (most recent call last):\n", "TimeoutError: [Errno 110] timed out"
    assert of(f"{head}{frame.format('torch/distributed/distributed_c10d')}{error}") == "PeerLost"
    assert of(f"{head}{frame.format('redis/connection')}{error}") == "Unreachable"
    # A pipe between a process and its data loader is no connection.
    pipe = f"{head}{frame.format('torch/utils/data/dataloader')}BrokenPipeError: Broken pipe"
    assert of(pipe) == "Exception"
    assert of(f"{head}TypeError: collate() takes 1 argument\n{pipe}") == "Exception"


def test_only_what_names_a_peer_is_a_consequence() -> None:
    assert cause_of("Error", 1, tail="ncclRemoteError: a call failed").is_consequence
    # Nobody is known to have asked for it.
    assert not cause_of("Error", 143).is_consequence
    assert not cause_of("Evicted", 143).is_consequence


def test_only_what_is_the_nodes_counts_against_it() -> None:
    assert {name for name in names() if is_strike(name)} == {
        "Hardware", "NodeLost", "PreflightNode", "Refused",
    }  # fmt: skip


def test_the_longest_lines_are_looked_through_in_no_time() -> None:
    text = "Traceback (most recent call last):\n" + "a." * 100_000 + "\nx.y.OddError: why"
    assert cause_of("Error", 1, tail=text).name in ("Exception", "ExitCode")


# The rows ---------------------------------------------------------------------------------------


def name_of(row: Row, text: str) -> str:
    if row in known().messages:
        reason, _, message = text.partition(": ")
        return cause_of(reason, 1, message=message).name
    return cause_of("Error", 1, tail=text, job="mnist").name


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.cause}: {row.matches[:40]}")
def test_each_row_matches_its_example_and_not_the_other(row: Row) -> None:
    assert name_of(row, row.matches) == row.cause
    assert name_of(row, row.misses) != row.cause
    assert row.source


def test_every_name_in_the_tables_is_a_known_cause() -> None:
    named = {row.cause for row in ROWS} | {*known().reasons.values()}
    named |= {*known().codes.values()} | {*known().signals.values()}
    assert named <= names()
    assert len(names()) == len(known().causes)


@pytest.mark.parametrize(
    "piece",
    [*(row.matches[: n * 7] for row in known().texts for n in (1, 3)), "\n", " ", "a", "A: ",
     "Error", "Traceback (most recent call last):\n", "  File \n", "-" * 41 + "\n", "nccl warn ",
     "exec: \"", "[0]: ", "terminate called\n", "During handling of\n"],
)  # fmt: skip
def test_sixteen_times_the_text_takes_about_sixteen_times_as_long(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        best = float("inf")
        for turn in range(3):
            begun = time.thread_time()
            cause_of("Error", 1, tail=f"{text}\n{turn}")
            cause_of("StartError", 128, tail=f"{text}{turn}")
            best = min(best, time.thread_time() - begun)
        return best

    small, large = seconds(4096), seconds(65536)
    # Quadratic is 256 times. Below some milliseconds the clock says little.
    assert large < max(80 * small, 0.02), f"{large / small:.0f} times"


# The ends of two hundred logs -------------------------------------------------------------------


def score(name: str, labels: dict[str, set[str]]) -> tuple[list[Any], float, float]:
    """What is wrong, the precision and the recall for the logs of a file."""
    tails = yaml.safe_load(Path(__file__).with_name(name).read_text("utf-8"))
    wrong, right, named = [], 0, 0
    for tail in tails:
        seen = verdict(tail, labels)
        if ("unknown" in seen and tail["cause"] == "unknown") or seen == {"unknown"}:
            continue
        named += 1
        if tail["cause"] in seen:
            right += 1
        else:
            wrong.append((tail["name"], tail["cause"], seen))
    expected = sum(tail["cause"] != "unknown" for tail in tails)
    return wrong, 1 - len(wrong) / named, right / expected


def verdict(tail: dict[str, Any], labels: dict[str, set[str]]) -> set[str]:
    """Our cause in the words of the file; another one if it does not show the line."""
    cause = cause_of("Error", tail.get("exit", 1), tail=tail["log"].rstrip(), job="train")
    names = labels[cause.name]
    if cause.name == "Exception" and cause.blame == "unknown":
        names = names | {"unknown"}
    shown = " ".join(f"{cause.text} {cause.line}".split()).lower()
    is_shown = " ".join(tail.get("line", "").split()).lower() in shown
    return names if is_shown or "unknown" in names else {f"{cause.name} by another line"}


def test_two_hundred_ends_of_logs_have_the_cause_that_a_careful_reader_sees() -> None:
    wrong, precision, recall = score("log_tails.yaml", LABELS)
    assert precision >= 0.98, wrong
    assert recall >= 0.7


def test_so_have_two_hundred_others() -> None:
    wrong, precision, recall = score("fresh_log_tails.yaml", STRICT)
    assert precision >= 0.96, wrong
    assert recall >= 0.93
