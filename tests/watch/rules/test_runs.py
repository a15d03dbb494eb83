"""A run as a whole: restarted together, suspended, over, cleaned up, expired, and written down."""

from typing import Any

import pytest

from etcompile import Settings
from etcompile.causes.log import Failure
from etcompile.k8s.pod_state import PodState, Waiting
from etcompile.watch.core.run import CreatePod, DeletePod, WriteStatus
from specs import kubeflow_job, training_job, worker
from watcher_rules import observed
from world import START, World, of_replicas, stored_job


def torch(
    git: bool = False, *, policy: str = "OnFailure", together: bool = False, **run: Any
) -> World:
    types = {"Master": 1, "Worker": 3}
    job = kubeflow_job("PyTorchJob", types, policy, together=together, runPolicy=run)
    return World(job, git=git)


# Together -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", ["failed", "deleted", "erased", "all erased", "ended beside a sidecar"]
)
def test_training_operator_12_gang_that_loses_a_member_restarts_as_a_whole(how: str) -> None:
    world = torch(together=True)
    before = {pod.uid for pod in world.pods.values()}
    match how:
        case "failed":
            world.fail("mnist-worker-1", 137)
        case "deleted":
            world.delete("mnist-worker-1")
        case "erased":
            world.vanish("mnist-worker-1")
        case "all erased":
            for name in [*world.pods]:
                world.vanish(name)
        case _:
            world.change("mnist-worker-1", exits=(("pytorch", 137),))  # it still runs
    world.wait(60)
    assert not before & {pod.uid for pod in world.pods.values()}
    assert all(pod.ready for pod in world.pods.values())
    assert world.record.restarts == 1
    assert world.record.phase == "Running"


def stopping() -> World:
    """A gang whose worker 1 has failed, and whose other Pods were told to stop."""
    world = torch(together=True)
    world.fail("mnist-worker-1")
    world.settle()
    world.now += world.timeouts.peers
    world.settle()
    return world


def test_et_operator_39_joint_restart_creates_no_pod_before_all_are_gone() -> None:
    world = stopping()
    assert {one.name for one in world.of(DeletePod)} == set(world.declared)
    world.now += 600  # however long they take
    world.settle()
    assert world.of(CreatePod) == []
    for name in ("mnist-worker-0", "mnist-worker-2"):
        world.vanish(name)
        world.settle()
        assert world.of(CreatePod) == []
    world.vanish("mnist-master-0")
    world.settle()
    assert {one.name for one in world.of(CreatePod)} == set(world.declared)


def forced(world: World) -> list[str]:
    return [one.name for one in world.of(DeletePod) if one.force]


def test_joint_restart_lets_peers_end_by_themselves_before_it_stops_them() -> None:
    world = torch(together=True)
    world.fail("mnist-worker-1")
    world.settle()
    world.change("mnist-worker-0", exits=(("pytorch", 1),), stopped=True)
    world.settle()
    assert {one.name for one in world.of(DeletePod)} == {"mnist-worker-0", "mnist-worker-1"}
    world.now += world.timeouts.peers
    world.settle()
    assert {one.name for one in world.of(DeletePod)} == {*world.declared}
    assert forced(world) == ["mnist-worker-1", "mnist-worker-0"], "the others still run"


def test_joint_restart_does_not_wait_for_kubelets_to_remove_pods_that_have_stopped() -> None:
    world = stopping()
    assert {*world.pods} == {"mnist-master-0", "mnist-worker-0", "mnist-worker-2"}
    world.change("mnist-worker-0", exits=(("pytorch", 1),), stopped=True)
    world.settle()
    assert {*world.pods} == {"mnist-master-0", "mnist-worker-2"}, "their processes still run"


def test_joint_restart_asks_once_for_a_stopped_pod_that_a_finalizer_keeps() -> None:
    world = stopping()
    world.change("mnist-worker-0", stopped=True, due=world.now)
    world.settle()
    assert forced(world) == ["mnist-worker-1"]


