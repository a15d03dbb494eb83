"""Defects of the three operators that show only at run time.

The numbers are those of reference/et-operator.md 6, reference/training-operator.md 7 and
reference/mpi-operator-v2.md 7. More of them are in tests/watch: which losses bring a Pod back, say.
"""

from typing import Any, get_args

import pytest
from msgspec import structs

from etcompile.integrations.watcher_manifests import OPTIONAL, needed, rules_of
from etcompile.k8s.pod_state import BatchView
from etcompile.watch.core import run
from etcompile.watch.core.run import CreatePod, DeletePod, EmitEvent, WriteHosts, WriteStatus
from specs import kubeflow_job, replicas, scale_in, scale_out, training_job, worker
from watcher_rules import decide
from world import World, mpi_job, stored_job

WORKER = "mnist-worker-1"


def et(policy: str = "Always", launcher: str | None = None, **more: Any) -> dict[str, Any]:
    job = training_job(**more)
    worker(job)["restartPolicy"] = policy
    if launcher:
        job["spec"]["etReplicaSpecs"]["launcher"]["restartPolicy"] = launcher
    return job


def kubeflow(kind: str, policy: str, types: dict[str, int], **spec: Any) -> World:
    return World(kubeflow_job(kind, types, policy, **spec))


def rescale(world: World, *documents: dict[str, Any]) -> None:
    world.job, world.settings = stored_job(*documents)


# et-operator --------------------------------------------------------------------------------


def test_et_operator_07_a_restart_on_an_old_view_takes_no_old_pod_for_a_new_one() -> None:
    world = World(training_job(restartPolicy="OnFailure"))
    world.fail("mnist-launcher")
    old = world.view()
    world.settle()
    # The view still shows the Pods that were deleted: nothing is made, nothing hangs.
    stale = decide(structs.replace(old, record=world.record), world.now)
    assert [one for one in stale if isinstance(one, CreatePod)] == []
    world.wait(60)
    assert sorted(world.pods) == sorted(world.declared)
    assert all(pod.ready for pod in world.pods.values())


def test_et_operator_08_a_lagging_view_makes_no_more_workers_than_there_are() -> None:
    world = World(et(replicas=3), start=False)
    empty = world.view()
    world.sync()
    assert [one for one in decide(empty, world.now) if isinstance(one, CreatePod)] == []
    world.get_ready()
    world.wait(60)
    assert sorted(world.pods) == sorted(world.declared)


@pytest.mark.parametrize("policy", [None, "OnFailure", "ExitCode"])
def test_et_operator_11_a_deleted_launcher_does_not_leave_its_job_running_for_ever(
    policy: str | None,
) -> None:
    world = World(et(launcher=policy))
    world.vanish("mnist-launcher")
    world.wait(60)
    assert world.record.phase == "Failed"


def test_et_operator_12_without_a_launcher_workers_get_their_time_all_the_same() -> None:
    world = World(et(launcher="Always"))
    world.change("mnist-launcher", phase="Pending", ready=False)
    rescale(world, et(launcher="Always"), scale_in("less", 1))
    world.wait(50, ready=False)
    assert WORKER in world.pods


def test_et_operator_13_what_was_not_done_is_decided_again() -> None:
    world = World(et())
    world.fail(WORKER)
    for _ in range(3):
        world.settle(until=lambda action: isinstance(action, CreatePod))
    world.settle()
    assert world.pods[WORKER].phase == "Pending"
    assert world.record.replaced == {"worker": 1}


def test_et_operator_14_an_api_error_fails_no_job() -> None:
    world = World(et())
    world.vanish(WORKER)
    for _ in range(20):
        world.settle(until=lambda action: isinstance(action, CreatePod))
        world.now += 10
    assert world.record.phase == "Running"
    world.wait(60)
    assert world.pods[WORKER].ready


def test_et_operator_21_lost_pod_with_restart_never_is_reported_once() -> None:
    world = World(et("Never"))
    world.delete(WORKER)
    for _ in range(10):
        world.wait(60)
    assert len(world.emitted("PodLost")) == 1


