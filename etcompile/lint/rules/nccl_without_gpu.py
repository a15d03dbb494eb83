"""The backend NCCL in Pods without a GPU."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.facts import accelerators
from etcompile.lint.subject import LintedJob

CODE = codes.NCCL_WITHOUT_GPU
_BACKENDS = frozenset({"backend", "dist_backend", "distributed_backend", "ddp_backend"})
"""Options of training scripts that name the backend of torch.distributed."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role that asks for NCCL and for no device."""
    for pods in job.pods:
        if accelerators(pods.main) or pods.main.get("resources", {}).get("claims"):
            continue
        for given in pods.options:
            if given.name in _BACKENDS and given.value == "nccl":
                option = f"{given.written} nccl"
                yield diagnose(CODE, given.place, role=pods.role.name, option=option)
                break
