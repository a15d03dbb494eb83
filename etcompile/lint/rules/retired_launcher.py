"""The launcher of PyTorch that torchrun has replaced."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.commands import place_of
from etcompile.lint.subject import LintedJob

CODE = codes.RETIRED_LAUNCHER
_MODULE = "torch.distributed.launch"


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role that starts its processes by `torch.distributed.launch`."""
    for pods in job.pods:
        for started in pods.commands:
            if _MODULE in started.words:
                yield diagnose(CODE, place_of(started.by, _MODULE), role=pods.role.name)
                break
