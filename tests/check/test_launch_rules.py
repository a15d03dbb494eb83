"""The launcher's numbers held against the workers it will find."""

from typing import Any

import pytest

from specs import HOROVOD, launcher, training_job, warnings, worker


def job(command: list[str], replicas: int = 2, **bounds: int) -> dict[str, Any]:
    document = training_job(replicas=replicas)
    worker(document).update(bounds)
    launcher(document)["template"]["spec"]["containers"][0]["command"] = command
    return document


@pytest.mark.parametrize(
    "command",
    [
        HOROVOD,
        ["sh", "-c", "cd /app && exec horovodrun -np 2 --min-np 1 --max-np 9 python t.py # -np 99"],
        ["/usr/bin/env", "horovodrun", "--num-proc=2", "python", "train.py"],
        ["bash", "-ec", "horovodrun -np $NP python train.py"],
        ["sh", "-c", "horovodrun -np 'unbalanced"],
        ["python", "-np", "99"],
        ["mpirun", "-np", "2", "hostname"],
        ["mpirun"],
        ["sh", "-c", "exec horovodrun"],
        ["deepspeed", "--num_nodes", "2", "train.py"],
    ],
)
def test_what_fits_or_cannot_be_read_is_left_alone(command: list[str]) -> None:
    assert warnings(job(command)) == []


@pytest.mark.parametrize(
    ("command", "bounds"),
    [
        (["horovodrun", "-np", "3", "python"], {}),
        (["sh", "-c", "horovodrun -np 3 python"], {}),
        (["horovodrun", "--num-proc=3", "python"], {}),
        (["mpirun", "-np", "3", "hostname"], {}),
        (["horovodrun", "-np", "1", "--min-np", "2", "python"], {}),
        (["horovodrun", "-np", "2", "--max-np", "1", "python"], {}),
        (["horovodrun", "-np", "2", "--max-np", "9", "python"], {"maxReplicas": 4}),
        (["horovodrun", "-np", "4", "--min-np", "4"], {"replicas": 4, "minReplicas": 2}),
    ],
)
def test_a_number_that_does_not_fit_is_a_warning(command: list[str], bounds: Any) -> None:
    assert warnings(job(command, **bounds)) == ["ET2030"]


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("--hostfile /etc/edl/hostfile", ["ET2030"]),
        ("-machinefile /etc/mpi/hostfile", ["ET2030"]),
        ("--hostfile /job/hostfile", []),
        ("-f /etc/edl/hostfile -ppn 1", []),  # MPICH reads that format
    ],
)
def test_open_mpi_cannot_read_horovods_list_of_hosts(option: str, expected: list[str]) -> None:
    assert warnings(job(["mpirun", *option.split(), "-np", "2", "hostname"])) == expected
    assert warnings(job(["horovodrun", "-np", "2", "-hostfile", "/etc/edl/hostfile", "t"])) == []


def test_slots_multiply() -> None:
    document = job(["horovodrun", "-np", "8", "python"])
    worker(document)["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"nvidia.com/gpu": 4}
    }
    assert warnings(document) == []


def test_one_worker_needs_its_network_interfaces_named() -> None:
    alone = ["horovodrun", "-np", "1", "python"]
    assert warnings(job(alone, replicas=1)) == ["ET2031"]
    named = ["horovodrun", "-np", "1", "--network-interfaces", "eth0", "python"]
    assert warnings(job(named, replicas=1)) == []
