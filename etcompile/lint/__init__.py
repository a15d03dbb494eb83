"""Advice about training jobs that would be accepted and run, and would not train as meant.

A job that fills /dev/shm or loses its checkpoints with its node breaks no rule of Kubernetes, so
no check refuses it. Each rule is a module of `etcompile.lint.rules`: a pure function from a job, as
it is compiled, to warnings. Only `check` asks, and editors: what a job is rendered to does not
depend on advice.
"""

from collections.abc import Collection

from etcompile.diagnostics import Diagnostic
from etcompile.lint.rules import rules
from etcompile.lint.subject import LintedJob, RolePods, linted_job

__all__ = ["LintedJob", "RolePods", "linted_job", "problems"]


def problems(job: LintedJob, selected: Collection[str] = ()) -> list[Diagnostic]:
    """The advice about a job.

    Args:
        job: The job, and its Pods as they are applied.
        selected: The codes of rules that are to be asked although they are opt-in.

    Returns:
        A warning for each place that a rule speaks of. Templates that share their lines, by an
        anchor of YAML, are told of once.
    """
    found: dict[object, Diagnostic] = {}
    for rule in rules():
        if rule.opt_in and rule.code not in selected:
            continue
        for diagnostic in rule.findings(job):
            place = diagnostic.location
            lined = place is not None and place.line is not None
            key = (place.file, place.line, place.column) if lined and place else len(found)
            found.setdefault((rule.code, key), diagnostic)
    return [*found.values()]
