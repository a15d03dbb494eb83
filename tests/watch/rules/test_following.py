"""DLRover's rule: a lost worker is followed by another one, of the same rank and a new number."""

from collections.abc import Callable
from typing import Any

import pytest

from etcompile.model import Settings
from etcompile.model.run_record import RestartHistory
from etcompile.watch.core.run import CreatePod, DeletePod
from specs import dlrover_type, elastic_job, scale_plan
from world import World, stored_job

MASTER = "elasticjob-mnist-dlrover-master-0"
PENDING = 900


def named(index: int) -> str:
    return f"mnist-edljob-worker-{index}"


WORKER = named(1)


def torch(
    nnodes: str = "3:4", workers: int = 4, annotations: dict[str, str] | None = None, **worker: Any
) -> dict[str, Any]:
    command = ["dlrover-run", f"--nnodes={nnodes}", "train.py"]
    spec = {**dlrover_type(workers, command=command), **worker}
    return elastic_job({"worker": spec}, annotations=annotations)


def servers(restart: str = "Never", **types: Any) -> dict[str, Any]:
    memory = {"requests": {"memory": "4Gi"}, "limits": {"memory": "4Gi"}}
    worker = dlrover_type(3, command=["python", "train.py"], resources=memory)
    worker["template"]["spec"]["restartPolicy"] = restart
    replica_types = {
        "ps": dlrover_type(2, command=["python", "train.py"]),
        "worker": worker,
        **types,
    }
    return elastic_job(
        replica_types,
        annotations={"etcompile.dev/parameter-servers": "static"},
        distributionStrategy="ParameterServerStrategy",
    )


def history(world: World) -> RestartHistory:
    recorded = world.record.replica(("worker", 1)).history
    assert recorded is not None
    return recorded


LOSSES: dict[str, Callable[[World, str], None]] = {
    "exit 1": lambda it, name: it.fail(name, 1),
    "exit 2": lambda it, name: it.fail(name, 2),
    "exit 14": lambda it, name: it.fail(name, 14),
    "exit 134": lambda it, name: it.fail(name, 134),
    "exit 137": lambda it, name: it.fail(name, 137),
    "exit 139": lambda it, name: it.fail(name, 139),
    "exit 143": lambda it, name: it.fail(name, 143),
    "exit 201": lambda it, name: it.fail(name, 201),
    "exit 247": lambda it, name: it.fail(name, 247),
    "OOMKilled": lambda it, name: it.fail(name, 137, reasons=("OOMKilled",)),
    "evicted": lambda it, name: it.evict(name),
    "evicted, 137": lambda it, name: it.evict(name, 137),
    "no exit code": lambda it, name: it.fail(name, None),
    "deleted": lambda it, name: it.delete(name),
    "erased": lambda it, name: it.vanish(name),
    "Succeeded": lambda it, name: it.succeed(name),
}

# reference/dlrover.md 4.2. R: followed, and counted; r: followed, and not counted; -: not followed;
# F: not followed, and the run fails. A deletion counts upstream and does not here, nor does an
# eviction; a worker that succeeds is done.
TABLE = """
allreduce       R R R R r R r R - - r r R r r -
static          F R R F r R r R R R r r R r r -
static, Always  R R R R r R r R R R r r R r r -
"""
JOBS = {"allreduce": torch(), "static": servers(), "static, Always": servers("Always")}
ROWS = [(line[:15].strip(), line[15:].split()) for line in TABLE.strip().splitlines()]
CASES = [(job, loss, mark) for job, marks in ROWS for loss, mark in zip(LOSSES, marks, strict=True)]


