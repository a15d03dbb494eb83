"""Which numbers of a launcher's command line are its own, and which do not fit its workers."""

from typing import Any

import pytest

from etcompile.launch import launchers as commands
from etcompile.launch.launchers import launches
from etcompile.launch.shell import commands as simple_commands
from specs import HOROVOD, errors, launcher, mpi_job, training_job, warnings, worker

BASH = ["/bin/bash", "-c"]
SH = ["sh", "-c"]


def job(command: list[str], replicas: int = 2, **bounds: int) -> dict[str, Any]:
    document = training_job(replicas=replicas)
    worker(document).update(bounds)
    launcher(document)["template"]["spec"]["containers"][0]["command"] = command
    return document


@pytest.mark.parametrize(
    "command",
    [
        # What fits.
        HOROVOD,
        [*SH, "cd /app && exec horovodrun -np 2 --min-np 1 --max-np 9 python t.py # -np 99"],
        ["/usr/bin/env", "horovodrun", "--num-proc=2", "python", "train.py"],
        ["mpirun", "-np", "2", "hostname"],
        ["mpirun"],
        [*SH, "exec horovodrun"],
        ["deepspeed", "--num_nodes", "2", "train.py"],
        # The program's own options.
        ["python", "-np", "99"],
        ["mpirun", "-np", "2", "./train", "-n", "64"],
        ["mpirun", "--allow-run-as-root", "-np", "2", "python", "t.py", "-np", "64"],
        ["mpirun", "-x", "PATH", "-x", "NCCL_DEBUG=INFO", "gmx_mpi", "mdrun", "-n", "400"],
        ["mpirun", "--mca", "btl_tcp_if_include", "eth0", "lmp", "-in", "a", "-c", "64"],
        [*SH, "mpirun -np 2 python benchmark.py --batch_size 64 -n 500"],
        [*SH, "mpirun -n 2 sh -c 'head -n 500 /data/list'"],
        ["mpiexec", "-n", "2", "osu_allreduce", "-n", "1000"],
        # Other commands of the script.
        [*BASH, "head -n 5 /etc/mpi/hostfile && mpirun -np 2 ./train"],
        [*BASH, "mpirun -np 2 ./train | tail -n 50"],
        [*BASH, "sort -n 9 f; mpirun ./train"],
        [*BASH, "cat > run.sh <<EOF\nmpirun -np 99 ./other\nEOF\nmpirun -np 2 ./train"],
        [*BASH, "# mpirun -np 64 ./old\nmpirun -np 2 ./train"],
        [*BASH, "echo 'mpirun -np 64' && mpirun -np 2 ./train"],
        # Options and variables that let more processes start than there are slots.
        ["mpirun", "--oversubscribe", "-np", "8", "./train"],
        ["mpirun", "-oversubscribe", "-np", "8", "./train"],
        ["mpirun", "-np", "8", "--map-by", "node:OVERSUBSCRIBE", "./train"],
        ["mpirun", "-mca", "rmaps_base_oversubscribe", "1", "-np", "8", "./train"],
        [*BASH, "export OMPI_MCA_rmaps_base_oversubscribe=1\nmpirun -np 8 ./train"],
        # Hosts and slots of its own.
        ["mpirun", "-H", "a:8,b:8", "-np", "16", "./train"],
        ["mpirun", "--host", "localhost:8", "-np", "8", "./train"],
        ["mpirun", "--hostfile", "/data/hosts", "-np", "16", "./train"],
        ["mpirun", "--app", "/data/appfile"],
        ["horovodrun", "-np", "16", "-H", "localhost:16", "python", "t.py"],
        ["horovodrun", "-np", "16", "--hostfile", "/data/hosts", "python", "t.py"],
        # Hydra starts what it is told to.
        ["mpirun", "-genv", "I_MPI_DEBUG", "5", "-n", "8", "./train"],
        ["mpirun", "-ppn", "4", "-n", "8", "./train"],
        ["mpiexec.hydra", "-n", "8", "./train"],
        # Numbers that only the shell knows.
        [*BASH, "mpirun -np $NP ./train"],
        ["bash", "-ec", "horovodrun -np $NP python train.py"],
        [*BASH, 'mpirun -np "${WORKERS:-8}" ./train'],
        [*BASH, "mpirun -np $((8 * 4)) ./train"],
        [*BASH, "mpirun -np `wc -l < /etc/mpi/hostfile` ./train"],
        ["mpirun", "-np", "$(NP)", "./train"],
        [*BASH, "mpirun $MPI_OPTIONS -np 8 ./train"],
        [*BASH, "mpirun -np 8 $MPI_OPTIONS ./train"],
        # Branches, loops and functions that may not run.
        [*BASH, "if [ -f /data/big ]; then mpirun -np 64 ./train; else mpirun -np 2 ./train; fi"],
        [*BASH, '[ -n "$BIG" ] && mpirun -np 64 ./train'],
        [*BASH, "mpirun -np 2 ./train || mpirun -np 64 ./train"],
        [*BASH, "run() { mpirun -np 64 ./train; }\nmpirun -np 2 ./train"],
        [*BASH, "for n in 1 2 64; do mpirun -np 64 ./train; done"],
        [*BASH, "case $SIZE in big) mpirun -np 64 ./train;; esac"],
        # An option of which nothing is known may have a value.
        ["mpirun", "--frobnicate", "-np", "64", "./train"],
        ["mpirun", "--frobnicate", "5", "-np", "64", "./train"],
        # Several programs, of which some tell no number.
        ["mpirun", "-np", "1", "./ps", ":", "-np", "1", "./worker", "-n", "64"],
        ["mpirun", "-np", "9", "./ps", ":", "./worker"],
        # What cannot be split into words.
        [*BASH, "mpirun -np 64 'unbalanced"],
        [*BASH, "mpirun -np 64 $(unbalanced"],
        [*SH, "horovodrun -np 'unbalanced"],
        # Numbers that no program takes.
        ["mpirun", "-np", "9" * 4301, "./train"],
        ["mpirun", "-np", "٣", "./train"],
        ["mpirun", "-np"],
        ["ssh", "host", "mpirun", "-np", "64"],
    ],
)
def test_numbers_that_fit_or_are_not_certain_are_left_alone(command: list[str]) -> None:
    assert warnings(job(command)) == []


