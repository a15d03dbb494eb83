"""Commands that restart in place: no process of an old epoch beside one of a new one, ever."""

import json
from itertools import pairwise
from typing import Any

import pytest
from msgspec import structs

from etcompile.model.epochs import Command, command_text, read_command
from etcompile.model.notice import notice
from etcompile.model.run_record import newer_version
from etcompile.watch.actions import CommandPod, CreatePod, DeletePod, WarnPod, WriteStatus
from etcompile.watch.rules.completion import MOST_IN_A_ROW
from gang import GRACE, Gang, stamp


def epochs(gang: Gang) -> dict[str, int]:
    return {found.name: found.process.epoch for found in gang.alive if found.process is not None}


def at_work(seed: int = 1, **options: Any) -> Gang:
    """A gang that has trained for a while."""
    gang = Gang(seed, **options)
    gang.pass_time(20)
    assert gang.record.phase == "Running"
    assert epochs(gang) == dict.fromkeys(gang.declared, 0)
    gang.done.clear()
    return gang


@pytest.mark.parametrize("seed", range(24))
def test_whatever_is_killed_no_process_meets_one_of_another_epoch(seed: int) -> None:
    gang = Gang(seed)
    gang.pass_time(gang.random.choice((1, 3, 12)))
    faults = (gang.kill_process, gang.kill_container, gang.delete_pod, gang.force_delete)
    for _ in range(6):
        for _ in range(gang.random.choice((1, 1, 2))):
            gang.random.choice(faults)(gang.random.choice(gang.declared))
        if gang.random.random() < 0.3:
            gang.restart_watcher()
        gang.pass_time(gang.random.choice((1, 3, 15, 40)))
        if gang.record.ended:
            break
    gang.pass_time(90)
    gang.sync()  # a Pod that no watcher has ever seen is nobody's to make again
    gang.pass_time(60)
    assert not gang.violations
    if not gang.record.ended:
        assert epochs(gang) == dict.fromkeys(gang.declared, gang.record.epoch)


def test_whoever_began_by_itself_is_told_once_who_looks_after_it() -> None:
    """A kubelet takes more than a minute to bring J-status into a Pod that nobody touches."""
    gang = Gang(1)
    gang.pass_time(60)
    told = [(one.name, one.command.epoch, one.command.run) for one in gang.of(CommandPod)]
    assert sorted(told) == [(name, 0, True) for name in sorted(gang.declared)]
    assert epochs(gang) == dict.fromkeys(gang.declared, 0)


def test_a_process_that_dies_costs_one_write_and_one_patch_of_each_pod() -> None:
    gang = at_work()
    before = {name: pod.uid for name, pod in gang.pods.items()}
    for name in gang.declared:  # the others lost their peer
        gang.kill_process(name)
    gang.pass_time(15)
    assert {name: pod.uid for name, pod in gang.pods.items()} == before
    assert epochs(gang) == dict.fromkeys(gang.declared, 1)
    assert len(gang.of(WriteStatus)) == 1
    first = [told for told in gang.of(CommandPod) if not told.command.reminded]
    assert sorted(told.name for told in first) == sorted(gang.declared)
    assert "its command ended, and so did" in gang.told("EpochBegins")[0].message


@pytest.mark.parametrize("seed", range(6))
def test_what_a_kubelet_loses_is_told_again(seed: int) -> None:
    """Real ones lose what comes while they bring the change before into a Pod."""
    gang = at_work(seed, loses=0.15, hold=60)
    before = {name: pod.uid for name, pod in gang.pods.items()}
    for container in gang.alive:
        assert container.process is not None
        container.process.ends = 1e9  # nobody ends without being told
    gang.kill_process(gang.declared[1])
    gang.pass_time(100)
    assert not gang.violations
    assert epochs(gang) == dict.fromkeys(gang.declared, 1)
    assert {name: pod.uid for name, pod in gang.pods.items()} == before


