"""What a launcher reads: only hosts that are Ready, and never a list that stops Horovod."""

from typing import Any

import pytest
from msgspec import structs

from defects.test_trainer import job as train_job
from defects.test_trainer import mpi
from etcompile import Settings
from etcompile.k8s.pod_state import PodState
from etcompile.watch.core.run import PatchPod, WriteHosts
from specs import kubeflow_job, scale_in, scale_out, training_job, worker
from world import World, mpi_job, stored_job


def et_world(replicas: int = 3, policy: str = "Always", **options: Any) -> World:
    job = training_job(replicas=replicas)
    worker(job)["restartPolicy"] = policy
    return World(job, **options)


DISCOVERS = ("-np", "2", "--host-discovery-script", "/etc/mpi/discover_hosts.sh")


def hostfile(world: World) -> list[str]:
    assert world.hosts is not None
    return world.hosts.data["hostfile"].splitlines()


def test_list_is_first_written_when_all_workers_are_ready() -> None:
    world = et_world(start=False)
    world.sync()
    world.get_ready("mnist-worker-0", "mnist-worker-1")
    world.settle()
    assert world.hosts is None
    world.get_ready("mnist-worker-2")
    world.settle()
    assert hostfile(world) == ["mnist-worker-0:1", "mnist-worker-1:1", "mnist-worker-2:1"]


def test_launcher_that_starts_is_touched_once() -> None:
    world = et_world(start=False)
    world.sync()
    world.get_ready()
    world.settle()
    assert world.hosts is not None
    assert len(world.patched("touch")) == 1
    world.wait(600)
    world.restart_watcher()
    world.wait(600)
    assert len(world.patched("touch")) == 1


@pytest.mark.parametrize("change", [{"ready": False}, {"deleting": True}])
def test_host_leaves_all_lists_when_it_is_unready_or_terminating(change: dict[str, Any]) -> None:
    world = et_world(12)
    world.change("mnist-worker-1", **change)
    world.settle()
    hosts = [f"mnist-worker-{index}" for index in range(12) if index != 1]
    assert world.listed == hosts, "in natural order"
    assert world.hosts is not None
    deepspeed = "".join(f"{host} slots=1\n" for host in hosts)
    assert world.hosts.data["deepspeed-hostfile"] == deepspeed
    assert all(text.endswith("\n") and "\n\n" not in text for text in world.hosts.data.values())


def test_launcher_is_touched_after_each_change_and_only_then() -> None:
    world = et_world()
    world.change("mnist-worker-1", ready=False)
    world.settle()
    world.settle()
    assert [type(one) for one in world.done] == [WriteHosts, PatchPod]
    touched = world.pods["mnist-launcher"].touched
    world.wait(1)
    world.change("mnist-worker-1", ready=True)
    world.settle()
    assert world.pods["mnist-launcher"].touched != touched


def test_lists_that_change_again_in_the_same_moment_are_written_once_more() -> None:
    world = et_world(12)
    for index in range(1, 5):
        world.change(f"mnist-worker-{index}", ready=False)
        world.settle()
    assert len(world.of(WriteHosts)) == 1
    assert len(world.patched("touch")) == 1
    world.wait(0.5, ready=False)
    assert len(world.of(WriteHosts)) == 2
    assert world.listed == [f"mnist-worker-{index}" for index in range(12) if not 1 <= index < 5]


def test_launcher_is_touched_though_its_clock_is_ahead() -> None:
    """The times of Pods are the API server's, and that of the list is the watcher's."""
    world = et_world()
    world.change("mnist-launcher", created=world.now + 60, touched="")
    world.change("mnist-worker-1", ready=False)
    world.settle()
    assert [type(one) for one in world.done] == [WriteHosts, PatchPod]


def test_list_is_not_written_while_nothing_changes() -> None:
    world = et_world()
    for _ in range(5):
        world.wait(600)
        world.restart_watcher()
    assert world.done == []


def test_list_is_never_emptied() -> None:
    world = et_world(policy="Never")
    for index in range(3):
        world.change(f"mnist-worker-{index}", ready=False)
    world.settle()
    assert len(world.listed) == 3
    for index in range(3):
        world.fail(f"mnist-worker-{index}")
    world.wait(600)
    assert len(world.listed) == 3


def test_empty_list_does_not_hold_a_dead_host_in_another_list() -> None:
    """A launcher that is listed too is not Ready before its workers are."""
    world = World(mpi_job(elastic=False))
    world.change("mnist-worker-1", ready=False)
    world.settle()
    assert all("mnist-worker-1" not in text for text in world.hosts.data.values())


def test_dead_host_is_not_listed_for_a_launcher_that_has_not_started() -> None:
    job = training_job(replicas=3)
    worker(job)["restartPolicy"] = "Never"
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = "Always"
    world = World(job)
    world.wait(60)
    world.change("mnist-launcher", phase="Pending", ready=False)
    world.fail("mnist-worker-1")
    world.settle()
    assert world.listed == ["mnist-worker-0", "mnist-worker-2"]


def test_replacement_is_listed_for_horovod_under_another_name() -> None:
    world = et_world()
    names = []
    for _ in range(7):
        world.fail("mnist-worker-1")
        world.wait(700)
        names.append(hostfile(world)[1])
    assert names == [
        "mnist-worker-1.ml:1",
        "mnist-worker-1.ml.svc:1",
        "mnist-worker-1.ml.svc.cluster.local:1",
        "mnist-worker-1.ml.svc.cluster.local.:1",
        "mnist-worker-1:1",
        "mnist-worker-1.ml:1",
        "mnist-worker-1.ml.svc:1",
    ]
    assert sorted(world.pods) == sorted(world.declared)


