"""Replicas in the network of their nodes, of which two may land on one node."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.placement import is_kept_apart
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.HOST_PORTS_CLASH


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role whose Pods listen on the same port of a node, not kept apart."""
    for pods in job.pods:
        if pods.count > 1 and pods.spec.get("hostNetwork") and not is_kept_apart(pods):
            port = _port(job, pods)
            if port is not None:
                place = pods.place("hostNetwork", key=True)
                yield diagnose(CODE, place, role=pods.role.name, count=pods.count, port=port)


def _port(job: LintedJob, pods: RolePods) -> int | None:
    """The port on which each replica listens; None if none does, or nobody knows."""
    resident = pods.role.additions.resident
    if resident and resident.ssh and job.job.credentials:
        return job.job.credentials.port or 22
    return pods.role.ports[0].number if pods.role.ports else None