@pytest.mark.parametrize(("job", "loss", "mark"), CASES)
def test_lost_worker_is_followed_as_the_table_of_exit_codes_says(
    job: str, loss: str, mark: str
) -> None:
    world = World(JOBS[job])
    LOSSES[loss](world, WORKER)
    world.wait(60)
    followers = sorted(world.followers)
    assert bool(followers) == (mark in "Rr")
    assert world.record.phase == ("Failed" if mark == "F" else "Running")
    line = world.record.replica(("worker", 1)).history or RestartHistory()
    assert (line.relaunches, line.counted) == {"R": (1, 1), "r": (1, 0)}.get(mark, (0, 0))
    if followers:
        follower = world.pods[followers[0]]
        assert follower.rank == 1
        assert follower.index == {"allreduce": 4}.get(job, 2)
    assert not world.deleted or mark == "F"
    lost = LOSSES[loss] not in (LOSSES["deleted"], LOSSES["erased"])
    assert (WORKER in world.pods) == lost, "who failed stays, for the sake of its log"


@pytest.mark.parametrize(("restart_count", "most"), [(None, 3), (0, 0), (1, 1), (9, 5)])
def test_limit_of_followers_is_restart_count_and_five_at_most(
    restart_count: int | None, most: int
) -> None:
    worker = {} if restart_count is None else {"restartCount": restart_count}
    world = World(torch("1:12", 12, **worker))
    name = WORKER
    for _ in range(12):
        world.fail(name, 1)
        world.wait(400)
        line = world.record.replica(("worker", 1)).history or RestartHistory()
        if line.index is None or named(line.index) == name:
            break
        name = named(line.index)
    assert len(world.followers) == most
    assert world.record.phase == "Running", "eleven others are more than the least"


def test_run_fails_when_more_pods_failed_than_the_job_has_workers() -> None:
    world = World(torch())
    for name in (named(0), named(1), named(2)):
        world.fail(name, 137)
        world.wait(60)
    assert world.record.phase == "Running"
    world.fail(named(3), 1)
    world.settle()
    assert (world.record.phase, world.record.reason) == ("Failed", "TooManyFailures")
    assert len(world.followers) == 3


def test_deletions_and_evictions_count_towards_no_limit() -> None:
    world = World(torch())
    for number in range(4, 16):
        name = WORKER if number == 4 else named(number - 1)
        world.evict(name) if number % 2 else world.delete(name)
        world.wait(60)
        world.restart_watcher()
        assert named(number) in world.followers, "numbers are not given twice"
    assert world.record.phase == "Running"
    assert world.record.replica(("worker", 1)).history == RestartHistory(15, relaunches=12)


# Numbers -----------------------------------------------------------------------------------------


def test_numbers_of_followers_begin_after_the_largest_declared_scale() -> None:
    world = World(torch("2:8", 3))
    world.fail(WORKER, 1)
    world.fail(named(2), 1)
    world.wait(10)
    assert [(world.pods[one].index, world.pods[one].rank) for one in sorted(world.followers)] == [
        (8, 1),
        (9, 2),
    ]


# Two of one rank ---------------------------------------------------------------------------------


def test_lost_run_record_creates_no_second_follower() -> None:
    world = World(torch())
    world.fail(WORKER, 1)
    world.wait(10)
    world.status = None
    world.restart_watcher()
    world.wait(60)
    assert world.followers == {named(4)}
    assert history(world).index == 4
    world.delete(named(4))
    world.wait(10)
    assert world.followers == {named(4), named(5)}


@pytest.mark.parametrize("vanishes", [True, False], ids=["gone at last", "on a dead node"])
def test_terminating_worker_is_not_followed_before_its_grace_period_ends(vanishes: bool) -> None:
    world = World(torch())
    world.change(WORKER, deleting=True, due=world.now + 30)
    world.wait(25, ready=False)
    assert not world.followers
    if vanishes:
        world.vanish(WORKER)
    world.wait(35, ready=False)
    assert world.followers == {named(4)}


def test_deleted_worker_synced_from_git_comes_back_under_its_name() -> None:
    world = World(torch(), git=True)
    world.delete(WORKER)
    world.wait(30)
    assert not world.followers
    assert world.pods[WORKER].ready
    assert world.record.replica(("worker", 1)).history == RestartHistory(relaunches=1)


