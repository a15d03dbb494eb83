"""The launcher waits for the port on which its workers' sshd listens, read from the job itself."""

import re
from typing import Any

import pytest

import etcompile
from etcompile import Options
from specs import by_name, compiled, training_job

SSHD = ["/usr/sbin/sshd", "-De"]
MPIRUN = ["mpirun", "-np", "2", "hostname"]


def mpi_job(worker: dict[str, Any], launcher: dict[str, Any], **annotations: str) -> Any:
    def role(container: dict[str, Any], **more: Any) -> dict[str, Any]:
        main = {"name": "main", "image": "mpi:5", **container}
        return {"template": {"spec": {"containers": [main]}}, **more}

    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "mnist", "namespace": "ml", "annotations": annotations},
        "spec": {
            "mpiReplicaSpecs": {"Launcher": role(launcher), "Worker": role(worker, replicas=2)}
        },
    }


def et_job(worker: dict[str, Any], launcher: dict[str, Any], **annotations: str) -> Any:
    job = training_job()
    job["metadata"]["annotations"] = annotations
    for name, fields in (("worker", worker), ("launcher", launcher)):
        main = job["spec"]["etReplicaSpecs"][name]["template"]["spec"]["containers"][0]
        main.update(fields)
    return job


def gate_port(job: Any) -> str | None:
    """The port that the launcher's gate tries; None for that of the image's own ssh."""
    (script,) = (
        value["data"]["wait-for-workers.sh"]
        for (kind, name), value in by_name(compiled(job)).items()
        if kind == "ConfigMap" and name == "mnist-config"
    )
    match = re.search(r"^ *port=(\d+)$", script, re.MULTILINE)
    return match[1] if match else None


def disagreements(job: Any) -> list[str]:
    diagnostics = etcompile.compile([job], Options()).diagnostics
    return [one.message for one in diagnostics if one.code == "ET2094"]


jobs = pytest.mark.parametrize("job", [mpi_job, et_job])

LISTENS = {
    "apart": {"command": ["/usr/sbin/sshd", "-D", "-p", "2022"]},
    "joined": {"command": ["/usr/sbin/sshd", "-p2022", "-D"]},
    "among flags": {"command": ["/usr/sbin/sshd", "-Dep", "2022"]},
    "an option": {"command": ["/usr/sbin/sshd", "-o", "Port=2022", "-De"]},
    "an option with a space": {"command": ["/usr/sbin/sshd", "-oPort 2022", "-De"]},
    "arguments": {"command": ["/usr/sbin/sshd"], "args": ["-De", "-p", "2022"]},
    "a script": {"command": ["sh", "-c", "mkdir -p /run/sshd && /usr/sbin/sshd -p 2022; sleep 9"]},
    "a shell's arguments": {"command": ["bash", "-c"], "args": ["exec /usr/sbin/sshd -De -p 2022"]},
    "a variable": {
        "command": ["sh", "-c", "/usr/sbin/sshd -De -p $SSH_PORT"],
        "env": [{"name": "SSH_PORT", "value": "2022"}],
    },
    "a variable of Kubernetes": {
        "command": ["/usr/sbin/sshd", "-De", "-p", "$(SSH_PORT)"],
        "env": [{"name": "SSH_PORT", "value": "2022"}],
    },
    "its configuration": {
        "command": ["sh", "-c", "echo 'Port 2022' >> /etc/ssh/sshd_config; /usr/sbin/sshd -De"]
    },
    "an edit of it": {
        "command": ["sh", "-c", "sed -i 's/#Port 22/Port 2022/' /etc/ssh/sshd_config; sshd -De"]
    },
    "a port": {"command": SSHD, "ports": [{"containerPort": 2022}]},
    "a port by its name": {"command": SSHD, "ports": [{"name": "ssh", "containerPort": 2022}]},
    "a probe": {"command": SSHD, "readinessProbe": {"tcpSocket": {"port": 2022}}},
}


@jobs
@pytest.mark.parametrize("worker", LISTENS.values(), ids=LISTENS)
def test_the_gate_tries_the_port_of_the_workers(job, worker) -> None:
    mpi = job(worker, {"command": MPIRUN})
    assert gate_port(mpi) == "2022"
    assert disagreements(mpi) == []


CONNECTS = {
    "a parameter": ["mpirun", "-mca", "plm_rsh_args", "-p 2022", "-np", "2", "hostname"],
    "a parameter of Open MPI 5": ["mpirun", "--prtemca", "plm_ssh_args", "-p 2022", "hostname"],
    "an option of ssh": ["mpirun", "--mca", "plm_rsh_args", "-q -o Port=2022", "hostname"],
    "an exported variable": ["mpirun", "-x", "OMPI_MCA_plm_rsh_args=-p 2022", "hostname"],
    "a script": ["sh", "-c", "sleep 3; mpirun --mca plm_rsh_args '-p 2022' hostname"],
    "a script's variable": ["sh", "-c", "export OMPI_MCA_plm_rsh_args='-p 2022'\nmpirun hostname"],
    "hydra's variable": ["mpiexec", "-genv", "HYDRA_LAUNCH_EXTRA_ARGS", "-p 2022", "hostname"],
    "horovodrun": ["horovodrun", "-np", "2", "-p", "2022", "python", "t.py", "-p", "9"],
    "horovodrun's long option": ["horovodrun", "-np", "2", "--ssh-port", "2022", "python", "t.py"],
    "deepspeed": ["deepspeed", "--ssh_port=2022", "t.py"],
    "ssh": ["sh", "-c", "ssh -p 2022 mnist-worker-0 true && mpirun hostname"],
}