@pytest.mark.parametrize(
    "command",
    [
        ["mpirun", "-np", "8", "./train", "-n", "2"],
        ["/usr/local/mpi/bin/mpirun", "--allow-run-as-root", "-np", "8", "./train"],
        ["mpirun", "-x", "PATH", "--mca", "btl", "^openib", "-n", "8", "./train"],
        ["mpirun", "--bind-to", "none", "--map-by", "slot", "-np", "8", "./train"],
        ["mpirun", "--hostfile", "/job/hostfile", "-np", "8", "./train"],
        ["mpiexec", "--np", "8", "./train"],
        ["mpirun", "-np", "1", "./ps", ":", "-np", "7", "./worker"],
        ["env", "-u", "X", "A=b", "mpirun", "-np", "8", "./train"],
        ["timeout", "-k", "5", "3600", "mpirun", "-np", "8", "./train"],
        ["/usr/bin/tini", "--", "mpirun", "-np", "8", "./train"],
        [*BASH, "mpirun -np 8 \\\n  --allow-run-as-root \\\n  -x LD_LIBRARY_PATH \\\n  ./train"],
        [*BASH, "cd /work && OMP_NUM_THREADS=4 exec mpirun -np 8 ./train 2>&1 | tee log"],
        [*BASH, "set -e; sleep 5\nmpirun -np 8 ./train > out.txt"],
        [*BASH, 'bash -lc "source env.sh && mpirun -np 8 ./train"'],
        [*BASH, "su mpiuser -c 'mpirun -np 8 ./train'"],
        [*BASH, "sudo -E -u mpi mpirun -np 8 ./train"],
        [*BASH, "if [ -f x ]; then echo y; fi; mpirun -np 8 ./train"],
        [*BASH, "mpirun -np \"8\" -x 'A=b c' ./train"],
        ["bash", "-euo", "pipefail", "-c", "mpirun -np 8 ./train"],
        ["bash", "-l", "-c", "--", "mpirun -np 8 ./train"],
        ["horovodrun", "--verbose", "-np", "8", "-p", "2222", "python", "t.py", "-np", "1"],
        ["horovodrun", "--mpi-args=--tag-output", "-np", "8", "python", "t.py"],
    ],
)
def test_process_count_of_the_launcher_is_compared_with_the_slots(command: list[str]) -> None:
    assert warnings(job(command)) == ["ET2030"]


