"""The timeline of a run: what is kept of its time, and what nobody can make of it."""

from typing import Any

import pytest
from msgspec import structs

from etcompile.causes.goodput import Attempt, advanced, goodput, read_timeline, timeline_text
from etcompile.model.run_record import RunRecord

RECORD = RunRecord("run", "Running", started=1000.0)


def known(record: RunRecord, *times: tuple[float, float], now: float = 2000.0) -> Any:
    return advanced(None, record, times, now)


def test_seconds_in_training_are_counted_once_however_often_they_are_seen() -> None:
    timeline = known(RECORD, (1010.0, 1050.0), now=1050.0)
    for now in (1060.0, 1060.0, 1100.0):
        timeline = advanced(timeline, RECORD, [(1010.0, now)], now)
    assert timeline.times == ((1010.0, 1100.0),)
    assert (goodput(timeline, 1100.0).training, goodput(timeline, 1100.0).elapsed) == (90.0, 100.0)
    assert goodput(timeline, 1100.0).ratio == pytest.approx(0.9)


def test_the_time_in_which_a_run_hung_was_not_in_training() -> None:
    timeline = known(RECORD, (1010.0, 1500.0), now=1500.0)
    again = structs.replace(RECORD, restarts=1, restarted_at=1700.0, epoch=1, epoch_reason="hangs")
    advanced_timeline = advanced(timeline, again, [(1010.0, 1700.0)], 1700.0, (1100.0, 1700.0))
    assert advanced_timeline.times == ((1010.0, 1100.0),)
    # Kubelets tell the same spans for a while, and another watcher reads what this one wrote.
    read = read_timeline({"timeline": timeline_text(advanced_timeline)})
    later = advanced(read, again, [(1010.0, 1702.0), (1710.0, 1800.0)], 1800.0)
    assert later.times == ((1010.0, 1100.0), (1700.0, 1702.0), (1710.0, 1800.0))


def test_each_restart_is_an_attempt_with_what_ended_the_one_before() -> None:
    timeline = known(RECORD, (1010.0, 1100.0))
    again = structs.replace(
        RECORD, phase="Restarting", restarts=1, restarted_at=1110.0, message="worker 3: exit code 1"
    )
    restarted = advanced(timeline, again, [(1010.0, 1100.0)], 1110.0)
    in_place = structs.replace(
        again, phase="Running", restarts=2, restarted_at=1300.0, epoch=1, epoch_reason="rank 4 died"
    )
    then = advanced(restarted, in_place, [(1150.0, 1290.0)], 1300.0)
    over = structs.replace(in_place, phase="Failed", finished=1400.0, message="too often")
    ended = advanced(then, over, [(1310.0, 1390.0)], 1401.0)
    assert ended.attempts == (
        Attempt(0, 1000.0, 1110.0, "worker 3: exit code 1"),
        Attempt(1, 1110.0, 1300.0, "rank 4 died"),
        Attempt(2, 1300.0, 1400.0, "too often"),
    )
    assert goodput(ended, 9999.0).elapsed == 400.0
    assert goodput(ended, 9999.0).training == 90.0 + 140.0 + 80.0


def test_nothing_is_in_training_before_the_run_began() -> None:
    timeline = known(RECORD, (900.0, 1100.0))
    assert timeline.times == ((1000.0, 1100.0),)
    assert advanced(None, RunRecord("run"), [(0.0, 10.0)], 10.0) is None


def test_suspended_run_pauses_and_starts_a_new_timeline_on_resume() -> None:
    timeline = known(RECORD, (1000.0, 1500.0))
    suspended = RunRecord("run", "Suspended")
    for now in (1600.0, 5000.0):
        timeline = advanced(timeline, suspended, (), now)
    assert timeline.attempts[-1].ended == 1600.0
    assert goodput(timeline, 9000.0).ratio == pytest.approx(500 / 600)
    resumed = advanced(timeline, RunRecord("run", "Running", started=8000.0), (), 8001.0)
    assert (resumed.began, len(resumed.attempts), resumed.times) == (8000.0, 1, ())


def test_it_is_bounded_and_forgets_no_second() -> None:
    timeline, now = known(RECORD), 1000.0
    for number in range(300):
        record = structs.replace(
            RECORD, restarts=number, restarted_at=now, epoch=number, epoch_reason="x" * 500
        )
        now += 100.0
        timeline = advanced(timeline, record, [(now - 60.0, now)], now)
    text = timeline_text(timeline)
    assert len(text) < 12 * 1024
    assert goodput(timeline, now).training == pytest.approx(300 * 60.0)
    assert goodput(timeline, now).elapsed == pytest.approx(300 * 100.0)
    assert read_timeline({"timeline": text}) == timeline
    # What is seen late of a time of which only the sum is left does not count again.
    late = advanced(timeline, record, [(1040.0, 1100.0)], now)
    assert goodput(late, now).training == pytest.approx(300 * 60.0)


def _written(facts: str) -> str:
    return '{"version": 1, "timeline": {"run": "r", ' + facts + "}}"


def test_what_a_watcher_writes_is_read() -> None:
    text = _written('"began": 1, "attempts": [{"number": 0, "began": 1}], "times": [[2, 5]]')
    assert read_timeline({"timeline": text}) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        "null",
        '{"version": 2, "timeline": {"run": "r", "began": 1}}',
        '{"version": 1, "timeline": {"run": "r", "began": 1}}',
        _written('"began": 1e99, "attempts": [{"number": 0, "began": 1}]'),
        _written('"began": 1, "attempts": [{"number": 0, "began": 1}], "times": [[5, 2]]'),
        _written('"began": 1, "attempts": [{"number": 0, "began": 1, "why": "' + "x" * 500 + '"}]'),
    ],
)
def test_what_no_watcher_has_written_is_not_read(text: str) -> None:
    assert read_timeline({"timeline": text}) is None