def test_joint_restart_is_executed_once_by_any_number_of_watchers() -> None:
    world = torch(together=True)
    world.fail("mnist-worker-1")
    for count in range(1, 9):
        world.dies_before(count)
    world.wait(60)
    assert world.record.restarts == 1
    assert len(world.deleted) == len(set(world.deleted)) == 4


def test_gang_restarts_within_its_limit() -> None:
    world = torch(together=True, policy="ExitCode", backoffLimit=2)
    for _ in range(2):
        world.fail("mnist-worker-1", 137)
        world.fail("mnist-worker-2", 137)
        world.wait(700)
        assert world.record.phase == "Running"
    world.fail("mnist-worker-0", 137)
    world.settle()
    assert world.record.phase == "Failed"
    assert world.record.restarts == 2


def test_peers_of_a_deleted_pod_that_fail_do_not_count() -> None:
    world = torch(together=True, policy="ExitCode", backoffLimit=0)
    world.change("mnist-worker-1", deleting=True, deletion_requested=world.now)
    world.fail("mnist-worker-2", 1)
    world.settle()
    (event,) = world.emitted("JobRestarted")
    assert event.message.startswith("mnist-worker-1: deleted")
    world.wait(60)
    assert world.record.phase == "Running"
    assert (world.record.restarts, world.record.replaced) == (1, {})


def test_deleted_pod_settles_while_it_ends() -> None:
    world = World(kubeflow_job("JAXJob", {"Worker": 3}))
    requested = world.now
    world.change("mnist-worker-1", deleting=True, deletion_requested=requested)
    world.now += 1.5
    world.vanish("mnist-worker-1")
    # The API has whole seconds: the deletion was requested up to one later than it says.
    assert world.settle() == requested + 1 + world.timeouts.settle
    world.create("mnist-worker-1")
    world.get_ready()
    requested = world.now
    world.change("mnist-worker-1", deleting=True, deletion_requested=requested)
    world.now += 30
    world.vanish("mnist-worker-1")
    world.settle()
    assert "mnist-worker-1" in world.pods


def test_completed_replicas_run_again_with_their_gang() -> None:
    world = torch(together=True)
    world.succeed("mnist-worker-2")
    world.settle()
    assert of_replicas(world.record, "completed") == {"worker": "2"}
    world.fail("mnist-worker-1")
    world.wait(60)
    assert world.pods["mnist-worker-2"].ready


# Done ---------------------------------------------------------------------------------------


def test_replica_that_exits_0_on_deletion_is_not_completed() -> None:
    world = World(kubeflow_job("JAXJob", {"Worker": 3}))
    world.delete("mnist-worker-1", code=0)
    world.wait(60)
    assert of_replicas(world.record, "completed") == {}
    assert world.pods["mnist-worker-1"].ready


def test_done_marker_stays_until_the_next_run_has_begun() -> None:
    world = World(training_job())
    world.succeed("mnist-launcher")
    world.settle()
    old = dict(world.status or {})
    world.job, world.settings = stored_job(
        training_job(slotsPerWorker=4), settings=Settings(run="two")
    )
    world.settle()
    assert world.status == old
    world.sync()
    world.get_ready(*world.declared)
    world.settle()
    assert world.status is not None
    assert "done" not in world.status
    assert world.record.run == world.spec_hash


def test_pods_of_another_run_do_not_decide() -> None:
    world = World(training_job())
    world.job, world.settings = stored_job(
        training_job(slotsPerWorker=4), settings=Settings(run="two")
    )
    world.succeed("mnist-launcher")
    world.sync()
    world.get_ready(*world.declared)
    world.wait(60)
    assert world.record.phase == "Running"
    assert world.deleted == []


# Cleaning -----------------------------------------------------------------------------------

