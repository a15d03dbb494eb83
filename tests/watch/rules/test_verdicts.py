"""When a run has succeeded, when it has failed, and what it may go on without."""

from itertools import permutations
from typing import Any

import pytest

from defects.test_trainer import job as train_job
from defects.test_trainer import runtime
from etcompile.watch.core.run import CreatePod, Requeue
from specs import kubeflow_job, training_job
from world import START, World, mpi_job


def kubeflow(
    kind: str, types: dict[str, int], policy: str = "Never", *, together: bool = False, **more: Any
) -> World:
    return World(kubeflow_job(kind, types, policy, together=together, **more))


ELASTIC = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}
ALL = {"successPolicy": "AllWorkers"}
# Kind, types and more, who succeeds, and whether the job has succeeded then.
SUCCESS: list[tuple[str, dict[str, int], dict[str, Any], str, bool]] = [
    ("TFJob", {"Chief": 1, "Worker": 2}, {}, "chief-0", True),
    ("TFJob", {"Chief": 1, "Worker": 2}, {}, "worker-0 worker-1", False),
    ("TFJob", {"Worker": 2}, {}, "worker-0", True),
    ("TFJob", {"Worker": 2}, {}, "worker-1", False),
    ("TFJob", {"Worker": 2}, ALL, "worker-0", False),
    ("TFJob", {"Worker": 2}, ALL, "worker-0 worker-1", True),
    ("PyTorchJob", {"Master": 1, "Worker": 2}, {}, "master-0", True),
    ("PyTorchJob", {"Master": 1, "Worker": 2}, {}, "worker-0 worker-1", False),
    ("PyTorchJob", {"Worker": 2}, {}, "worker-0", False),
    ("PyTorchJob", {"Worker": 2}, {}, "worker-0 worker-1", True),
    ("PyTorchJob", {"Worker": 2}, ELASTIC, "worker-1", True),
    ("XGBoostJob", {"Master": 1, "Worker": 2}, {}, "master-0", True),
    ("XGBoostJob", {"Master": 1, "Worker": 2}, {}, "worker-0 worker-1", False),
    ("PaddleJob", {"Worker": 2}, {}, "worker-0", False),
    ("PaddleJob", {"Worker": 2}, {}, "worker-0 worker-1", True),
    ("PaddleJob", {"Master": 1, "Worker": 1}, {}, "master-0", True),
    ("JAXJob", {"Worker": 2}, {}, "worker-1", False),
    ("JAXJob", {"Worker": 2}, {}, "worker-0 worker-1", True),
    ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 1}, {}, "scheduler-0", True),
    ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 1}, {}, "worker-0", False),
    ("MXJob", {"Worker": 1}, {}, "worker-0", True),
]


@pytest.mark.parametrize(("kind", "types", "more", "done", "succeeded"), SUCCESS)
def test_run_succeeds_by_the_rule_of_its_kind(
    kind: str, types: dict[str, int], more: dict[str, Any], done: str, succeeded: bool
) -> None:
    world = kubeflow(kind, types, **more)
    for name in done.split():
        world.succeed(f"mnist-{name}")
    world.wait(60)
    assert world.record.phase == ("Succeeded" if succeeded else "Running")
    assert (world.status or {}).get("done") == (world.spec_hash if succeeded else None)


@pytest.mark.parametrize(
    ("kind", "types", "failing"),
    [
        ("TFJob", {"Chief": 1, "PS": 1, "Worker": 2}, "ps-0"),
        ("TFJob", {"Chief": 1, "Evaluator": 1}, "evaluator-0"),
        ("TFJob", {"Worker": 2}, "worker-1"),
        ("PyTorchJob", {"Master": 1, "Worker": 1}, "worker-0"),
        ("XGBoostJob", {"Master": 1, "Worker": 1}, "master-0"),
        ("PaddleJob", {"Worker": 2}, "worker-0"),
        ("JAXJob", {"Worker": 2}, "worker-1"),
        ("MXJob", {"Scheduler": 1, "Server": 1, "Worker": 1}, "server-0"),
    ],
)
def test_failed_replica_that_is_not_recreated_fails_the_run(
    kind: str, types: dict[str, int], failing: str
) -> None:
    world = kubeflow(kind, types)
    world.fail(f"mnist-{failing}", 3)
    world.settle()
    assert world.record.phase == "Failed"
    assert world.record.finished == world.now
    assert f"mnist-{failing}: exit code 3" in world.emitted("JobFailed")[0].message


def test_failed_dynamic_worker_of_tensorflow_does_not_fail_the_run() -> None:
    world = kubeflow("TFJob", {"Worker": 3}, enableDynamicWorker=True)
    world.fail("mnist-worker-1")
    world.wait(60)
    assert world.record.phase == "Running"
    world.succeed("mnist-worker-0")
    world.settle()
    assert world.record.phase == "Succeeded"
    none_left = kubeflow("TFJob", {"Worker": 2}, enableDynamicWorker=True)
    none_left.fail("mnist-worker-0")
    none_left.settle()
    assert (none_left.record.phase, none_left.record.reason) == ("Failed", "NoneLeft")


