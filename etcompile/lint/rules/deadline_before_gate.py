"""A deadline of the run that strikes before the wait for its Pods can end."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.subject import LintedJob

CODE = codes.DEADLINE_BEFORE_GATE
_GATE = "etcompile.dev/gate-timeout"


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each time to wait, as the author wrote it, that is no less than the deadline.

    The default of the gate is longer than many short runs, and no mistake.
    """
    batches = [role.batch.deadline for role in job.job.roles if role.batch]
    deadlines = [seconds for seconds in (job.job.run.deadline, *batches) if seconds is not None]
    if not deadlines:
        return
    deadline = min(deadlines)
    gates = [pods.role.additions.gate for pods in job.pods]
    origin = job.job.origin
    annotated = _GATE in (origin.source.data["metadata"].get("annotations") or {})
    longest = max((gate.timeout for gate in gates if gate), default=0)
    if annotated and longest >= deadline:
        place = origin.locate("metadata", "annotations", _GATE)
        yield diagnose(CODE, place, what=_GATE, seconds=longest, deadline=deadline)
    asked = job.job.gang
    if job.settings.gang != "none" and asked.timeout is not None and asked.timeout >= deadline:
        known = asked.origins.get("timeout")
        place = known.locate() if known else origin.locate("metadata", "name")
        what = "the gang's timeout"
        yield diagnose(CODE, place, what=what, seconds=asked.timeout, deadline=deadline)