def test_follower_leaves_when_the_declared_worker_is_back() -> None:
    world = World(torch(), git=True)
    world.fail(WORKER, 1)
    world.wait(10)
    follower = world.pods[named(4)]
    world.vanish(WORKER)  # somebody clears up
    world.sync()
    world.wait(10)
    assert world.deleted == [follower.uid]
    assert named(4) not in world.pods
    assert world.pods[WORKER].ready
    assert history(world).index is None
    world.wait(100)
    world.fail(WORKER, 1)
    world.wait(10)
    assert world.pods[named(5)].rank == 1, "and numbers are not given twice"


def test_follower_is_followed_if_git_declares_a_worker_with_its_number() -> None:
    job = torch()
    world = World(job, git=True)
    world.fail(WORKER, 1)
    world.wait(10)
    assert world.pods[named(4)].rank == 1
    # A plan in Git moves worker 0: its next number there is 4, too.
    plan = scale_plan(migratePods=[{"name": named(0), "resource": {"memory": "2Gi"}}])
    world.job, world.settings = stored_job(job, plan)
    for _ in range(5):
        world.sync()
        world.wait(30)
    ranks = {
        pod.rank: name for name, pod in world.pods.items() if pod.ready and pod.rank is not None
    }
    assert ranks == {0: named(4), 1: named(5), 2: named(2), 3: named(3)}


@pytest.mark.parametrize("git", [True, False])
def test_moved_worker_leaves_when_the_pod_with_its_rank_is_there(git: bool) -> None:
    job = torch("2:8", 3)
    world = World(job, git=git)
    plan = scale_plan(migratePods=[{"name": WORKER, "resource": {"memory": "2Gi"}}])
    world.job, world.settings = stored_job(job, plan)
    world.wait(60)
    assert world.pods[WORKER].ready, "the new one is not there yet"
    world.create(named(3))
    world.wait(10)
    assert WORKER not in world.pods
    assert not world.followers
    assert world.pods[named(3)].rank == 1


# The end -----------------------------------------------------------------------------------------


def test_run_succeeds_when_all_ranks_did_followers_included() -> None:
    world = World(torch())
    world.fail(WORKER, 1)
    world.wait(10)
    for name in (named(0), named(2), named(3), named(4)):
        assert world.record.phase == "Running"
        world.succeed(name)
        world.settle()
    assert world.record.phase == "Succeeded"
    assert (world.status or {})["done"] == world.spec_hash, "which ends the master"
    assert world.pods[WORKER].phase == "Failed"
    assert world.deleted == []


@pytest.mark.parametrize(
    ("lost", "phase"),
    [([WORKER], "Succeeded"), ([WORKER, named(2)], "Failed")],
    ids=["the least is left", "fewer than the least are left"],
)
def test_run_ends_by_its_least_nodes_if_others_are_not_followed(
    lost: list[str], phase: str
) -> None:
    world = World(torch())
    for name in lost:
        assert world.record.phase == "Running"
        LOSSES["OOMKilled"](world, name)
        world.settle()
    assert "OOMKilled: no Pod replaces it" in world.emitted("PodLost")[0].message
    for name in {named(0), named(2), named(3)} - {*lost}:
        world.succeed(name)
    world.settle()
    assert world.record.phase == phase


def test_no_worker_is_followed_after_one_succeeded() -> None:
    world = World(torch())
    world.succeed(named(0))
    world.settle()
    world.fail(WORKER, 1)
    world.wait(60)
    assert not world.followers
    for name in (named(2), named(3)):
        world.succeed(name)
    world.settle()
    assert world.record.phase == "Succeeded", "three of four, and three are enough"


def test_failed_run_ends_running_workers_and_leaves_ended_ones() -> None:
    for git in (True, False):
        world = World(torch("4:4"), git=git)
        world.fail(WORKER, 247)
        world.settle()
        assert world.record.phase == "Failed"
        ended = {one.name for one in (world.patched("end") if git else world.of(DeletePod))}
        assert ended == {named(0), named(2), named(3)}
        assert WORKER in world.pods
        assert MASTER in world.pods, "it ends by the done marker"


