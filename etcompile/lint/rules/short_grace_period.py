"""Too little time between the signal to end and the end, for a checkpoint."""

import re
from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.SHORT_GRACE_PERIOD
_DEFAULT = 30
"""Seconds, where a Pod says nothing (PodSpec, v1)."""
_SLEEP = re.compile(r"\bsleep\s+(\d{1,6})\b")


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role whose commands are killed before they can have ended."""
    for pods in job.pods:
        given = pods.spec.get("terminationGracePeriodSeconds")
        grace = _DEFAULT if given is None else int(given)
        if problem := _signal_problem(job, pods, grace) or _hook_problem(pods, grace):
            place = pods.place("terminationGracePeriodSeconds")
            if given is None:
                place = pods.place_in(pods.main, "name")
            yield diagnose(CODE, place, role=pods.role.name, grace=grace, problem=problem)


def _signal_problem(job: LintedJob, pods: RolePods, grace: int) -> str | None:
    """What is wrong where the supervisor sends a signal for a checkpoint before TERM."""
    in_place = job.job.run.in_place
    if in_place is None or not in_place.checkpoint_signal or pods.role.name not in in_place.roles:
        return None
    half = grace // 2
    if half >= in_place.stop:
        return None
    return (
        f"half of it is left for the checkpoint, {half} s, and etcompile.dev/stop-timeout says"
        f" that the command needs {in_place.stop} s to end"
    )


def _hook_problem(pods: RolePods, grace: int) -> str | None:
    """What is wrong where the preStop hook takes all the time that there is."""
    hook = ((pods.main.get("lifecycle") or {}).get("preStop") or {}).get("exec") or {}
    found = [int(seconds) for seconds in _SLEEP.findall(" ".join(hook.get("command", ())))]
    if not found or sum(found) < grace:
        return None
    return f"its preStop hook sleeps {sum(found)} s, so nothing is left for the command to end"