WORKERS = {f"mnist-worker-{index}" for index in range(3)}
CLEANED = {
    "None": (set(), set()),
    "Running": (WORKERS - {"mnist-worker-1"}, WORKERS - {"mnist-worker-1"}),
    "All": ({"mnist-master-0", *WORKERS}, WORKERS - {"mnist-worker-1"}),
}
"""By policy: which Pods are deleted, and which of a tool for Git are ended."""


@pytest.mark.parametrize("git", [False, True])
@pytest.mark.parametrize("policy", CLEANED)
def test_et_operator_20_clean_pod_policy_deletes_what_it_says_and_ends_pods_of_git(
    policy: str, git: bool
) -> None:
    world = torch(git=git, cleanPodPolicy=policy)
    world.succeed("mnist-worker-1")
    world.succeed("mnist-master-0")
    world.wait(600)
    gone, ended = CLEANED[policy]
    assert set(world.declared) - set(world.pods) == (set() if git else gone)
    assert {one.name for one in world.patched("end")} == (ended if git else set())
    assert len(world.patched("end")) == len(ended if git else ())


def test_resident_workers_synced_from_git_end_by_themselves() -> None:
    world = World(training_job(), git=True)
    world.succeed("mnist-launcher")
    world.wait(600)
    assert world.patched("end") == world.of(DeletePod) == []


@pytest.mark.parametrize("policy", ["Running", "All"])
def test_launcher_of_a_training_job_stays_after_its_end(policy: str) -> None:
    world = World(training_job(cleanPodPolicy=policy))
    world.succeed("mnist-launcher")
    world.wait(60)
    assert sorted(world.pods) == ["mnist-launcher"]


# Time to live -------------------------------------------------------------------------------


def test_training_operator_13_run_expires_after_its_end_and_after_a_new_apply() -> None:
    world = torch(ttlSecondsAfterFinished=100, policy="Never")
    world.fail("mnist-worker-0")
    world.wait(99)
    assert len(world.pods) == 4
    world.restart_watcher()
    world.wait(101)
    assert world.pods == {}
    assert world.removed
    world.removed = False
    world.declared_at = world.now
    world.wait(50)
    assert not world.removed
    world.sync()
    world.wait(99)
    assert len(world.pods) == 4
    world.wait(2)
    assert world.pods == {}
    assert world.removed


def test_job_synced_from_git_does_not_expire() -> None:
    world = torch(git=True, ttlSecondsAfterFinished=100)
    world.succeed("mnist-master-0")
    world.wait(600)
    assert len(world.pods) == 4


# Deleted and applied again ------------------------------------------------------------------


def test_job_applied_again_during_its_run_begins_a_new_one() -> None:
    world = torch(backoffLimit=2, activeDeadlineSeconds=1000, policy="OnFailure")
    world.fail("mnist-worker-1", 137)
    world.wait(900)
    assert world.record.replaced == {"worker": 1}
    world.apply_again()
    world.wait(900)
    assert (world.record.phase, world.record.replaced) == ("Running", {})
    assert world.record.config == world.config_uid
    assert len(world.emitted("RunBeganAnew")) == 1
    world.fail("mnist-worker-1", 137)
    world.wait(60)
    assert world.record.phase == "Running"


def test_job_applied_again_after_its_end_does_not_run_again() -> None:
    world = torch(policy="Never", cleanPodPolicy="None")
    world.fail("mnist-worker-0")
    world.wait(60)
    record = world.record
    world.apply_again()
    world.wait(60)
    assert world.record == record
    assert world.emitted("RunBeganAnew") == []


def test_run_that_lost_a_replica_before_its_start_is_running() -> None:
    job = training_job(replicas=3)
    worker(job)["restartPolicy"] = "Never"
    world = World(job, start=False)
    world.sync()
    world.fail("mnist-worker-1")
    world.vanish("mnist-worker-1")
    world.wait(60)
    assert (world.record.phase, world.emitted("PodLost")[0].pod) == ("Running", "mnist-worker-1")


# Suspended ----------------------------------------------------------------------------------


