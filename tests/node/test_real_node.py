"""TrainingJobs that really run: Pods as processes, with DNS, ssh, exec and RBAC for real."""

import os
from pathlib import Path
from typing import Any

import pytest

from failures.cases import ROOT
from specs import container, launcher, scale_out, training_job, worker

pytestmark = [pytest.mark.node, pytest.mark.usefixtures("mpi")]

IMAGE = os.environ.get("ETCOMPILE_E2E_MPI_IMAGE", "")
KUBECTL_IMAGE = os.environ.get("ETCOMPILE_E2E_KUBECTL_IMAGE", "")

MPIRUN = "/etc/edl/discover_hosts.sh && mpirun -np 3 --hostfile /job/hostfile hostname"
WHO_AND_WHERE = "sh -c 'echo $(hostname) of $(hostname -i)'"


def job(**spec: Any) -> dict[str, Any]:
    document = training_job("mpi", replicas=3, **spec)
    for role in (launcher(document), worker(document)):
        role["template"]["spec"]["containers"] = [container(image=IMAGE)]
        role["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    trainer = launcher(document)["template"]["spec"]["containers"][0]
    trainer.update(command=["sh", "-c", MPIRUN], env=ROOT)
    return document


def check_run(cluster: Any) -> None:
    """The launcher sees its three hosts, mpirun reaches them, and the workers end by themselves."""
    cluster.until(lambda phases: phases.get("mpi-launcher") in ("Succeeded", "Failed"))
    gate = cluster.kubectl("logs", "mpi-launcher", "-c", "wait-for-workers")
    log = cluster.kubectl("logs", "mpi-launcher", "-c", "main")
    print(f"\nwait-for-workers:\n{gate}\nlauncher:\n{log}")
    lines = [line for line in log.splitlines() if "worker" in line and "Warning" not in line]
    hosts = [f"mpi-worker-{index}" for index in range(3)]
    assert lines[:3] == [f"{host}:1" for host in hosts]
    assert sorted(lines[3:]) == hosts
    phases = cluster.phases()
    assert phases["mpi-launcher"] == "Succeeded"
    assert [phases[host] for host in hosts] == ["Running"] * 3

    spec_hash = cluster.get("pod", "mpi-launcher")["metadata"]["annotations"][
        "etcompile.dev/spec-hash"
    ]
    cluster.kubectl(
        "create", "configmap", "mpi-etcompile-status", f"--from-literal=done={spec_hash}"
    )
    for host in hosts:  # a touched Pod is synced by its kubelet at once
        cluster.kubectl("annotate", "pod", host, "touched=now")
    phases = cluster.until(lambda phases: {phases[host] for host in hosts} != {"Running"})
    phases = cluster.until(lambda phases: "Running" not in phases.values())
    print(f"after the done marker: {phases}")
    assert {phases[host] for host in hosts} == {"Succeeded"}

    # Somebody deletes the finished launcher, and Git brings it back: it must not train again.
    cluster.kubectl("delete", "pod", "mpi-launcher")


@pytest.mark.parametrize("services", ["per-replica", "shared"])
def test_ssh(cluster: Any, tmp_path: Path, services: str) -> None:
    manifests = cluster.rendered(job(), services=services)
    cluster.kubectl("apply", "-f", "-", stdin=manifests)
    cluster.create_key("mpi", tmp_path)
    check_run(cluster)
    cluster.kubectl("apply", "-f", "-", stdin=manifests)
    cluster.until(lambda phases: phases.get("mpi-launcher") in ("Succeeded", "Failed"))
    log = cluster.kubectl("logs", "mpi-launcher", "-c", "main")
    print(f"recreated launcher:\n{log}")
    assert "mpi-worker" not in log
    assert cluster.phases()["mpi-launcher"] == "Succeeded"


def test_kubexec(cluster: Any) -> None:
    if not KUBECTL_IMAGE:
        pytest.skip("ETCOMPILE_E2E_KUBECTL_IMAGE names no image with kubectl")
    cluster.apply(job(launcherAttachMode="kubexec"), kubectl_image=KUBECTL_IMAGE)
    check_run(cluster)


def test_scale_out_joins_a_running_job(cluster: Any, tmp_path: Path) -> None:
    document = job()
    trainer = launcher(document)["template"]["spec"]["containers"][0]
    trainer["command"] = ["sh", "-c", "sleep 3600"]
    cluster.create_key("mpi", tmp_path)
    cluster.apply(document)
    cluster.until(lambda phases: phases.get("mpi-launcher") == "Running")
    before = cluster.uids()
    more = scale_out("more", 1, job="mpi")
    cluster.apply(document, more)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/mpi-worker-3", "--timeout=60s")
    after = cluster.uids()
    assert {name: uid for name, uid in after.items() if name in before} == before
    reached = cluster.kubectl("exec", "mpi-launcher", "--", "ssh", "mpi-worker-3", "hostname")
    assert reached.strip() == "mpi-worker-3"


@pytest.mark.parametrize("mode", ["ssh", "kubexec"])
def test_new_run_is_a_separate_gang_while_the_old_one_runs(
    cluster: Any, tmp_path: Path, mode: str
) -> None:
    """No tool has removed the first run's Pods yet: names mean the second one's all the same."""
    if mode == "kubexec" and not KUBECTL_IMAGE:
        pytest.skip("ETCOMPILE_E2E_KUBECTL_IMAGE names no image with kubectl")
    document = job(launcherAttachMode=mode)
    trainer = launcher(document)["template"]["spec"]["containers"][0]
    trainer["command"] = ["sh", "-c", "sleep 3600"]
    how = {"kubectl_image": KUBECTL_IMAGE} if mode == "kubexec" else {}
    if mode == "ssh":
        cluster.create_key("mpi", tmp_path)
    cluster.apply(document, **how)
    cluster.until(lambda phases: phases.get("mpi-launcher") == "Running")
    trainer["command"] = ["sh", "-c", f"{MPIRUN.rpartition(' ')[0]} {WHO_AND_WHERE}"]
    cluster.apply(document, run="r2", **how)
    cluster.until(lambda phases: phases.get("mpi-r2-launcher") in ("Succeeded", "Failed"))
    log = cluster.kubectl("logs", "mpi-r2-launcher", "-c", "main")
    print(f"launcher of the second run:\n{log}")
    wanted = {
        f"mpi-worker-{index} of {cluster.get('pod', f'mpi-r2-worker-{index}')['status']['podIP']}"
        for index in range(3)
    }
    lines = {line for line in log.splitlines() if line.startswith("mpi-worker-")}
    assert {line for line in lines if " of " in line} == wanted
    assert cluster.phases()["mpi-r2-launcher"] == "Succeeded"
    assert cluster.phases()["mpi-worker-0"] == "Running"