def test_worker_of_mxnet_that_failed_for_good_is_left_to_the_scheduler() -> None:
    types = {"Scheduler": 1, "Server": 1, "Worker": 2}
    world = kubeflow("MXJob", types, "ExitCode")
    world.fail("mnist-worker-1", 1)
    world.wait(60)
    assert world.record.phase == "Running"
    assert "mnist-worker-1" in world.pods, "it is there to be read"
    world.succeed("mnist-scheduler-0")
    world.settle()
    assert world.record.phase == "Succeeded"
    hopeless = kubeflow("MXJob", types, "ExitCode")
    hopeless.fail("mnist-scheduler-0", 1)
    hopeless.settle()
    assert hopeless.record.phase == "Failed"


# et-operator --------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["fail", "evict"])
def test_failed_launcher_fails_the_job(how: str) -> None:
    world = World(training_job())
    getattr(world, how)("mnist-launcher")
    world.settle()
    assert world.record.phase == "Failed"
    assert world.record.finished is not None
    world.wait(600)
    assert "mnist-launcher" in world.pods, "it is there to be read"


def test_launcher_that_git_recreates_in_time_is_no_failure() -> None:
    world = World(training_job(), git=True)
    world.vanish("mnist-launcher")
    world.wait(5)
    world.sync()
    world.wait(60)
    assert world.record.phase == "Running"


def test_et_operator_11_launcher_with_a_policy_comes_back_within_the_limit() -> None:
    job = training_job(backoffLimit=2)
    job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = "Always"
    world = World(job)
    for _ in range(2):
        world.fail("mnist-launcher")
        world.wait(60)
        assert world.record.phase == "Running"
    world.fail("mnist-launcher")
    world.wait(60)
    assert world.record.phase == "Failed"
    assert world.record.replaced == {"launcher": 2}


# Limits -------------------------------------------------------------------------------------


def test_training_operator_02_backoff_limit_counts_failed_pods_across_watchers() -> None:
    world = kubeflow("PyTorchJob", {"Worker": 3}, "ExitCode", runPolicy={"backoffLimit": 2})
    for name in ("mnist-worker-0", "mnist-worker-1"):
        world.fail(name, 137)
        world.wait(700)
        world.restart_watcher()
        assert world.record.phase == "Running"
    world.fail("mnist-worker-2", 137)
    world.settle()
    assert (world.record.phase, world.record.reason) == ("Failed", "BackoffLimitExceeded")


def test_backoff_limit_counts_restarts_in_place() -> None:
    world = kubeflow("PyTorchJob", {"Worker": 4}, "OnFailure", runPolicy={"backoffLimit": 4})
    for index in range(3):
        world.change(f"mnist-worker-{index}", restarts=1)
        world.settle()
        assert world.record.phase == "Running"
    world.change("mnist-worker-3", restarts=1)
    world.settle()
    assert world.record.phase == "Failed"


@pytest.mark.parametrize(("limit", "phase"), [(0, "Failed"), (1, "Running")])
def test_backoff_limit_of_zero_allows_no_failure(limit: int, phase: str) -> None:
    world = kubeflow("PyTorchJob", {"Worker": 2}, "OnFailure", runPolicy={"backoffLimit": limit})
    world.fail("mnist-worker-0")
    world.wait(60)
    assert world.record.phase == phase


def test_limit_of_a_training_job_does_not_count_its_workers() -> None:
    job = training_job(backoffLimit=1)
    job["spec"]["etReplicaSpecs"]["worker"]["restartPolicy"] = "OnFailure"
    world = World(job)
    for _ in range(4):
        world.fail("mnist-worker-0")
        world.wait(700)
    assert world.record.phase == "Running"
    assert world.record.replaced == {"worker": 4}


def test_replica_that_fails_repeatedly_waits_longer_each_time() -> None:
    world = kubeflow("PyTorchJob", {"Worker": 2}, "OnFailure")
    waits = []
    for _ in range(12):
        world.fail("mnist-worker-0")
        failed = world.now
        world.wait(301)
        back = next(pod for name, pod in world.pods.items() if name == "mnist-worker-0")
        waits.append(back.created - failed)
        world.now = back.created
    assert waits == [0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300]


# Time ---------------------------------------------------------------------------------------


def test_replica_that_ran_long_enough_is_recreated_at_once_again() -> None:
    world = kubeflow("PyTorchJob", {"Worker": 2}, "OnFailure")
    for _ in range(5):
        world.fail("mnist-worker-0")
        world.wait(1000)
    world.fail("mnist-worker-0")
    world.settle()
    assert world.pods["mnist-worker-0"].created == world.now
    assert world.record.replaced == {"worker": 6}


