"""The work queue of a controller: each key once, one worker at a time."""

import threading
import time

from etcompile.kubeapi.controller.work_queue import WorkQueue, backoff

A, B = ("ml", "a"), ("ml", "b")


def test_key_enqueued_many_times_is_returned_once():
    queue = WorkQueue()
    for _ in range(100):
        queue.enqueue(A)
    queue.enqueue(B)
    assert queue.depth == 2
    assert [queue.take(), queue.take()] == [A, B]


def test_key_enqueued_while_processed_is_returned_again_afterwards():
    queue = WorkQueue()
    queue.enqueue(A)
    assert queue.take() == A
    queue.enqueue(A)
    queue.enqueue(B)
    assert queue.take() == B  # and not A, which is in hand
    queue.done(A)
    assert queue.take() == A


def test_delayed_key_is_returned_after_its_delay():
    queue = WorkQueue()
    queue.enqueue(A)
    queue.take()
    begun = time.monotonic()
    queue.done(A, begun + 0.1)
    assert queue.idle
    assert queue.take() == A
    assert time.monotonic() >= begun + 0.1


def test_postponed_timers_do_not_pile_up():
    queue = WorkQueue()
    keys = [("ml", f"job-{number}") for number in range(20)]
    weeks = time.monotonic() + 1_000_000
    for number in range(10_000):
        key = keys[number % len(keys)]
        queue.enqueue(key)
        assert queue.take() == key
        queue.done(key, weeks - number)
    assert len(queue._timers) < 200  # noqa: SLF001
    queue.enqueue(A)
    queue.take()
    queue.done(A, time.monotonic() + 0.05)
    assert queue.take() == A


def test_later_delay_replaces_an_earlier_one():
    queue = WorkQueue()
    for again in (time.monotonic() + 0.05, None):
        queue.enqueue(A)
        queue.take()
        queue.done(A, again)
    keys = []
    thread = threading.Thread(target=lambda: keys.append(queue.take()))
    thread.start()
    thread.join(0.3)
    assert keys == []
    queue.close()
    thread.join(60)
    assert keys == [None]


def test_namespace_with_many_keys_does_not_delay_another():
    queue = WorkQueue()
    for number in range(1000):
        queue.enqueue(("many", f"job-{number}"))
    queue.enqueue(("few", "job"))
    first = [queue.take() for _ in range(4)]
    assert ("few", "job") in first[:2]
    assert first[2:] == [("many", "job-1"), ("many", "job-2")]


def test_backoff_stays_below_thirty_seconds_after_any_number_of_failures():
    assert 0.02 <= backoff(1) <= 0.05
    for failures in (11, 1_023, 1_025, 10**9):
        assert 15.0 <= backoff(failures) <= 30.0
