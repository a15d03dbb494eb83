"""Checkpoints in a volume that is deleted with its Pod."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.checkpoints import checkpoints
from etcompile.lint.subject import LintedJob

CODE = codes.CHECKPOINT_IN_EMPTY_DIR


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each place of checkpoints that is an emptyDir."""
    for pods in job.pods:
        for found in checkpoints(pods):
            if found.held and "emptyDir" in found.held.volume:
                volume = found.held.volume["name"]
                place = found.place(pods)
                yield diagnose(CODE, place, said=found.said, volume=volume)
                break