def test_et_operator_22_23_a_replacement_cannot_meet_the_pod_that_failed() -> None:
    world = World(et(replicas=3))
    rescale(world, et(replicas=3), scale_in("less", 1))
    world.wait(600)
    world.fail(WORKER)
    world.wait(60)
    assert sorted(world.pods) == ["mnist-launcher", "mnist-worker-0", WORKER]
    assert world.pods[WORKER].ready


def test_et_operator_25_a_worker_that_fails_while_the_job_scales_is_replaced() -> None:
    world = World(et(replicas=3))
    rescale(world, et(replicas=3), scale_in("less", 1), scale_out("more", 3))
    world.fail(WORKER)
    world.settle()
    assert world.pods[WORKER].phase == "Pending"


def test_et_operator_27_worker_1_does_not_wait_for_worker_10() -> None:
    world = World(et(replicas=11))
    rescale(world, et(replicas=11), scale_in("less", [WORKER]))
    world.wait(61)
    assert WORKER not in world.pods
    assert "mnist-worker-10" in world.listed


def test_et_operator_30_a_worker_is_replaced_before_its_host_list_is_written() -> None:
    world = World(et())
    world.fail(WORKER)
    world.settle()
    kinds = [type(one) for one in world.done]
    assert kinds.index(CreatePod) < kinds.index(WriteHosts)


def test_et_operator_32_workers_of_a_scale_out_count_one_by_one_however_late() -> None:
    world = World(et())
    rescale(world, et(), scale_out("more", 3))
    world.wait(600)
    assert len(world.pods) == 3, "whoever scales the job creates its Pods"
    world.sync()
    world.get_ready("mnist-worker-3")
    world.settle()
    assert world.listed == ["mnist-worker-0", WORKER, "mnist-worker-3"]
    world.wait(3600, ready=False)
    assert "mnist-worker-2" in world.pods
    world.wait(1)
    assert len(world.listed) == 5


def test_et_operator_33_a_scale_in_with_a_script_drains_like_any_other() -> None:
    world = World(et(replicas=3))
    rescale(world, et(replicas=3), scale_in("less", 1, script="/drain.sh"))
    world.wait(50)
    assert "mnist-worker-2" in world.pods
    assert "mnist-worker-2" not in world.listed


def test_et_operator_35_a_restart_resets_its_times() -> None:
    world = World(training_job(restartPolicy="OnFailure"))
    begun = world.record.started
    world.wait(100)
    world.fail("mnist-launcher")
    world.wait(60)
    assert world.record.started != begun
    assert world.record.finished is None


def test_et_operator_37_nothing_is_done_before_it_is_written_down() -> None:
    world = World(et())
    world.fail(WORKER)
    for _ in range(3):
        world.settle(until=lambda action: isinstance(action, WriteStatus))
    assert world.done == []
    world.settle()
    assert isinstance(world.done[0], WriteStatus)


def every_rule() -> list[dict]:
    """What the watcher may do if every option is chosen."""
    return [*needed(), *(rule for part in OPTIONAL.values() for rule in rules_of(part))]


def test_et_operator_38_no_command_is_run_in_any_pod() -> None:
    assert not [one for one in get_args(run.Action) if "exec" in one.__name__.lower()]
    assert "pods/exec" not in {name for rule in every_rule() for name in rule["resources"]}


def test_et_operator_44_events_say_what_they_are_about() -> None:
    world = World(et("Never"))
    world.fail(WORKER)
    rescale(world, et("Never"), scale_in("less", ["mnist-worker-0"]))
    world.wait(100)
    world.succeed("mnist-launcher")
    world.settle()
    events = {one.reason: one for one in world.of(EmitEvent)}
    assert {"PodLost", "WorkerLeaves", "JobSucceeded"} == set(events)
    assert events["PodLost"].warning
    assert not events["JobSucceeded"].warning
    assert all(one.message for one in events.values())