def test_container_variable_may_allow_more_processes_than_slots() -> None:
    document = job(["mpirun", "-np", "8", "./train"])
    env = [{"name": "OMPI_MCA_rmaps_base_oversubscribe", "value": "1"}]
    launcher(document)["template"]["spec"]["containers"][0]["env"] = env
    assert warnings(document) == []


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
def test_an_mpi_that_ignores_slots_is_not_held_to_them(implementation: str) -> None:
    document = mpi_job("v2beta1")
    document["spec"]["mpiImplementation"] = implementation
    template = document["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]
    template["spec"]["containers"][0]["command"] = ["mpirun", "-n", "64", "x"]
    assert "ET2030" not in warnings(document)
    document["spec"]["mpiImplementation"] = "OpenMPI"
    assert "ET2030" in warnings(document)


def test_an_option_of_the_launcher_is_read_wherever_its_script_puts_it() -> None:
    script = 'cd /x && mpirun -mca plm_rsh_args "-p 2222" -np 2 ./train -p 9'
    (launch,) = launches({"command": [*SH, script]})
    options = [(option.name, [word.text for word in option.values]) for option in launch.options]
    assert options == [("-mca", ["plm_rsh_args", "-p 2222"]), ("-np", ["2"])]
    assert launch.sure


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (
            {"command": ["/usr/sbin/sshd", "-D", "-p", "2222"]},
            [["/usr/sbin/sshd", "-D", "-p", "2222"]],
        ),
        (
            {"command": ["sh"], "args": ["-c", "mkdir -p /run/sshd; /usr/sbin/sshd -Dp 2222"]},
            [["mkdir", "-p", "/run/sshd"], ["/usr/sbin/sshd", "-Dp", "2222"]],
        ),
        ({"args": ["-c", "sshd -p 22"]}, [["-c", "sshd -p 22"]]),
        ({}, []),
        ({"command": [*BASH, "while :; do sleep 1; done"]}, [[":"], ["sleep", "1"]]),
    ],
)
def test_command_line_is_split_as_its_shell_splits_it(
    container: dict[str, Any], expected: list[list[str]]
) -> None:
    commands = [[word.text for word in command.words] for command in simple_commands(container)]
    assert commands == expected


def test_least_workers_come_from_horovodrun_and_not_from_its_program() -> None:
    words = ["horovodrun", "--host-discovery-script", "/d.sh", "-np", "8", "--min-np", "4"]
    container = {"command": [*words, "python", "t.py", "--min-np", "1"]}
    assert commands.least_workers(container, 8, 1) == 4


@pytest.mark.parametrize(
    "command",
    [
        ["--host-discovery-script", "/etc/edl/discover_hosts.sh", "horovodrun"],
        ["horovodrun", "--host-discovery-script", "x", "--min-np", "1" * 4301],
        ["horovodrun", "--host-discovery-script"],
        [*BASH, "horovodrun --host-discovery-script x --min-np"],
        [*BASH, ""],
        [*BASH],
        [""],
        [*SH, "<<"],
        [*SH, "a <<'EOF"],
        [*SH, "))((;;&&||"],
        [*SH, "\\"],
        [*SH, "$"],
        [*SH, "${"],
        [*SH, '"$(("'],
        [*SH, "eval eval eval eval eval mpirun -np 64"],
    ],
)
def test_no_command_line_is_too_odd_to_read(command: list[str]) -> None:
    document = job(command)
    worker(document).update(maxReplicas=8)
    assert "ET2030" not in warnings(document)


@pytest.mark.parametrize(
    ("limit", "code"),
    [("9" * 30, "ET2014"), ("9" * 4301, "ET4002"), ("2147483648", "ET2014")],
    ids=["30 digits", "no quantity", "one too many"],
)
def test_more_slots_than_a_hostfile_can_tell_are_refused(limit: str, code: str) -> None:
    document = job(["mpirun", "-np", "2", "./train"])
    limits = {"limits": {"nvidia.com/gpu": limit}}
    worker(document)["template"]["spec"]["containers"][0]["resources"] = limits
    assert code in errors(document)


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