def suspended(world: World, suspend: bool, **more: Any) -> None:
    types = {"Master": 1, "Worker": 3}
    run = {"suspend": suspend, **more}
    world.job, world.settings = stored_job(kubeflow_job("PyTorchJob", types, runPolicy=run))


def test_et_operator_34_suspended_job_resumes_with_a_new_start_time() -> None:
    world = torch()
    suspended(world, suspend=True)
    world.wait(50)
    assert world.pods == {}
    record = world.record
    assert (record.phase, record.replicas, record.started) == ("Suspended", {}, None)
    world.wait(500)
    assert len(world.emitted("JobSuspended")) == 1
    suspended(world, suspend=False)
    world.sync()
    world.wait(60)
    assert world.record.phase == "Running"
    assert world.record.started == START + 550
    assert len(world.emitted("JobResumed")) == 1


def test_suspended_job_synced_from_git_is_left_to_its_tool() -> None:
    world = torch(git=True)
    suspended(world, suspend=True)
    world.settle()
    assert world.deleted == []
    world.sync()
    world.wait(60)
    assert world.pods == {}


def test_ended_run_is_not_suspended() -> None:
    world = torch()
    world.succeed("mnist-master-0")
    world.settle()
    suspended(world, suspend=True)
    world.wait(60)
    assert world.record.phase == "Succeeded"
    assert len(world.pods) == 4


def test_suspended_time_does_not_count_towards_the_deadline() -> None:
    world = torch(activeDeadlineSeconds=100)
    world.wait(90)
    suspended(world, suspend=True, activeDeadlineSeconds=100)
    world.wait(500)
    suspended(world, suspend=False, activeDeadlineSeconds=100)
    world.sync()
    world.wait(90)
    assert world.record.phase == "Running"
    world.wait(20)
    assert world.record.reason == "DeadlineExceeded"


# What is written down -----------------------------------------------------------------------


def test_thousand_new_pods_are_one_write() -> None:
    world = World(training_job(replicas=1000), start=False)
    names = world.declared
    for name in names:
        world.create(name)
        if len(world.pods) % 100 == 0:
            world.settle()
    world.settle()
    world.wait(3, ready=False)
    assert len(world.of(WriteStatus)) == 1
    assert of_replicas(world.record, "seen") == {"launcher": "0", "worker": "0-999"}


def test_pod_drained_before_all_were_created_comes_back() -> None:
    job = training_job(replicas=3)
    worker(job)["restartPolicy"] = "OnFailure"
    world = World(job, start=False)
    world.create("mnist-worker-0")
    world.create("mnist-worker-1")
    world.wait(3)
    world.pods.pop("mnist-worker-1")  # while no watcher runs
    world.restart_watcher()
    world.wait(3)
    assert "mnist-worker-1" in world.pods
    assert "mnist-worker-2" not in world.pods


def test_pods_that_are_never_created_are_reported_once() -> None:
    world = World(training_job(), start=False)
    world.create("mnist-worker-0")
    world.wait(50)
    assert world.emitted("JobNotStarting") == []
    world.wait(600)
    world.restart_watcher()
    world.wait(600)
    [event] = world.emitted("JobNotStarting")
    assert event.message.startswith("missing: mnist-worker-1 and 1 more; they were never created")
    assert (world.record.phase, world.record.reason) == ("Pending", "PodsMissing")
    world.sync()
    world.wait(3)
    assert (world.record.phase, world.record.reason) == ("Running", "")


def test_pods_whose_images_cannot_be_pulled_are_reported_as_pending() -> None:
    world = World(training_job(), start=False)
    world.sync()
    for name in world.declared:
        world.change(name, waiting=Waiting("ImagePullBackOff", "Back-off pulling image"))
    world.wait(600, ready=False)
    [event] = world.emitted("JobNotStarting")
    assert event.message == (
        "no Pod is running: mnist-worker-0: ImagePullBackOff: Back-off pulling image"
    )
    assert (world.record.phase, world.record.reason) == ("Pending", "ImagePullBackOff")
    world.change("mnist-launcher", waiting=None)
    world.wait(3)
    assert (world.record.phase, world.record.reason) == ("Running", "")