def test_et_operator_45_no_secret_can_be_read() -> None:
    rules = [rule for rule in every_rule() if "secrets" in rule["resources"]]
    verbs = {verb for rule in rules for verb in rule["verbs"]}
    # The latter by name and by the label that only key pairs of the job have; it reads none.
    assert verbs <= {"create", "deletecollection"}


def test_et_operator_48_pods_that_are_there_already_are_no_failure() -> None:
    world = World(et(), start=False)
    world.sync()
    world.vanish(WORKER)
    world.settle()
    world.create(WORKER)  # somebody else was faster
    world.act(CreatePod(WORKER, "worker", 1, "vanished"))
    world.wait(60)
    assert world.record.phase == "Running"


def test_et_operator_49_scaled_in_worker_is_no_longer_expected() -> None:
    world = World(et(replicas=3))
    rescale(world, et(replicas=3), scale_in("less", 1))
    world.wait(600)
    world.restart_watcher()
    world.wait(600)
    assert "mnist-worker-2" not in world.pods
    assert world.emitted("PodReplaced") == world.emitted("PodLost") == []


@pytest.mark.parametrize("wish", [1, ["mnist-worker-4"]])
def test_et_operator_50_a_scale_in_removes_its_workers_and_no_other(wish: Any) -> None:
    world = World(et(replicas=5))
    rescale(world, et(replicas=5), scale_in("less", wish))
    for _ in range(6):
        world.wait(13)
        world.restart_watcher()
        for action in world.decide():
            if isinstance(action, DeletePod):
                world.act(action)
                world.act(action)
    world.wait(600)
    assert sorted(world.pods) == ["mnist-launcher", *(f"mnist-worker-{n}" for n in range(4))]
    assert len(set(world.deleted)) == 1


# Training Operator --------------------------------------------------------------------------


def test_training_operator_03_a_new_pod_does_not_reset_the_count() -> None:
    world = kubeflow("PyTorchJob", "OnFailure", {"Worker": 2}, runPolicy={"backoffLimit": 4})
    world.change("mnist-worker-0", restarts=3)
    world.delete("mnist-worker-0")
    world.wait(60)
    world.restart_watcher()
    assert world.record.phase == "Running"
    world.change("mnist-worker-1", restarts=1)
    world.settle()
    assert world.record.phase == "Failed"


def test_training_operator_04_no_replicas_make_no_pod_and_no_success() -> None:
    world = kubeflow("TFJob", "Never", {"Chief": 1, "Worker": 0})
    world.wait(600)
    assert sorted(world.pods) == ["mnist-chief-0"]
    assert world.record.phase == "Running"


def test_training_operator_09_a_finished_replica_that_vanishes_is_not_run_again() -> None:
    world = kubeflow("JAXJob", "OnFailure", {"Worker": 2})
    world.succeed(WORKER)
    world.settle()
    world.vanish(WORKER)
    world.restart_watcher()
    world.wait(600)
    assert WORKER not in world.pods


def test_training_operator_11_no_service_is_removed_with_its_pod() -> None:
    clean = {"cleanPodPolicy": "All"}
    world = kubeflow("PyTorchJob", "Never", {"Master": 1, "Worker": 2}, runPolicy=clean)
    world.succeed("mnist-master-0")
    world.wait(60)
    assert world.pods == {}
    assert not world.removed  # a Service of the same name may be anybody's: test_watch_removal


def test_training_operator_29_a_run_ends_once() -> None:
    world = kubeflow("TFJob", "Never", {"Chief": 1, "Worker": 2})
    world.succeed("mnist-chief-0")
    world.settle()
    world.fail(WORKER)
    world.wait(60)
    assert world.record.phase == "Succeeded"


