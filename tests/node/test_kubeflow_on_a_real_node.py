"""Jobs of the Training Operator and of the MPI Operator that really compute, to the end."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failures.cases import ROOT
from specs import container

pytestmark = pytest.mark.node

ALL_REDUCE = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
ranks = torch.tensor([float(dist.get_rank())])
dist.all_reduce(ranks)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: sum {ranks.item():.0f}\\n", end="")
dist.destroy_process_group()
"""
MPIRUN = "sh /etc/mpi/discover_hosts.sh && mpirun -np 2 hostname"


def replicas(image: str, name: str, count: int, **main: Any) -> dict[str, Any]:
    spec = {"containers": [container(name=name, image=image, **main)]}
    spec["terminationGracePeriodSeconds"] = 5
    return {"replicas": count, "restartPolicy": "Never", "template": {"spec": spec}}


def job(kind: str, types: str, roles: dict[str, Any], version: str = "v1", **spec: Any) -> Any:
    return {
        "apiVersion": f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "train"},
        "spec": {types: roles, **spec},
    }


def ended(*names: str) -> Callable[[dict[str, str]], bool]:
    return lambda phases: all(phases.get(name) in ("Succeeded", "Failed") for name in names)


def logs(cluster: Any, *pods: str) -> list[str]:
    lines = [line for pod in pods for line in cluster.log(pod).splitlines()]
    print(*("", *lines), sep="\n  ")
    return lines


# PyTorchJob -------------------------------------------------------------------------------------


def test_a_master_and_workers_meet_by_plain_variables(cluster: Any, torch: str) -> None:
    train = ["python3", "-c", ALL_REDUCE]
    roles = {
        "Master": replicas(torch, "pytorch", 1, command=train),
        "Worker": replicas(torch, "pytorch", 2, command=train),
    }
    cluster.apply(job("PyTorchJob", "pytorchReplicaSpecs", roles, nprocPerNode="1"))
    pods = ("train-master-0", "train-worker-0", "train-worker-1")
    phases = cluster.until(ended(*pods), 180)
    lines = logs(cluster, *pods)
    assert set(phases.values()) == {"Succeeded"}
    # Workers also say that they wait for their master.
    ranks = [line for line in lines if not line.startswith("etcompile: ")]
    assert ranks == [f"rank {rank} of 3: sum 3" for rank in range(3)]


@pytest.mark.parametrize("elastic", [False, True], ids=["workers-only", "elastic-c10d"])
def test_two_torchrun_meet(cluster: Any, torch: str, elastic: bool) -> None:
    train = ["sh", "-c", f"cat > /tmp/t.py <<'E'\n{ALL_REDUCE}\nE\nexec torchrun /tmp/t.py"]
    roles = {"Worker": replicas(torch, "pytorch", 2, command=train)}
    policy = {"elasticPolicy": {"minReplicas": 2, "maxReplicas": 3}} if elastic else {}
    spec = job("PyTorchJob", "pytorchReplicaSpecs", roles, nprocPerNode="2", **policy)
    cluster.apply(spec)
    pods = ("train-worker-0", "train-worker-1")
    phases = cluster.until(ended(*pods), 240)
    lines = logs(cluster, *pods)
    assert {phases[pod] for pod in pods} == {"Succeeded"}
    wanted = {f"rank {rank} of 4: sum 6" for rank in range(4)}
    assert {line for line in lines if line.startswith("rank")} == wanted


# MPIJob -----------------------------------------------------------------------------------------


def check_mpi(cluster: Any, launcher: str, hosts: list[str], workers: list[str]) -> None:
    cluster.until(ended(launcher), 180)
    lines = [line for line in logs(cluster, launcher) if "worker" in line and "Warn" not in line]
    assert lines[:2] == hosts
    assert sorted(lines[2:]) == workers
    phases = cluster.phases()
    assert phases[launcher] == "Succeeded"
    assert {phases[worker] for worker in workers} == {"Running"}
    annotations = cluster.get("pod", launcher)["metadata"]["annotations"]
    done = f"--from-literal=done={annotations['etcompile.dev/spec-hash']}"
    cluster.kubectl("create", "configmap", "train-etcompile-status", done)
    for worker in workers:  # a touched Pod is synced by its kubelet at once
        cluster.kubectl("annotate", "pod", worker, "touched=now")
    phases = cluster.until(lambda phases: "Running" not in phases.values())
    print(f"after the done marker: {phases}")
    assert {phases[worker] for worker in workers} == {"Succeeded"}


def test_ranks_are_started_by_exec(cluster: Any, mpi: str, image: Callable[[str], str]) -> None:
    roles = {
        "Launcher": replicas(mpi, "mpi", 1, command=["sh", "-c", MPIRUN], env=ROOT),
        "Worker": replicas(mpi, "mpi", 2),
    }
    cluster.apply(job("MPIJob", "mpiReplicaSpecs", roles), kubectl_image=image("KUBECTL"))
    workers = ["train-worker-0", "train-worker-1"]
    check_mpi(cluster, "train-launcher", [f"{worker}:1" for worker in workers], workers)