@jobs
@pytest.mark.parametrize("command", CONNECTS.values(), ids=CONNECTS)
def test_the_gate_tries_the_port_to_which_the_launcher_connects(job, command) -> None:
    for worker in ({}, {"command": SSHD}, {"command": ["/usr/sbin/sshd", "-p", "2022", "-De"]}):
        mpi = job(worker, {"command": command})
        assert gate_port(mpi) == "2022"
        assert disagreements(mpi) == []


@jobs
@pytest.mark.parametrize(
    "name", ["OMPI_MCA_plm_rsh_args", "PRTE_MCA_plm_ssh_args", "PDSH_SSH_ARGS_APPEND"]
)
def test_a_variable_of_the_launcher_says_it_too(job, name) -> None:
    launcher = {"command": MPIRUN, "env": [{"name": name, "value": "-p 2022"}]}
    assert gate_port(job({"command": SSHD}, launcher)) == "2022"


@pytest.mark.parametrize("worker", [{}, {"ports": [{"name": "metrics", "containerPort": 9100}]}])
def test_a_job_that_says_nothing_leaves_it_to_the_image(worker) -> None:
    assert gate_port(mpi_job(worker, {"command": MPIRUN})) is None
    with_sshd = {**worker, "command": SSHD}
    assert gate_port(mpi_job(with_sshd, {"command": ["mpirun", "train", "-p", "9"]})) is None
    assert gate_port(et_job(worker, {"command": MPIRUN})) == "22"


def test_the_sshd_of_etcompile_listens_where_the_launcher_connects_to() -> None:
    command = ["mpirun", "-mca", "plm_rsh_args", "-p 2022", "hostname"]
    for job in (mpi_job({}, {"command": command}), et_job({}, {"command": command})):
        objects = by_name(compiled(job))
        assert "-p 2022" in objects["ConfigMap", "mnist-config"]["data"]["worker.sh"]
        (main,) = objects["Pod", "mnist-worker-0"]["spec"]["containers"]
        assert main["readinessProbe"]["tcpSocket"] == {"port": 2022}


def test_a_port_that_is_only_exposed_does_not_move_the_sshd_of_etcompile() -> None:
    exposed = {"ports": [{"name": "ssh", "containerPort": 2222}]}
    assert gate_port(mpi_job(exposed, {"command": MPIRUN})) is None


@jobs
@pytest.mark.parametrize(
    ("worker", "launcher", "port"),
    [
        ({"command": ["sshd", "-D", "-p", "2222"]}, CONNECTS["a parameter"], "2222"),
        (
            {"command": ["sshd", "-D", "-p", "2222"], "ports": [{"containerPort": 22}]},
            MPIRUN,
            "2222",
        ),
        (
            {"command": SSHD, "ports": [{"name": "ssh", "containerPort": 2222}]},
            CONNECTS["horovodrun"],
            "2022",
        ),
    ],
)
def test_ports_that_differ_are_named_with_the_annotation_that_decides(
    job, worker, launcher, port
) -> None:
    document = job(worker, {"command": launcher})
    assert gate_port(document) == port
    (message,) = disagreements(document)
    assert "2222" in message
    (diagnostic,) = (d for d in compiled(document).diagnostics if d.code == "ET2094")
    assert "etcompile.dev/ssh-port" in diagnostic.hint
    assert f"waits for port {port}" in diagnostic.hint
    decided = job(worker, {"command": launcher}, **{"etcompile.dev/ssh-port": "2200"})
    assert gate_port(decided) == "2200"
    assert disagreements(decided) == []


def test_of_several_ports_of_sshd_the_launchers_counts() -> None:
    worker = {"command": ["sshd", "-D", "-p", "22", "-p", "2022"]}
    document = mpi_job(worker, {"command": CONNECTS["horovodrun"]})
    assert gate_port(document) == "2022"
    assert disagreements(document) == []


@jobs
@pytest.mark.parametrize("port", ["0", "65536", "ssh", "-1"])
def test_an_annotation_that_is_no_port_is_refused(job, port) -> None:
    document = job({}, {"command": MPIRUN}, **{"etcompile.dev/ssh-port": port})
    codes = [one.code for one in etcompile.compile([document], Options()).diagnostics]
    assert "ET2050" in codes
