"""The time of the API server, from the dates of its answers."""

import time

from etcompile.kubeapi.session import ServerClock, steady


def test_clock_follows_the_dates_of_answers_and_runs_between_them():
    clock = ServerClock()
    dates = [(f"Sun, 22 Nov 2026 10:00:{second:02} GMT") for second in range(3)]
    clock.observe("a proxy's nonsense", steady())
    assert abs(clock.now() - time.time()) < 5
    begun = steady()
    clock.observe(dates[0], begun)
    first = clock.now()
    assert 1_795_341_600.0 <= first < 1_795_341_602.0
    # The same second again says nothing new, and the next one narrows it down.
    clock.observe(dates[0], begun)
    assert clock.now() >= first
    clock.observe(dates[2], steady())
    assert 1_795_341_602.0 <= clock.now() < 1_795_341_603.5