def test_training_operator_32_a_restart_hides_no_failure_of_another_type() -> None:
    types = {"PS": {**replicas("TFJob", 1)}, "Worker": {**replicas("TFJob", 2)}}
    types["PS"]["restartPolicy"] = "Never"
    types["Worker"]["restartPolicy"] = "OnFailure"
    world = World(kubeflow_job("TFJob", types))
    world.fail(WORKER)
    world.fail("mnist-ps-0")
    world.settle()
    assert world.record.phase == "Failed"


def test_training_operator_40_a_worker_of_elastic_mpi_may_fail() -> None:
    world = World(mpi_job(elastic=True))
    world.fail(WORKER)
    world.delete("mnist-worker-0")
    world.wait(60)
    assert world.record.phase == "Running"
    assert world.listed == ["mnist-worker-0"]


def test_training_operator_47_a_gap_below_a_worker_that_leaves_is_not_filled() -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 4}
    world = kubeflow("PyTorchJob", "OnFailure", {"Worker": 4}, elasticPolicy=elastic)
    documents = kubeflow_job(
        "PyTorchJob", {"Worker": {**replicas("PyTorchJob", 1)}}, elasticPolicy=elastic
    )
    rescale(world, documents)
    world.change("mnist-worker-3", deleting=True)
    world.vanish("mnist-worker-1")
    world.vanish("mnist-worker-2")
    world.wait(600)
    assert sorted(world.pods) == ["mnist-worker-0"]
    assert world.of(CreatePod) == []


def test_training_operator_48_failure_of_a_deleted_pod_does_not_count() -> None:
    elastic = {"minReplicas": 1, "maxReplicas": 3}
    world = kubeflow("PyTorchJob", "ExitCode", {"Worker": 3}, elasticPolicy=elastic)
    rescale(world, kubeflow_job("PyTorchJob", {"Worker": 2}, "ExitCode", elasticPolicy=elastic))
    world.change("mnist-worker-2", deleting=True)
    world.fail("mnist-worker-2", 1)
    world.delete(WORKER, code=1)
    world.wait(60)
    assert world.record.phase == "Running"
    assert world.record.replaced == {}


# MPI Operator -------------------------------------------------------------------------------


def test_mpi_operator_d4_a_ttl_takes_workers_too_where_git_has_no_say() -> None:
    world = World(mpi_job(version="v2beta1", runPolicy={"ttlSecondsAfterFinished": 5}))
    world.batch = batch(succeeded=True)
    world.wait(60)
    assert world.pods == {}


def test_mpi_operator_d5_clean_pod_policy_all_means_all() -> None:
    world = World(mpi_job(version="v2beta1", runPolicy={"cleanPodPolicy": "All"}))
    launcher_pod(world)
    world.succeed("mnist-launcher-x7k2p")
    world.wait(60)
    assert world.record.phase == "Succeeded"
    assert world.pods == {}


def test_mpi_operator_d6_an_evicted_worker_neither_fails_the_job_nor_stays_away() -> None:
    world = World(mpi_job(version="v2beta1"))
    world.evict(WORKER)
    world.wait(60)
    assert not world.record.ended
    assert world.pods[WORKER].ready


def test_mpi_operator_d6_a_failed_job_is_cleaned_up() -> None:
    world = World(mpi_job(version="v2beta1", runPolicy={"cleanPodPolicy": "Running"}))
    world.batch = batch(failed="BackoffLimitExceeded")
    world.wait(60)
    assert world.record.phase == "Failed"
    assert world.record.finished is not None
    assert world.pods == {}


def test_mpi_operator_d7_a_failed_worker_is_replaced() -> None:
    world = World(mpi_job(version="v2beta1"))
    before = world.pods[WORKER].uid
    world.fail(WORKER, 1)
    world.wait(60)
    assert world.pods[WORKER].uid != before
    assert world.pods[WORKER].ready


def batch(**fields: Any) -> BatchView:
    return BatchView("mnist-launcher", **fields)


def launcher_pod(world: World) -> None:
    name = "mnist-launcher-x7k2p"
    pod = structs.replace(world.pods[WORKER], name=name, uid="l", role="launcher", index=None)
    world.pods[name] = pod
