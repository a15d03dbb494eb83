"""What an exit code, a reason and the last lines of a program say it died of."""

import pytest

from etcompile.failures.causes import cause_of

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'


@pytest.mark.parametrize(
    ("reason", "code", "signal", "text", "expected"),
    [
        ("OOMKilled", 137, 0, "", "OOMKilled"),
        ("Evicted", None, 0, "The node was low on resource: memory.", "Evicted"),
        ("OutOfcpu", None, 0, "Node didn't have enough resource: cpu", "Refused"),
        ("OutOfnvidia.com/gpu", None, 0, "", "Refused"),
        ("TaintToleration", None, 0, "Node doesn't tolerate the Pod", "Refused"),
        ("UnexpectedAdmissionError", None, 0, "Allocate failed", "Refused"),
        ("StartError", 128, 0, 'exec: "trian": executable file not found', "ContainerCannotRun"),
        ("Error", 139, 0, "", "Segfault"),
        ("Error", 1, 11, "", "Segfault"),
        ("Error", 137, 0, "", "Killed"),
        ("Error", 127, 0, "sh: 1: trian: not found", "CommandNotFound"),
        ("Error", 126, 0, "", "NotExecutable"),
        ("Error", 126, 0, "sh: 1: exec: /etc/passwd: Permission denied", "NotExecutable"),
        ("Error", 126, 0, "sh: /x: cannot execute: Exec format error", "ExecFormat"),
        ("Error", 143, 0, "", "Terminated"),
        ("Error", 3, 0, "", "ExitCode"),
        ("Error", 1, 0, f"{TRACE}ValueError: bad shape", "Exception"),
        ("Error", 1, 0, f"{TRACE}ModuleNotFoundError: No module named 'apex'", "Import"),
        ("Error", 1, 0, f"{TRACE}OSError: [Errno 28] No space left on device", "DiskFull"),
        ("Error", 1, 0, f"{TRACE}OutOfMemoryError: CUDA out of memory.", "DeviceMemory"),
        ("Error", 1, 0, f"{TRACE}RuntimeError: CUDA error: uncorrectable ECC error", "Hardware"),
        ("Error", 1, 0, "exec /usr/bin/python: exec format error", "ExecFormat"),
        ("Error", 135, 0, "", "SharedMemory"),
        ("Error", 1, 0, f"{TRACE}ConnectionResetError: Connection reset by peer", "PeerLost"),
        ("Error", 134, 0, "NCCL WARN ... ncclRemoteError: A call failed", "PeerLost"),
        ("Error", 1, 0, "[Rank 3] Watchdog caught collective operation timeout", "PeerLost"),
        ("Error", 1, 0, "horovod.common.exceptions.HorovodInternalError: x", "PeerLost"),
        ("", None, 0, "", "Unknown"),
    ],
)  # fmt: skip
def test_each_end_has_a_name(
    reason: str, code: int | None, signal: int, text: str, expected: str
) -> None:
    assert cause_of(reason, code, signal, text).name == expected


def test_what_is_only_warned_of_is_not_what_it_died_of() -> None:
    warned = "ldconfig: /usr/lib: permission denied\n"
    lost = f"{warned}{TRACE}ConnectionResetError: Connection reset by peer"
    assert cause_of("Error", 1, 0, lost).name == "PeerLost"
    own = f"lost: Connection reset by peer, retrying\n{TRACE}PermissionError: [Errno 13] /ckpt"
    assert cause_of("Error", 1, 0, own).name == "Permission"


def test_a_full_device_counts_whatever_else_is_said() -> None:
    text = f"OSError: [Errno 28] No space left on device\n{TRACE}BrokenPipeError: Broken pipe"
    assert cause_of("Error", 1, 0, text).name == "DiskFull"


def test_only_what_names_a_peer_is_a_consequence() -> None:
    assert cause_of("Error", 143, 0, "").is_consequence
    assert cause_of("Error", 1, 0, "Socket closed").is_consequence
    assert not cause_of("Error", 137, 0, "").is_consequence
    assert not cause_of("Evicted", 143, 0, "").is_consequence


def test_the_longest_lines_are_looked_through_in_no_time() -> None:
    text = "Traceback (most recent call last):\n" + "a." * 100_000 + "\nx.y.OddError: why"
    found = cause_of("Error", 1, 0, text)
    assert found.text == "ended with an exception, OddError: why"
