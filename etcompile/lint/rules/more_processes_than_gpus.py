"""More processes in a Pod than it has GPUs."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.facts import processes
from etcompile.lint.subject import LintedJob
from etcompile.model.gpus import gpus

CODE = codes.MORE_PROCESSES_THAN_GPUS


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role that starts more processes in a Pod than the Pod has GPUs."""
    for pods in job.pods:
        count, running = gpus(pods.main, slices=True), processes(job, pods)
        # Several processes of Horovod or MPI may share a GPU, where they do without NCCL.
        if running and running.torch and 0 < count < running.count:
            option = running.option
            place = option.place if option else pods.place_in(pods.main, "resources", key=True)
            there = "1 GPU" if count == 1 else f"{count} GPUs"
            yield diagnose(CODE, place, role=pods.role.name, said=running.said, gpus=there)
