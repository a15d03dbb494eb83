"""What is kept of failures when Pods go: bounded, each once, and the first among them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from etcompile.causes.log import (
    MOST,
    Failure,
    FailureLog,
    failures_of,
    first_causes,
    log_text,
    read_log,
    tail_of,
)

LOST = "ConnectionResetError: Connection reset by peer"


def failure(index: int, at: float = 100.0, attempt: int = 0, **more: object) -> Failure:
    facts = {"code": 1, "reason": "Error", "node": f"node-{index % 4}", **more}
    uid = f"uid-{index}.main.{attempt}"
    return Failure("worker", index, f"bert-worker-{index}", uid, attempt, at, **facts)


def log_with(*new: Failure, log: FailureLog | None = None, now: float = 200.0) -> FailureLog:
    visible = [one.uid.partition(".")[0] for one in new]
    return (log or FailureLog("run")).with_failures(new, visible, now)


FIRST = {
    "the one that lost no peer, even if it is logged last": (
        *(failure(index, 100.0, tail=LOST) for index in (0, 2, 3)),
        failure(1, 101.0, code=137, reason="OOMKilled"),
    ),
    "the earliest of independent failures": (
        failure(0, 103.0, code=139),
        failure(1, 101.0, code=139),
        failure(2, 102.0, code=9),
    ),
    # A kubelet reports whole seconds, a supervisor parts of them.
    "of one second what ended by itself, not what was terminated": (
        failure(0, 101.0, code=143),
        failure(1, 101.4, code=3),
    ),
    "the earliest where all lost a peer": (
        failure(0, 102.0, tail=LOST),
        failure(1, 101.0, tail=LOST),
    ),
}


@pytest.mark.parametrize("case", FIRST)
def test_first_cause(case: str) -> None:
    *earlier, last = FIRST[case]
    log = log_with(last, log=log_with(*earlier))
    assert first_causes(log.failures)[0].index == 1


def test_hundreds_at_once_stay_small_and_the_first_is_among_them() -> None:
    lines = "\n".join(f"step {step} loss {step / 7}" for step in range(300))
    many = [failure(index, 101.0, tail=f"{lines}\n{LOST}") for index in range(200)]
    first = failure(200, 102.0, code=137, reason="OOMKilled", tail=lines)
    log = log_with(*many, first)
    assert len(log.failures) == MOST
    assert first_causes(log.failures)[0].index == 200
    assert log.left_out == {0: 201 - MOST}
    assert len(log_text(log)) < 100 * 1024
    # And the same in each attempt that follows: each keeps its first.
    for attempt in range(1, 5):
        again = [failure(index, 200.0 + attempt, attempt, tail=LOST) for index in range(200)]
        log = log_with(*again, failure(200, 210.0 + attempt, attempt, code=139), log=log)
        assert len(log_text(log)) < 100 * 1024
    firsts = first_causes(log.failures)
    assert {number: one.index for number, one in firsts.items()} == dict.fromkeys(range(5), 200)


def test_nothing_is_written_down_twice_as_long_as_it_may_be_seen() -> None:
    log = log_with(failure(0), failure(1))
    assert log_with(failure(0), failure(1), log=log) is log
    assert log.nodes == {"node-0": {"ExitCode": 1}, "node-1": {"ExitCode": 1}}
    later = log_with(failure(2), log=log)  # the Pods of the first two are gone
    assert later.noted == ("uid-2.main.0",)


def test_nodes_are_counted_for_what_failed_there_by_itself() -> None:
    log = log_with(failure(0, tail=LOST), failure(4, code=139), failure(8, code=139))
    assert log.nodes == {"node-0": {"Segfault": 2}}


def test_credentials_are_removed_from_the_tail() -> None:
    token = "ghp_" + "a1B2" * 9
    [failure] = failures_of(ended_pod(1, f"export TOKEN={token}\nfailed"))
    assert token not in failure.tail
    assert failure.tail.endswith("failed")


def ended_pod(code: int, message: str = "", **metadata: object) -> dict[str, object]:
    how = {"exitCode": code, "reason": "Error", "message": message}
    how["finishedAt"] = "2026-11-23T10:00:00Z"
    container = {"name": "main", "restartCount": 0, "state": {"terminated": how}}
    labels = {"etcompile.dev/role": "worker", "etcompile.dev/index": "3"}
    named = {"name": "bert-worker-3", "uid": "uid-3", "labels": labels, **metadata}
    return {
        "metadata": named,
        "spec": {"nodeName": "gpu-07"},
        "status": {"phase": "Failed", "containerStatuses": [container]},
    }


def test_a_pod_says_who_it_was_where_and_how_it_ended() -> None:
    [failure] = failures_of(ended_pod(139, "step 3"))
    assert (failure.role, failure.index, failure.pod) == ("worker", 3, "bert-worker-3")
    assert (failure.node, failure.code, failure.reason) == ("gpu-07", 139, "Error")
    assert failure.tail == "step 3"
    assert failure.cause.name == "Segfault"
    assert [*failures_of(ended_pod(0))] == []


def test_exit_after_deletion_is_no_failure() -> None:
    went = {"deletionTimestamp": "2026-11-23T10:00:29Z", "deletionGracePeriodSeconds": 30}
    assert [*failures_of(ended_pod(143, **went))] == []
    before = {"deletionTimestamp": "2026-11-23T10:00:31Z", "deletionGracePeriodSeconds": 30}
    assert [one.code for one in failures_of(ended_pod(1, **before))] == [1]


def late_pod(seconds: int) -> dict[str, object]:
    pod = ended_pod(137)
    pod["spec"]["activeDeadlineSeconds"] = seconds  # type: ignore[index]
    pod["status"] |= {"reason": "DeadlineExceeded", "startTime": "2026-11-23T09:59:00Z"}  # type: ignore[operator]
    return pod


def test_pod_killed_at_its_deadline_is_not_reported_as_out_of_memory() -> None:
    [failure] = failures_of(late_pod(55))
    assert (failure.cause.name, failure.container) == ("DeadlineExceeded", "")
    assert "memory" not in failure.in_words


def test_a_pod_that_the_watcher_ends_has_not_failed() -> None:
    assert [*failures_of(late_pod(1))] == []


def test_a_container_that_was_started_again_tells_of_its_last_end() -> None:
    pod = ended_pod(1, "first try")
    status = pod["status"]["containerStatuses"][0]  # type: ignore[index]
    status |= {"lastState": status.pop("state"), "state": {"running": {}}, "restartCount": 2}
    [failure] = failures_of(pod)
    assert (failure.uid, failure.tail) == ("uid-3.main.2", "first try")


@given(st.text(), st.integers(0, 6000))
def test_tail_never_exceeds_its_size_limit(text: str, times: int) -> None:
    tail = tail_of(text * times)
    assert len(json.dumps(tail, ensure_ascii=False).encode()) <= 4096


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"failures": "?"},
        {"failures": '{"log": {"run": "r"}, "version": 9}'},
        {"failures": '{"log": {"run": "r", "failures": [{"role": 1}]}, "version": 1}'},
        {"failures": '{"log": {"run": "r", "failures": '
                     '[{"role": "w", "index": 0, "pod": "p", "at": 1e300}]}, "version": 1}'},
    ],
)  # fmt: skip
def test_what_somebody_else_has_written_there_is_not_believed(data: dict[str, str]) -> None:
    assert read_log(data) is None


def test_what_is_written_is_read_back() -> None:
    log = log_with(failure(0, tail="ünïcode\n\ttab"), failure(1, message="x" * 2000))
    assert read_log({"failures": log_text(log)}) == log


def test_unread_failures_of_the_newest_attempt_stay_in_the_log() -> None:
    log = None
    for attempt in range(30):
        log = log_with(failure(0, 100.0 + attempt, attempt, code=139), log=log)
    unread = {"code": None, "reason": "CommandEnded"}
    log = log_with(*(failure(index, 200.0, 30, **unread) for index in range(8)), log=log)
    newest = [one for one in log.failures if one.attempt == 30]
    assert (len(newest), len(log.failures)) == (8, MOST)
    # One of them says that it lost no peer; until then nobody is counted for its node.
    assert log.nodes == {"node-0": {"Segfault": 30}}
    read = {
        one.uid: structs.replace(
            one, code=139 if one.index == 5 else 1, tail="step 7" if one.index == 5 else LOST
        )
        for one in newest
    }
    log = log.with_read(read)
    assert first_causes(log.failures)[30].index == 5
    assert log.nodes["node-1"] == {"Segfault": 1}


def test_of_a_container_that_ran_several_epochs_only_the_last_one_speaks() -> None:
    lines = (LOST, "etcompile: the command ended with exit code 1; it can begin again")
    pod = ended_pod(137, "\n".join((*lines, "etcompile: epoch 3 begins", "step 8")))
    [failure] = failures_of(pod)
    assert (failure.tail, failure.cause.name) == ("step 8", "Killed")


def test_what_nobody_can_have_written_there_costs_nothing() -> None:
    huge = {"role": "w", "index": 0, "pod": "p", "code": 1, "tail": "a." * 400_000}
    text = json.dumps({"log": {"run": "r", "failures": [huge]}, "version": 1})
    assert read_log({"failures": text}) is None
    many = {"role": "w", "index": 0, "pod": "p"}
    text = json.dumps({"log": {"run": "r", "failures": [many] * (MOST + 1)}, "version": 1})
    assert read_log({"failures": text}) is None