@pytest.mark.parametrize("with_command", [False, True], ids=["our-sshd", "their-sshd"])
def test_ranks_are_started_by_ssh(
    cluster: Any, mpi: str, tmp_path: Path, with_command: bool
) -> None:
    sshd = "mkdir -p /run/sshd && ssh-keygen -A && exec /usr/sbin/sshd -De -o StrictModes=no"
    server = {"command": ["sh", "-c", sshd]} if with_command else {}
    trust = "printf 'StrictHostKeyChecking no\\nUserKnownHostsFile /dev/null\\n' >> "
    trust += f"/etc/ssh/ssh_config && {MPIRUN}"
    roles = {
        "Launcher": replicas(mpi, "mpi", 1, command=["sh", "-c", trust], env=ROOT),
        "Worker": replicas(mpi, "mpi", 2, **server),
    }
    cluster.apply(job("MPIJob", "mpiReplicaSpecs", roles, version="v2beta1"))
    cluster.create_key("train", tmp_path)
    launcher = launcher_of(cluster)
    workers = ["train-worker-0", "train-worker-1"]
    hosts = [f"{worker}.train.{cluster.namespace}.svc:1" for worker in workers]
    check_mpi(cluster, launcher, hosts, workers)
    (launcher_job,) = cluster.get("jobs")["items"]
    assert launcher_job["status"]["succeeded"] == 1


TRUST = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"


@pytest.mark.parametrize("user", [1000, 12345], ids=["in-passwd", "not-in-passwd"])
def test_ranks_are_started_by_ssh_without_root(
    cluster: Any, mpi: str, tmp_path: Path, user: int
) -> None:
    run = f"sh /etc/mpi/discover_hosts.sh && mpirun -mca plm_rsh_args '{TRUST}' -np 2 hostname"
    roles = {
        "Launcher": replicas(mpi, "mpi", 1, command=["sh", "-c", run]),
        "Worker": replicas(mpi, "mpi", 2),
    }
    for role in roles.values():
        pod = role["template"]["spec"]
        pod["securityContext"] = {"runAsUser": user, "runAsNonRoot": True}
        if user == 1000:  # as in an image that has the user
            pod["volumes"] = [{"name": "users", "configMap": {"name": "users"}}]
            mount = {"name": "users", "mountPath": "/etc/passwd", "subPath": "passwd"}
            pod["containers"][0]["volumeMounts"] = [mount]
    passwd = "passwd=root:x:0:0::/root:/bin/sh\nmpi:x:1000:1000::/home/mpi:/bin/sh\n"
    cluster.kubectl("create", "configmap", "users", f"--from-literal={passwd}")
    path = "/home/mpi/.ssh"
    spec = job("MPIJob", "mpiReplicaSpecs", roles, version="v2beta1", sshAuthMountPath=path)
    cluster.apply(spec)
    cluster.create_key("train", tmp_path)
    workers = ["train-worker-0", "train-worker-1"]
    hosts = [f"{worker}.train.{cluster.namespace}.svc:1" for worker in workers]
    check_mpi(cluster, launcher_of(cluster), hosts, workers)


def test_open_mpi_5_starts_a_rank_on_its_launcher_without_ssh(
    cluster: Any, image: Callable[[str], str], tmp_path: Path
) -> None:
    mpi = image("MPI5")
    trust = f"PRTE_MCA_plm_ssh_args='{TRUST}'"
    # No sshd listens in the launcher, so that a connection to itself would fail.
    # A rank that ends at once can leave mpirun 5.0.11 waiting for it.
    rank = "sh -c 'sleep 1; hostname'"
    run = f"mpirun --version && {trust} mpirun --map-by node -np 3 {rank}"
    roles = {
        "Launcher": replicas(mpi, "mpi", 1, command=["sh", "-c", run], env=ROOT),
        "Worker": replicas(mpi, "mpi", 2),
    }
    spec = job("MPIJob", "mpiReplicaSpecs", roles, version="v2beta1", runLauncherAsWorker=True)
    cluster.apply(spec)
    cluster.create_key("train", tmp_path)
    launcher = launcher_of(cluster)
    cluster.until(ended(launcher), 180)
    lines = logs(cluster, launcher)
    assert cluster.phases()[launcher] == "Succeeded"
    assert any(line.startswith("mpirun (Open MPI) 5.") for line in lines)
    hosts = {"train-launcher", "train-worker-0", "train-worker-1"}
    assert {line for line in lines if line in hosts} == hosts


def launcher_of(cluster: Any) -> str:
    cluster.until(lambda phases: any(name.startswith("train-launcher-") for name in phases))
    return next(name for name in cluster.phases() if name.startswith("train-launcher-"))