def test_lost_master_is_recreated_under_its_name() -> None:
    for loss in ("deleted", "erased", "evicted"):
        world = World(torch())
        before = world.pods[MASTER].uid
        LOSSES[loss](world, MASTER)
        world.wait(10)
        assert world.pods[MASTER].uid != before
        assert world.record.phase == "Running"
        assert not world.followers


# Time --------------------------------------------------------------------------------------------


def waiting(job: dict[str, Any], running: int, **options: Any) -> World:
    world = World(job, start=False, **options)
    world.sync()
    world.get_ready(MASTER, *[named(index) for index in range(running)])
    world.wait(PENDING - 1, ready=False)
    assert not world.record.ended
    world.wait(2, ready=False)
    return world


@pytest.mark.parametrize(
    ("strategy", "running", "ends"),
    [
        (None, 2, True),
        (None, 3, False),
        ("2", 3, True),
        ("1", 2, True),
        ("0", 2, False),
        ("-1", 0, False),
    ],
)
def test_worker_that_never_starts_fails_the_run_as_its_strategy_says(
    strategy: str | None, running: int, ends: bool
) -> None:
    annotations = {"pending_fail_strategy": strategy} if strategy else {}
    world = waiting(torch(annotations=annotations), running)
    assert world.record.phase == ("Failed" if ends else "Running" if running else "Pending")
    assert not ends or world.record.reason == "PendingTimeout"


def test_worker_in_the_queue_of_a_gang_scheduler_may_wait() -> None:
    world = waiting(torch(), 0, settings=Settings(gang="volcano"))
    assert not world.record.ended


SILENT = 1800.0


def silent(**options: Any) -> World:
    """A job whose workers may be silent for half an hour; all speak but the second one."""
    world = World(torch(annotations={"etcompile.dev/stuck-after": "1800"}), **options)
    world.words = {named(index): world.now + 1e9 for index in (0, 2, 3)}
    return world


@pytest.mark.parametrize("git", [True, False])
def test_worker_silent_for_too_long_is_ended_and_followed(git: bool) -> None:
    world = silent(git=git)
    before = world.pods[WORKER].uid
    world.wait(SILENT - 1)
    assert not world.reads("activity"), "nobody is asked before it matters"
    world.wait(60)
    assert [one.name for one in world.patched("end")] == [WORKER]
    assert world.pods[WORKER].uid == before, "its log stays"
    assert world.followers == {named(4)}
    assert world.pods[named(4)].ready
    assert world.record.replica(("worker", 1)).history == RestartHistory(4, relaunches=1, counted=1)
    assert world.deleted == []


def test_worker_whose_log_cannot_be_read_is_not_ended() -> None:
    world = silent()
    world.words[WORKER] = None
    world.wait(10 * SILENT)
    assert not world.followers
    assert len(world.reads("activity")) < 1000


# Memory ------------------------------------------------------------------------------------------


def test_silent_worker_is_followed_only_up_to_its_limit() -> None:
    world = silent()
    world.wait(20 * SILENT)
    assert world.record.phase in ("Running", "Failed")
    assert len(world.followers) == 3
    assert not [pod for pod in world.pods.values() if pod.rank == 1 and not pod.ended]


def test_worker_out_of_memory_is_followed_with_more_up_to_the_largest() -> None:
    world = World(servers())
    name, sizes = WORKER, []
    for _ in range(3):
        LOSSES["OOMKilled"](world, name)
        world.wait(60)
        line = history(world)
        sizes.append(line.memory)
        [created] = [one for one in world.of(CreatePod) if one.index == line.index]
        assert created.undeclared is not None
        assert created.undeclared.resources == {"memory": line.memory}
        name = created.name
    assert sizes == ["8192Mi", "16384Mi", "24576Mi"]
    memory = {"requests": {"memory": "64Gi"}}
    worker = dlrover_type(3, command=["python", "train.py"], resources=memory)
    largest = World(servers(worker=worker))
    LOSSES["OOMKilled"](largest, WORKER)
    largest.settle()
    assert (largest.followers, largest.record.phase) == (set(), "Failed")