def test_a_process_that_hangs_is_told_to_stop_and_then_to_run() -> None:
    gang = at_work(3)
    for container in gang.alive:
        assert container.process is not None
        container.process.ends = 1e9  # it waits for its peers for ever
    victim = gang.declared[2]
    gang.kill_process(victim)
    gang.pass_time(30)
    first = [one for one in gang.of(CommandPod) if not one.command.reminded]
    told = [(one.name, one.command.run) for one in first]
    for name in gang.declared:
        assert [run for who, run in told if who == name] == (
            [True] if name == victim else [False, True]
        )
    assert epochs(gang) == dict.fromkeys(gang.declared, 1)


def test_only_the_pod_that_is_lost_is_made_again() -> None:
    gang = at_work()
    gang.delete_pod("mnist-worker-1")
    gang.pass_time(30)
    assert [made.name for made in gang.of(CreatePod)] == ["mnist-worker-1"]
    assert not gang.of(DeletePod)
    assert gang.of(CreatePod)[0].command == Command(1, run=False, since="new")
    assert epochs(gang) == dict.fromkeys(gang.declared, 1)


def test_a_pod_deleted_by_force_is_waited_for_as_long_as_its_processes_may_live() -> None:
    gang = at_work()
    forced = gang.now
    gang.force_delete("mnist-worker-0")
    gang.pass_time(30)
    begun = [when for when, _, epoch in gang.patches if epoch == 1]
    assert not gang.violations
    runs = [one for one in gang.of(CommandPod) if one.command.run]
    assert min(one.command.at for one in runs) >= forced + GRACE
    assert begun


def test_a_container_that_has_ended_well_restarts_nothing() -> None:
    """Its kubelet says that of the Pod only once it has cleared it away, a second or two later."""
    gang = at_work()
    name = gang.declared[1]
    supervised = gang.pods[name].supervised
    assert supervised is not None
    [container] = supervised.containers
    ended = structs.replace(container, ready=False, ends=1, started="", succeeded=True)
    since = stamp(gang.now)
    gang.change(
        name, ready=False, supervised=structs.replace(supervised, containers=(ended,), since=since)
    )
    gang.settle()
    assert not gang.told("EpochBegins")
    assert not gang.of(CommandPod)


def test_a_kubelet_that_starts_anew_restarts_nothing() -> None:
    """It calls its containers not ready for a moment; all of them, and only its own."""
    gang = at_work()
    name = gang.declared[1]
    supervised = gang.pods[name].supervised
    assert supervised is not None
    [container] = supervised.containers
    unready = structs.replace(container, ready=False)
    flapped = structs.replace(supervised, containers=(unready,), since=stamp(gang.now))
    gang.change(name, supervised=flapped)
    gang.settle()
    gang.now += 1.0
    gang.change(name, supervised=structs.replace(supervised, since=stamp(gang.now)))
    gang.pass_time(10)
    assert gang.record.epoch == 0
    assert not gang.of(CommandPod)


def test_a_job_without_a_watcher_runs_as_one_that_does_not_restart_in_place() -> None:
    gang = Gang(5)
    gang.kept = False
    gang.pass_time(20)
    assert epochs(gang) == dict.fromkeys(gang.declared, 0)
    gang.kill_process("mnist-worker-0")
    [ended] = [found for found in gang.containers.values() if found.name == "mnist-worker-0"]
    assert ended.ends == 1  # its container ends with it


def test_epochs_that_fail_in_a_row_back_off_then_make_all_pods_again_then_fail_the_run() -> None:
    gang = at_work()
    begun: list[float] = []
    made = 0
    for _ in range(200):
        if gang.record.ended:
            break
        if epochs(gang) == dict.fromkeys(gang.declared, gang.record.epoch or 0):
            begun.append(gang.now)
            for name in gang.declared:
                gang.kill_process(name, 1)
        gang.pass_time(2)
        made = len({pod.uid for pod in gang.pods.values()} & {f"uid-{n}" for n in range(1, 5)})
    assert gang.record.reason == "RestartsInARow"
    assert gang.record.restarts_in_a_row == 2 * MOST_IN_A_ROW + 1
    assert made == 0, "no Pod of the first ones is left"
    assert len({one.uid for one in gang.of(DeletePod)}) == len(gang.declared), "made again once"
    waits = [later - sooner for sooner, later in pairwise(begun)]
    assert waits[-1] > waits[0] + 30, "later and later"


