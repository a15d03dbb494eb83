"""A data loader of PyTorch with worker processes, or NCCL, in the 64 MiB of /dev/shm."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.facts import is_pytorch, mounted_at
from etcompile.lint.subject import LintedJob, RolePods
from etcompile.model.gpus import gpus
from etcompile.model.quantity import whole_number

CODE = codes.NO_SHARED_MEMORY
_PATH = "/dev/shm"  # noqa: S108 - a path in containers
_LOADERS = frozenset(
    {"num_workers", "dataloader_num_workers", "data_loader_workers", "loader_workers", "workers"}
)
"""Options of training scripts that say how many worker processes a data loader has."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role of PyTorch whose processes pass data through /dev/shm."""
    for pods in job.pods:
        if pods.spec.get("hostIPC") or not is_pytorch(pods):
            continue
        held = mounted_at(pods, _PATH)
        if (held is None or held.mount["mountPath"].rstrip("/") != _PATH) and (
            needed := _needed_by(pods)
        ):
            place = pods.place_in(pods.main, "name")
            yield diagnose(CODE, place, role=pods.role.name, needed=needed)


def _needed_by(pods: RolePods) -> str | None:
    for given in pods.options:
        count = whole_number(given.value or "")
        if given.name in _LOADERS and count:
            return f"{given.written} {count}"
    count = gpus(pods.main, slices=True)
    # One process a GPU: NCCL passes data between those of a node by shared memory.
    if count > 1:
        return f"NCCL between {count} GPUs"
    return "the data loaders of a training on a GPU" if count else None