@pytest.mark.parametrize("seconds", [0, 30])
def test_training_operator_01_deadline_fails_the_run_without_any_event(seconds: int) -> None:
    world = kubeflow(
        "PyTorchJob", {"Worker": 2}, "OnFailure", runPolicy={"activeDeadlineSeconds": seconds}
    )
    if seconds:
        assert world.decide() == (Requeue(START + 30),)
    world.wait(31)
    assert (world.record.phase, world.record.reason) == ("Failed", "DeadlineExceeded")
    assert world.record.finished == START + seconds


def test_pod_that_reports_the_deadline_early_ends_the_run() -> None:
    world = kubeflow(
        "PyTorchJob", {"Worker": 2}, "OnFailure", runPolicy={"activeDeadlineSeconds": 30}
    )
    world.fail("mnist-worker-0", None, reason="DeadlineExceeded")
    world.settle()
    assert (world.record.phase, world.record.reason) == ("Failed", "DeadlineExceeded")


def test_elastic_nodes_have_time_to_end_after_the_first_success() -> None:
    job = train_job(trainer={"numNodes": 3, "command": ["torchrun", "train.py"]})
    job["metadata"]["annotations"] = {"etcompile.dev/nnodes": "2:4"}
    world = World(runtime(), job)
    uid = world.pods["t-node-0-2"].uid
    world.succeed("t-node-0-0")
    world.settle()
    assert world.record.phase == "Succeeded"
    world.succeed("t-node-0-1")
    world.wait(5)
    assert world.deleted == []
    world.wait(10)
    assert world.deleted == [uid]


# MPI ----------------------------------------------------------------------------------------


def test_failed_worker_fails_an_mpi_job_that_is_not_elastic() -> None:
    world = World(mpi_job())
    world.fail("mnist-worker-0")
    world.settle()
    assert world.record.phase == "Failed"


def test_training_operator_40_worker_with_exit_code_policy_is_recreated() -> None:
    job = mpi_job()
    job["spec"]["mpiReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
    world = World(job)
    world.fail("mnist-worker-1", 137)
    world.wait(60)
    assert world.record.phase == "Running"
    assert world.pods["mnist-worker-1"].ready


# A success and a failure at once ----------------------------------------------------------------


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("policy", ["Never", "OnFailure", "ExitCode", "Always"])
@pytest.mark.parametrize("order", [*permutations(("master-0", "worker-0", "worker-1"))])
@pytest.mark.parametrize("gap", [0.0, 0.7])
def test_training_operator_14_29_success_and_failures_of_one_moment_succeed(
    order: tuple[str, ...], policy: str, gap: float, *, together: bool
) -> None:
    world = kubeflow("PyTorchJob", {"Master": 1, "Worker": 2}, policy, together=together)
    at = world.now
    world.now += 1.2  # until a kubelet has noticed
    for name in order:
        world.settle()
        if f"mnist-{name}" not in world.pods:
            continue  # it was replaced, and its end is not seen any more
        if name == "master-0":
            world.succeed(f"mnist-{name}")
        else:
            world.fail(f"mnist-{name}", 1)
        world.change(f"mnist-{name}", ended_at=at)
        world.settle()
        world.now += gap
    world.wait(60)
    assert world.record.phase == "Succeeded"
    assert not world.emitted("JobFailed")
    assert not [action for action in world.of(CreatePod) if action.name == "mnist-master-0"]


@pytest.mark.parametrize("fails_first", [False, True])
@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("TFJob", "Chief"),
        ("PyTorchJob", "Master"),
        ("XGBoostJob", "Master"),
        ("PaddleJob", "Master"),
        ("MXJob", "Scheduler"),
    ],
)
def test_training_operator_14_29_success_and_failure_at_once_succeed_in_each_kind(
    kind: str, first: str, *, fails_first: bool
) -> None:
    world = kubeflow(kind, {first: 1, "Worker": 2})
    if fails_first:
        world.fail("mnist-worker-1")
    world.succeed(f"mnist-{first.lower()}-0")
    if not fails_first:
        world.fail("mnist-worker-1")
    world.settle()
    assert world.record.phase == "Succeeded"


def test_master_that_exits_0_because_a_restart_deletes_it_has_not_succeeded() -> None:
    world = kubeflow("PyTorchJob", {"Master": 1, "Worker": 2}, "OnFailure", together=True)
    world.fail("mnist-worker-0", 1)
    world.settle()
    world.succeed("mnist-master-0")
    world.change("mnist-master-0", ended_at=world.now)
    world.settle()
    assert world.record.phase == "Restarting"


def test_failure_after_which_nothing_can_succeed_ends_the_run_at_once() -> None:
    for failing, phase in (("master-0", "Failed"), ("worker-0", "Running")):
        world = kubeflow("PyTorchJob", {"Master": 1, "Worker": 2})
        world.fail(f"mnist-{failing}", 1, ended_at=world.now)
        world.settle()
        assert world.record.phase == phase
        world.wait(world.timeouts.race, ready=False)
        assert world.record.phase == "Failed"