def test_a_run_of_ten_minutes_ends_the_row() -> None:
    gang = at_work()
    for _ in range(2):
        for name in gang.declared:
            gang.kill_process(name)
        gang.pass_time(20)
    assert gang.record.restarts_in_a_row == 2
    gang.pass_time(620)
    for name in gang.declared:
        gang.kill_process(name)
    gang.pass_time(10)
    assert gang.record.restarts_in_a_row == 1
    assert gang.record.restarts == 3


def test_the_policy_of_the_job_limits_epochs() -> None:
    gang = Gang(1)
    gang.job = structs.replace(gang.job, run=structs.replace(gang.job.run, backoff_limit=2))
    gang.pass_time(20)
    for _ in range(4):
        for name in gang.declared:
            gang.kill_process(name, 1)
        gang.pass_time(15)
    assert gang.record.phase == "Failed"
    assert gang.record.reason == "BackoffLimitExceeded"


def test_a_watcher_from_before_epochs_leaves_a_run_that_has_any_alone() -> None:
    gang = at_work()
    assert gang.status is not None
    assert gang.status["epoch"] == f"{gang.spec_hash} 0"
    version = json.loads(gang.status["record"])["version"]
    assert version == 3
    assert newer_version({"record": json.dumps({"version": version + 1})}) == version + 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("4", None),
        ("4 sing", None),
        ("x run", None),
        ("4 run", Command(4, run=True)),
        ("4 hold 2 new 1763870000", Command(4, run=False, ends=2, since="new", at=1763870000.0)),
        ("4 run 0 - 9999999999999", Command(4, run=True)),
    ],
)
def test_an_annotation_that_anybody_may_write_is_read_with_care(
    text: str, expected: Command | None
) -> None:
    assert read_command(text) == expected
    if expected is not None:
        assert read_command(command_text(expected)) == expected


def test_all_commands_are_warned_once_when_one_pod_is_about_to_go() -> None:
    gang = at_work(checkpoint_signal="USR1")
    gang.delete_pod("mnist-worker-1")
    gang.containers[gang.pods["mnist-worker-1"].uid].killed = gang.now + 8
    gang.pass_time(1)
    gang.delete_pod("mnist-worker-2")  # the same drain
    gang.restart_watcher()
    gang.pass_time(5)
    warned = [one for one in gang.of(WarnPod) if not one.notice.endswith(" (again)")]
    assert sorted(one.name for one in warned) == sorted(gang.declared)
    [notice] = {one.notice for one in warned}
    # No supervisor says that it was warned, and a kubelet may lose a change of an annotation.
    again = [one for one in gang.of(WarnPod) if one.notice.endswith(" (again)")]
    assert {one.notice for one in again} == {f"{notice} (again)"}
    assert sorted(one.name for one in again) == ["mnist-master-0", "mnist-worker-0"]
    name, signal, _, reason = notice.split(" ", 3)
    assert name.startswith("0-")
    assert signal == "USR1"
    assert reason == "mnist-worker-1 is about to go"
    assert len(gang.told("CheckpointRequested")) == 1


def test_nobody_is_warned_when_the_whole_job_goes() -> None:
    gang = at_work(checkpoint_signal="USR1")
    for name in gang.declared:
        gang.delete_pod(name)
    gang.settle()
    assert not gang.of(WarnPod)


def test_nobody_is_warned_again_whom_somebody_has_just_asked() -> None:
    gang = at_work(checkpoint_signal="USR1")
    asked = notice(0, gang.now, "USR1", 0.0, "somebody has asked for a checkpoint")
    for name in gang.declared:
        gang.act(WarnPod(name, gang.pods[name].uid, asked.text))
    gang.pass_time(5)
    gang.delete_pod("mnist-worker-1")
    gang.pass_time(5)
    assert {one.notice for one in gang.of(WarnPod)} <= {asked.text}
    # Much later it is another disturbance.
    gang.settle()
    gang.pass_time(60)
    gang.delete_pod("mnist-worker-2")
    gang.pass_time(5)
    assert any("mnist-worker-2 is about to go" in one.notice for one in gang.of(WarnPod))
