"""preflight.sh, and the checks that come with it, in each shell."""

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

SMI = '#!/bin/sh\n[ "$1" = -L ] || exit 9\n'


@pytest.fixture
def ask(place, script, run, shell) -> Callable[..., Any]:
    """`ask(CHECK, gpus=, tools=)`: what the preflight comes to whose check is this."""

    def ask(check: str, *, gpus: int | None = None, limit: int = 300, **tools: str) -> Any:
        file = place / "preflight-check"
        file.write_text(check + "\n")
        path = script("preflight.sh", check_file=file, timeout_seconds=limit)
        folder = place / "tools"
        folder.mkdir(exist_ok=True)
        for name, text in tools.items():
            tool = folder / name.replace("_", "-")
            tool.write_text(text)
            tool.chmod(0o755)
        env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
        arguments = [] if gpus is None else [str(gpus)]
        return run(*shell, path, *arguments, env=env, cwd=place)

    return ask


@pytest.mark.parametrize(
    ("code", "comes_to"), [(0, 0), (10, 0), (20, 20), (1, 1), (7, 7), (255, 255)]
)
def test_the_exit_code_of_the_check_says_what_becomes_of_the_pod(ask, code, comes_to) -> None:
    done = ask(f"echo looking; exit {code}")
    assert done.returncode == comes_to
    assert done.stdout == "looking\n"
    words = {0: "", 10: "warns", 20: "belongs on another node"}.get(code, f"exit code {code}")
    assert words in done.stderr


def test_the_last_command_decides_where_nothing_exits(ask) -> None:
    assert ask("true && false").returncode == 1
    assert ask("false; true").returncode == 0
    assert ask("echo one\n# two\ntrue").returncode == 0


def test_a_check_that_is_no_shell_text_fails_the_pod(ask) -> None:
    assert ask("if then").returncode not in (0, 10, 20)


@pytest.mark.programs  # goes by the clock
def test_a_check_that_hangs_sends_the_pod_elsewhere(ask) -> None:
    began = time.monotonic()
    # In a container all ends with the script; here its output must be nobody's.
    done = ask("exec sleep 30 > /dev/null 2>&1", limit=2)
    assert done.returncode == 20
    assert time.monotonic() - began < 20
    assert "has not ended after 2 s" in done.stderr


def test_there_is_no_such_check(ask) -> None:
    done = ask("check gpu")
    assert done.returncode == 1
    assert "there are gpus, shm, volume and names" in done.stderr


@pytest.mark.parametrize(("seen", "comes_to"), [(8, 0), (7, 20), (0, 20)])
def test_gpus_are_counted(ask, seen, comes_to) -> None:
    lines = "".join(f"echo 'GPU {n}: NVIDIA H100 (UUID: GPU-{n})'\n" for n in range(seen))
    done = ask("check gpus", gpus=8, nvidia_smi=SMI + lines)
    assert done.returncode == comes_to
    if comes_to:
        assert f"{seen} GPUs are visible, not 8" in done.stderr


def test_expected_number_of_gpus_can_be_passed_as_an_argument(ask) -> None:
    assert ask("check gpus 1", gpus=8, nvidia_smi=SMI + "echo 'GPU 0: A'").returncode == 0


def test_a_driver_that_fails_is_the_nodes_fault(ask) -> None:
    broken = SMI + "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18"
    done = ask("check gpus", gpus=8, nvidia_smi=broken)
    assert done.returncode == 20
    assert "Driver/library version mismatch" in done.stderr


def test_a_job_without_gpus_has_none_to_miss(ask) -> None:
    assert ask("check gpus", gpus=0).returncode == 0
    assert ask("check gpus").returncode == 0


@pytest.mark.parametrize(
    ("wanted", "comes_to"), [("64Mi", 0), ("65536Ki", 0), ("65Mi", 1), ("8Gi", 1), ("8", 1)]
)
def test_shared_memory_is_measured(ask, wanted, comes_to) -> None:
    table = (
        "#!/bin/sh\n"
        "echo 'Filesystem 1024-blocks Used Available Capacity Mounted on'\n"
        "echo 'shm 65536 0 65536 0% /dev/shm'\n"
    )
    done = ask(f"check shm {wanted}", df=table)
    assert done.returncode == comes_to
    if wanted == "8Gi":
        assert "/dev/shm has 64 MiB, not 8Gi" in done.stderr


def test_a_volume_is_written_and_read_and_left_as_it_was(ask, place) -> None:
    (place / "checkpoints").mkdir()
    assert ask(f"check volume {place}/checkpoints").returncode == 0
    assert not [*(place / "checkpoints").iterdir()]


def test_a_volume_that_is_not_there_is_not_the_nodes_fault(ask, place) -> None:
    done = ask(f"check volume {place}/nowhere")
    assert done.returncode == 1
    assert f"cannot write and read in {place}/nowhere" in done.stderr


def test_a_volume_that_cannot_be_read_back_is_the_nodes_fault(ask, place) -> None:
    (place / "checkpoints").mkdir()
    broken = "#!/bin/sh\necho 'cat: read error: Input/output error' >&2; exit 1\n"
    assert ask(f"check volume {place}/checkpoints", cat=broken).returncode == 20


def test_names_are_looked_up(ask) -> None:
    knows = '#!/bin/sh\n[ "$2" = kubernetes.default.svc ] || [ "$2" = known ]\n'
    assert ask("check names", getent=knows).returncode == 0
    assert ask("check names known", getent=knows).returncode == 0
    done = ask("check names known unknown", getent=knows)
    assert done.returncode == 20
    assert "the name unknown does not resolve" in done.stderr


def test_checks_can_be_strung_together(ask, place) -> None:
    done = ask(f"check gpus && check volume {place} && check shm 1Ki && echo all; exit 10")
    assert (done.returncode, done.stdout) == (0, "all\n")
