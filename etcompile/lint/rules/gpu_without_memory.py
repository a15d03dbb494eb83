"""A container with a GPU that does not say how much memory it needs."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.facts import accelerators, requests
from etcompile.lint.subject import LintedJob

CODE = codes.GPU_WITHOUT_MEMORY


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each container with an accelerator and without a request for memory."""
    for pods in job.pods:
        for container in pods.containers:
            found = accelerators(container)
            if found and not requests(pods, container, "memory"):
                device, count = next(iter(found.items()))
                place = pods.place_in(container, "resources", key=True)
                yield diagnose(CODE, place, container=container["name"], device=device, count=count)
