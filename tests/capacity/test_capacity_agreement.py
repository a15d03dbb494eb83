"""Whether a job fits: a snapshot's answer, and what the real kube-scheduler and Kueue do.

Jobs of random cases are declared beside what runs already. An answer may be that it depends on how
the scheduler chooses; it must never be that a job fits whose Pods wait.
ETCOMPILE_CAPACITY_CASES=500 tries so many instead of 100, and 200 of them in queues instead of 40;
ETCOMPILE_CAPACITY_SEED draws others.
"""

import os
from collections.abc import Callable

from agreement import Agreement, answer
from random_cases import case
from random_clusters import Case
from random_queues import queued_case
from real_kueue import QueueScheduling
from real_scheduler import Scheduling

CASES = int(os.environ.get("ETCOMPILE_CAPACITY_CASES", "100"))
SEED = int(os.environ.get("ETCOMPILE_CAPACITY_SEED", "0"))
AT_ONCE = 25


def test_answers_agree_with_the_scheduler(scheduling: Scheduling) -> None:
    hold(scheduling, case, CASES)


def test_answers_agree_with_kueue(queue_scheduling: QueueScheduling) -> None:
    hold(queue_scheduling, queued_case, CASES * 2 // 5)


def hold(scheduling: Scheduling, draw: Callable[[int], Case], count: int) -> None:
    """Holds the answers about so many cases against what becomes of their jobs."""
    agreement = Agreement()
    for first in range(SEED, SEED + count, AT_ONCE):
        cases = [draw(seed) for seed in range(first, min(first + AT_ONCE, SEED + count))]
        truths = scheduling.judge(cases)
        never = []
        for one, truth in zip(cases, truths, strict=True):
            answered = answer(one, truth)
            agreement.add(one, answered, truth)
            if answered.verdict == "never" and not one.queues:
                never.append(one.empty())
        for one, truth in zip(never, scheduling.judge(never) if never else (), strict=True):
            if truth.fits:
                agreement.wrong.append(f"{one.namespace}: never fits, but {truth.describe()}")
    report = "\n".join(agreement.lines())
    print(report)
    assert not agreement.unsound, report
    # Between nodes of the same score the scheduler draws lots.
    assert len(agreement.wrong) <= max(2, agreement.known // 100), report
    assert len(agreement.unknown) <= max(6, count // 15), report
    assert 0.25 * count < agreement.fitting < 0.7 * count, report
