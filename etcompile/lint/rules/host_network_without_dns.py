"""Pods in the network of their nodes, which do not ask the cluster's DNS for their peers."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.subject import LintedJob

CODE = codes.HOST_NETWORK_WITHOUT_DNS


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role whose Pods cannot resolve the names of the job's Services."""
    if job.count < 2:
        return
    for pods in job.pods:
        policy = pods.spec.get("dnsPolicy", "ClusterFirst")
        if pods.spec.get("hostNetwork") and policy in ("ClusterFirst", "Default"):
            place = pods.place("hostNetwork", key=True)
            yield diagnose(CODE, place, role=pods.role.name, policy=policy)
