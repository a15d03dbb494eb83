"""Real mpiruns with the variables, the hostfile and the remote shell that a rendered launcher has.

The launcher's Pod is stood in for by a folder with its files: only the paths differ. There are
no workers to reach: whatever would run in one runs here, after writing down whose it was.
"""

import os
import re
import subprocess

import pytest

import etcompile
from etcompile import Options
from specs import mpi_job

RECORDING = """#!/bin/sh
printf '%s\\n' "$*" >> '{place}/asked'
TMPDIR=$(mktemp -d '{place}/host.XXXXXX') # daemons of one machine would share files there
export TMPDIR
"""
KUBECTL = """while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""
SSH = """while [ "$1" = -x ] || [ "$1" = -o ]; do
    [ "$1" = -x ] || shift
    shift
done
shift
exec sh -c "$*"
"""


@pytest.fixture
def launcher(place):
    """`launcher(JOB)`: the environment of its launcher, whose files are in `place`."""

    def pod(job):
        compilation = etcompile.compile(job, Options(namespace="ml"))
        assert compilation.ok, compilation.diagnostics
        [data] = [o["data"] for o in compilation.objects if o["kind"] == "ConfigMap"]
        for key in ("hostfile", "kubexec.sh"):
            if key in data:
                text = data[key].replace("/opt/kube", str(place))
                (place / key).write_text(text)
                (place / key).chmod(0o755)
        [template] = [
            o["spec"] if o["kind"] == "Pod" else o["spec"]["template"]["spec"]
            for o in compilation.objects
            if o["metadata"]["name"] == "pi-launcher" and o["kind"] in ("Pod", "Job")
        ]
        variables = template["containers"][0]["env"]
        moved = {e["name"]: e.get("value", "").replace("/etc/mpi", str(place)) for e in variables}
        # A fresh environment: what the machine sets for mpirun must not help.
        inherited = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        # Nobody knows these hosts, and a resolver may take its time to say so.
        return {**inherited, **moved, "RES_OPTIONS": "timeout:1 attempts:1"}

    return pod


@pytest.fixture
def stand_in(place):
    """`stand_in(NAME, TEXT)`: a program that writes down its arguments and then does TEXT."""

    def write(name, text):
        path = place / name
        path.write_text(RECORDING.format(place=place) + text)
        path.chmod(0o755)
        return str(path)

    return write


def recorded_calls(place):
    return (place / "asked").read_text().splitlines()


@pytest.fixture
def open_mpi(require):
    """The command line of Open MPI's mpirun, for any user."""
    program = require("mpi", which="mpirun")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    output = f"{version.stdout}{version.stderr}"
    require("mpi", present="Open MPI" in output, why=f"{program} is not Open MPI's")
    return [program, *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]


def ranks(done):
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


RANK = ("sh", "-c", 'echo "$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"')


def test_open_mpi_starts_ranks_through_kubexec(launcher, stand_in, open_mpi, run, place):
    env = launcher(mpi_job("v1", "pi", slotsPerWorker=2))
    stand_in("kubectl", KUBECTL)
    done = run(*open_mpi, *RANK, env=env)
    assert ranks(done) == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]
    starts = [line.split(" -- ")[0] for line in recorded_calls(place)]
    assert sorted(starts) == ["exec pi-worker-0", "exec pi-worker-1"]


def test_open_mpi_starts_all_daemons_from_the_launcher(
    launcher, stand_in, open_mpi, start, place, until
):
    # By itself, from 65 hosts on it starts some from workers, which have no rights. A narrower
    # tree has this effect with fewer hosts.
    env = launcher(mpi_job("v1", "pi", workers=5)) | {"OMPI_MCA_routed_radix": "2"}
    stand_in("kubectl", "exec sleep 60\n")
    start(*open_mpi, *RANK, env=env, stdout=subprocess.DEVNULL)
    until(lambda: (place / "asked").exists() and len(recorded_calls(place)) == 5)


def test_open_mpi_starts_ranks_through_ssh_by_the_workers_full_names(
    launcher, stand_in, open_mpi, run, place
):
    env = launcher(mpi_job("v2beta1", "pi", slotsPerWorker=2))
    env["OMPI_MCA_plm_rsh_agent"] = stand_in("ssh", SSH)
    done = run(*open_mpi, *RANK, env=env)
    assert ranks(done) == ["0 of 4", "1 of 4", "2 of 4", "3 of 4"]
    for line in recorded_calls(place):
        assert re.search(r"-o ConnectionAttempts=10 .*pi-worker-\d\.pi\.ml\.svc", line), line


@pytest.mark.parametrize(("slots", "total"), [(None, 2), (3, 6)])
def test_open_mpi_counts_the_slots_of_the_hostfile(launcher, open_mpi, stand_in, run, slots, total):
    job = mpi_job("v2beta1", "pi", **({"slotsPerWorker": slots} if slots else {}))
    env = launcher(job)
    env["OMPI_MCA_plm_rsh_agent"] = stand_in("ssh", SSH)
    assert len(ranks(run(*open_mpi, *RANK, env=env))) == total


def test_mpich_takes_its_hosts_and_their_slots_from_the_hostfile(
    launcher, stand_in, run, place, require
):
    program = require("hydra", which="mpiexec.hydra")
    env = launcher(mpi_job("v2beta1", "pi", mpiImplementation="MPICH", slotsPerWorker=3))
    env["HYDRA_LAUNCHER_EXEC"] = stand_in("ssh", SSH)
    done = run(program, "-n", "6", "sh", "-c", 'echo "$PMI_RANK of $PMI_SIZE"', env=env)
    assert ranks(done) == [f"{rank} of 6" for rank in range(6)]
    hosts = sorted(line.split()[1] for line in recorded_calls(place))
    assert hosts == ["pi-worker-0.pi.ml.svc", "pi-worker-1.pi.ml.svc"]