def test_new_launcher_gets_the_first_names_again() -> None:
    job = training_job()
    worker(job)["restartPolicy"] = "Always"
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = "Always"
    world = World(job)
    world.fail("mnist-worker-1")
    world.wait(60)
    assert hostfile(world)[1] == "mnist-worker-1.ml:1"
    world.fail("mnist-launcher")
    world.wait(60)
    assert hostfile(world) == ["mnist-worker-0:1", "mnist-worker-1:1"]


NAMES = {
    "TrainingJob with a shared Service": "mnist-worker-0:1 mnist-worker-1.mnist:1",
    "TrainJob": "t-node-0-0.t:1 t-node-0-1.t.ml:1 t-launcher-0-0.t:1",
    "v1": "mnist-worker-0:1 mnist-worker-1:1",  # its launcher allows the same name again
    "v2beta1": "mnist-worker-0.mnist.ml.svc:1 mnist-worker-1.mnist.ml.svc:1",
    "PyTorchJob": "",
}


@pytest.mark.parametrize("kind", NAMES)
def test_replacement_is_listed_by_a_name_of_its_kind(kind: str) -> None:
    if kind == "PyTorchJob":
        world = World(kubeflow_job(kind, {"Master": 1, "Worker": 2}))
    elif "shared" in kind:
        world = et_world(2, settings=Settings(services="shared"))
    else:
        world = World(*of_workers(kind, 3 if kind == "TrainJob" else 2))
    world.delete("t-node-0-1" if kind == "TrainJob" else "mnist-worker-1")
    world.wait(60)
    data = world.hosts.data if world.hosts is not None else {"hosts": ""}
    assert data.get("hosts", data.get("hostfile")).split() == NAMES[kind].split()


# Scaling ------------------------------------------------------------------------------------


def rescaled(world: World, *intents: dict[str, Any]) -> None:
    job = training_job(replicas=3)
    worker(job)["restartPolicy"] = "Always"
    world.job, world.settings = stored_job(job, *intents)
    world.declared_at = world.now


def of_workers(kind: str, workers: int) -> list[dict[str, Any]]:
    """A job of so many workers, whose launcher reads a list."""
    if kind == "TrainingJob":
        return [training_job(replicas=workers)]
    if kind == "TrainJob":
        command = ["horovodrun", *DISCOVERS, "t"]
        job = train_job(trainer={"numNodes": workers, "command": command})
        job["metadata"]["annotations"] = {"etcompile.dev/nnodes": "2:5"}
        return [mpi(), job]
    job = mpi_job(version=kind)
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = workers
    return [job]


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("kind", ["TrainingJob", "TrainJob", "v1", "v2beta1"])
def test_launcher_is_touched_once_for_each_applied_scale(kind: str, restarted: bool) -> None:
    """The list from Git is then the same as the live one, and was not when the launcher started."""
    world = World(*of_workers(kind, 3))
    if kind == "v2beta1":  # its launcher is made by a Job of Kubernetes
        run = world.pods["mnist-worker-0"].spec_hash
        launcher = PodState("mnist-launcher-x1", "u-1", "launcher", None, run, created=world.now)
        world.pods[launcher.name] = structs.replace(launcher, phase="Running", ready=True)
        world.settle()
    before = len(world.listed)
    world.done.clear()
    for changes, workers in enumerate([4, 2, 3], start=1):
        world.job, world.settings = stored_job(*of_workers(kind, workers))
        world.declared_at = world.now
        world.sync()
        world.get_ready()
        if restarted:
            world.restart_watcher()
        world.wait(600)
        assert len(world.listed) == before + workers - 3
        touched = [touch.name for touch in world.patched("touch")]
        assert len(touched) == changes
        assert all("launcher" in name for name in touched)


def test_scaled_in_worker_synced_from_git_is_left_to_its_tool() -> None:
    world = et_world(git=True)
    rescaled(world, scale_in("less", 1))
    world.settle()
    assert world.listed == ["mnist-worker-0", "mnist-worker-1"]
    world.wait(600)
    assert world.deleted == []
    world.sync()
    world.wait(600)
    assert sorted(world.pods) == ["mnist-launcher", "mnist-worker-0", "mnist-worker-1"]


def test_worker_created_before_its_config_map_changes_does_not_leave() -> None:
    """As `etcompile apply` scales out: however long the new Pod takes to become Ready."""
    world = et_world()
    rescaled(world)
    world.wait(10)
    before = world.declared_at
    rescaled(world, scale_out("more", 1))
    world.sync()
    rescaled(world)
    world.declared_at = before
    world.wait(600)
    world.restart_watcher()
    world.wait(600)
    assert world.emitted("WorkerLeaves") == []
    assert "mnist-worker-3" in world.pods
    world.get_ready("mnist-worker-3")
    rescaled(world, scale_out("more", 1))
    world.settle()
    assert world.listed[-1] == "mnist-worker-3"
    rescaled(world)
    world.wait(120)
    assert len(world.emitted("WorkerLeaves")) == 1
    assert "mnist-worker-3" not in world.pods


@pytest.mark.parametrize("out", [0, 60], ids=["at once", "after its loss was written down"])
def test_pod_whose_label_is_removed_and_restored_is_supervised_again(out: int) -> None:
    world = et_world(2, "OnFailure")
    world.wait(30)
    pod = world.pods["mnist-worker-1"]
    world.vanish("mnist-worker-1")
    world.wait(out)
    assert "mnist-worker-1" not in world.pods
    world.pods["mnist-worker-1"] = world.gone.pop("mnist-worker-1").pod
    world.wait(60)
    assert len(world.listed) == 2
    assert world.pods["mnist-worker-1"] == pod
    world.fail("mnist-worker-1", 137)
    world.wait(60)
    assert world.pods["mnist-worker-1"].uid != pod.uid, "replaced like one that was never away"
