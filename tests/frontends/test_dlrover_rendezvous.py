"""How many nodes meet is read from the words that agents will be started with."""

from typing import Any

import pytest

from etcompile.frontends.rendezvous import Rendezvous, rendezvous
from specs import by_name, compiled, dlrover_type, elastic_job, errors, warnings


def read(command: str, workers: int = 4, **env: str) -> Rendezvous | None:
    variables = [{"name": name, "value": value} for name, value in env.items()]
    return rendezvous({"command": ["bash", "-c", command], "env": variables}, workers)


@pytest.mark.parametrize(
    ("command", "sizes"),
    [
        ("dlrover-run --nnodes=3:$NODE_NUM train.py", (3, 4, 1)),
        ("dlrover-run --nnodes ${NODE_NUM} train.py", (4, 4, 1)),
        ("dlrover-run --nnodes=2:8 --node-unit=2 train.py", (2, 8, 2)),
        ("(sleep 1 &) && exec /usr/bin/dlrover-run --nnodes=3 train.py", (3, 3, 1)),
        ("python -m dlrover.trainer.torch.elastic_run --nnodes=1:2 train.py", (1, 2, 1)),
        ("dlrover-run --auto-config train.py", (4, 4, 1)),
        ("dlrover-run train.py --nnodes=9", (1, 1, 1)),
        ("dlrover-run --nnodes=$WORLD_SIZE train.py", (4, 4, 1)),
    ],
)
def test_it_is_read_where_it_is_written(command: str, sizes: tuple[int, int, int]) -> None:
    rendezvous = read(command)
    assert rendezvous is not None
    assert (rendezvous.minimum, rendezvous.maximum, rendezvous.unit) == sizes


@pytest.mark.parametrize(
    "command",
    [
        "dlrover-run --nnodes=$NODES train.py",
        "dlrover-run --nnodes=$(cat nodes) train.py",
        "dlrover-run --nnodes=2 --node_unit=$UNIT train.py",
        "torchrun --nnodes=2 train.py",
        "./start.sh",
    ],
)
def test_what_cannot_be_read_for_certain_is_not_guessed(command: str) -> None:
    assert read(command) is None


def test_torchs_variable_stands_in_for_the_flag() -> None:
    assert read("dlrover-run train.py", PET_NNODES="2:3") == Rendezvous(2, 3)


def test_timeouts_are_read_from_rdzv_conf() -> None:
    rendezvous = read(
        "dlrover-run --nnodes=2 --rdzv_conf join_timeout=120,lastcall_timeout=30 train.py"
    )
    assert rendezvous == Rendezvous(2, 2, 1, 30, 120)


def worker(command: str, count: int = 2) -> dict[str, Any]:
    return dlrover_type(count, command=["bash", "-c", command])


def test_command_that_hides_the_rendezvous_is_reported_and_not_primed() -> None:
    value = elastic_job({"worker": worker("./start.sh")})
    assert warnings(value) == ["ET2072"]
    data = by_name(compiled(value))["ConfigMap", "mnist-etcompile"]["data"]
    assert "prime-rendezvous.py" not in data


def test_an_annotation_says_what_a_command_hides() -> None:
    notes = {"etcompile.dev/nnodes": "2:3"}
    value = elastic_job({"worker": worker("./start.sh")}, annotations=notes)
    assert warnings(value) == []
    data = by_name(compiled(value))["ConfigMap", "mnist-etcompile"]["data"]
    assert "RENDEZVOUS = (2, 3, 60, 1, 600)" in data["prime-rendezvous.py"]


@pytest.mark.parametrize(
    ("command", "count", "code"),
    [
        ("dlrover-run --nnodes=1:2 train.py", 3, "ET2003"),
        ("dlrover-run --nnodes=3:4 train.py", 2, "ET2004"),
        ("dlrover-run --nnodes=4:3 train.py", 3, "ET2005"),
    ],
)
def test_a_job_that_cannot_meet_is_refused(command: str, count: int, code: str) -> None:
    assert errors(elastic_job({"worker": worker(command, count)})) == [code]


def test_workers_that_do_not_fill_a_node_unit_are_reported() -> None:
    command = "dlrover-run --nnodes=2:4 --node_unit=2 train.py"
    assert warnings(elastic_job({"worker": worker(command, 3)})) == ["ET2030"]
