"""Give advice about training jobs that would run but not train as intended.

A job that fills /dev/shm or loses its checkpoints with its node breaks no rule of Kubernetes, so no
check refuses it. Only `check` and editors ask for advice; the rendered output does not depend on
it.
"""

from etcompile.diagnostics import Diagnostic
from etcompile.lint.linted_job import LintedJob, linted_job
from etcompile.lint.training_rules import TRAINING_RULES

__all__ = ["LintedJob", "linted_job", "problems"]


def problems(job: LintedJob) -> list[Diagnostic]:
    """Return the advice about a job, in the order of the codes.

    Templates that share their lines, by a YAML anchor, are reported once.
    """
    by_place: dict[object, Diagnostic] = {}
    for rule in TRAINING_RULES:
        for diagnostic in rule(job):
            code, place = diagnostic.code, diagnostic.location
            lined = place is not None and place.line is not None
            key = (place.file, place.line, place.column) if lined and place else len(by_place)
            by_place.setdefault((code, key), diagnostic)
    return sorted(by_place.values(), key=lambda diagnostic: diagnostic.code)
