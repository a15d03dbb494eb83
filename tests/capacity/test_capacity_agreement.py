"""Whether a job fits: a snapshot's answer and what the real kube-scheduler does.

Jobs of random cases are declared beside what runs already. An answer may be that it depends on the
scheduler's choices; it must never be that a job fits, and its Pods wait.
ETCOMPILE_CAPACITY_CASES=500 tries so many instead of 50, from ETCOMPILE_CAPACITY_SEED on.
"""

import os

from agreement import Agreement, answer
from random_cases import cases
from real_scheduler import Scheduling

CASES = int(os.environ.get("ETCOMPILE_CAPACITY_CASES", "50"))
SEED = int(os.environ.get("ETCOMPILE_CAPACITY_SEED", "0"))
AT_ONCE = 25


def test_answers_agree_with_the_scheduler(scheduling: Scheduling) -> None:
    agreement = Agreement()
    for first in range(SEED, SEED + CASES, AT_ONCE):
        drawn = [*cases(first, min(AT_ONCE, SEED + CASES - first))]
        truths = scheduling.judge(drawn)
        answered = [answer(case, truth) for case, truth in zip(drawn, truths, strict=True)]
        for case, one, truth in zip(drawn, answered, truths, strict=True):
            agreement.add(case, one, truth)
        # What can never fit does not fit an empty cluster.
        never = [case.empty() for case, one in zip(drawn, answered, strict=True)
                 if one.verdict == "never"]
        for case, truth in zip(never, scheduling.judge(never), strict=True):
            if truth.fits:
                agreement.wrong.append(f"{case.namespace}: can never fit, but fits")
    report = "\n".join(agreement.lines())
    print(report)
    assert not agreement.unsound, report
    assert agreement.share >= 0.99, report
    assert len(agreement.unknown) <= 0.05 * CASES, report
    fitting = sum(n for name, n in agreement.counts.items() if name.endswith(", fits"))
    assert CASES * 0.3 < fitting < CASES * 0.7, report
