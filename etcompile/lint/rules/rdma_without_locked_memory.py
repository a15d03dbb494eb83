"""An RDMA device in a container that may not lock the memory which the device reads."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.subject import LintedJob

CODE = codes.RDMA_WITHOUT_LOCKED_MEMORY
_CAPABILITIES = frozenset({"IPC_LOCK", "CAP_IPC_LOCK", "ALL"})


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each container with an RDMA device and without the capability IPC_LOCK."""
    for pods in job.pods:
        for container in pods.containers:
            given = container.get("resources", {})
            asked = [*given.get("limits", {}), *given.get("requests", {})]
            device = next((name for name in asked if name.startswith("rdma/")), None)
            if device and not _may_lock(container):
                place = pods.place_in(container, "resources", key=True)
                yield diagnose(CODE, place, container=container["name"], device=device)


def _may_lock(container: Mapping[str, Any]) -> bool:
    context = container.get("securityContext") or {}
    added = (context.get("capabilities") or {}).get("add") or ()
    return bool(context.get("privileged")) or not _CAPABILITIES.isdisjoint(added)