@pytest.mark.parametrize("start", [False, True], ids=["at first", "after a preemption"])
@pytest.mark.parametrize(("gang", "reports"), [("none", 1), ("volcano", 0)])
def test_unschedulable_pods_are_reported_unless_a_gang_queues(
    gang: str, reports: int, start: bool
) -> None:
    world = World(training_job(), start=start, settings=Settings(gang=gang))
    world.sync()
    waiting = Waiting("Unschedulable", "0/3 nodes are available")
    for name in world.declared:
        world.change(name, phase="Pending", ready=False, waiting=waiting)
    world.wait(30, ready=False)
    assert world.emitted("JobNotStarting") == []
    world.wait(600, ready=False)
    assert (world.record.phase, world.record.reason) == ("Pending", "Unschedulable")
    assert len(world.emitted("JobNotStarting")) == reports
    for name in world.declared:
        world.change(name, waiting=None)
    world.wait(3)
    assert (world.record.phase, world.record.reason) == ("Running", "")


@pytest.mark.parametrize("how", ["unknown", "late", "kept"])
def test_pod_that_cannot_terminate_is_reported_once_and_awaited(how: str) -> None:
    world = torch()
    change: dict[str, Any] = {"deleting": True, "due": START + 30, "disrupted": True}
    if how == "unknown":
        change = {"phase": "Unknown"}
    if how == "kept":
        change["phase"] = "Succeeded"
    world.change("mnist-worker-1", ready=False, **change)
    world.wait(1000, ready=False)
    world.restart_watcher()
    world.wait(1000, ready=False)
    [event] = world.emitted("PodUnreachable")
    assert (event.pod, event.warning) == ("mnist-worker-1", True)
    assert ("kubectl delete pod mnist-worker-1 --force" in event.message) == (how != "kept")
    assert ("finalizer" in event.message) == (how == "kept")
    assert "mnist-worker-1" in world.pods
    assert not world.record.ended


def test_pod_that_vanished_without_a_watcher_comes_back() -> None:
    job = training_job()
    worker(job)["restartPolicy"] = "OnFailure"
    world = World(job)
    world.vanish("mnist-worker-1")
    world.restart_watcher()
    world.settle()
    assert "mnist-worker-1" not in world.pods, "its whole job may be about to go"
    world.wait(60)
    assert world.pods["mnist-worker-1"].ready


def test_name_held_by_a_pod_of_another_run_is_awaited() -> None:
    job = training_job()
    worker(job)["restartPolicy"] = "Always"
    world = World(job)
    world.change("mnist-worker-1", spec_hash="another")
    world.wait(600)
    assert world.deleted == []
    assert world.of(CreatePod) == []
    [event] = world.emitted("NameTaken")
    assert event.pod == "mnist-worker-1"


def test_pod_state_has_only_what_rules_read() -> None:
    labels = {"etcompile.dev/role": "worker", "etcompile.dev/index": "3"}
    metadata = {"name": "mnist-worker-3", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata |= {"labels": labels, "annotations": {"etcompile.dev/spec-hash": "abc"}}
    main = {"name": "main", "restartCount": 2, "state": {"terminated": {"exitCode": 137}}}
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [main, {"name": "side", "restartCount": 1, "state": {"running": {}}}],
        "initContainerStatuses": [{"name": "init", "restartCount": 4, "state": {}}],
    }
    pod = {"metadata": metadata, "status": status}
    assert observed(pod) == PodState(
        *("mnist-worker-3", "u", "worker", 3, "abc", "Failed"),
        reason="Evicted",
        disrupted=True,
        exits=(("main", 137),),
        restarts=3,
        init_restarts=4,
        created=1767225600.0,
        failures=(Failure("worker", 3, "mnist-worker-3", "u.Evicted", reason="Evicted"),),
    )
