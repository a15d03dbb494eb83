"""Checkpoints in the file system of the container, which is deleted when it ends."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.checkpoints import checkpoints
from etcompile.lint.subject import LintedJob

CODE = codes.CHECKPOINT_IN_CONTAINER


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each place of checkpoints that no volume holds."""
    for pods in job.pods:
        for found in checkpoints(pods):
            if found.held is None:
                place = found.place(pods)
                yield diagnose(CODE, place, said=found.said, role=pods.role.name)
                break
