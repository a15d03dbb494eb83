"""Ranks on nodes that may be taken away, of which nobody tells the others."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.placement import required_labels
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.SPOT_WITHOUT_CHECKPOINT_SIGNAL
_SPOT = {
    "cloud.google.com/gke-spot": "true",
    "cloud.google.com/gke-preemptible": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "SPOT",
    "node.kubernetes.io/lifecycle": "spot",
}
"""Labels, which are taints too, of nodes that a cloud may take away at any time."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each role of a job of fixed size on spot nodes, without a signal."""
    in_place = job.job.run.in_place
    # An elastic job, and one whose replicas are followed by others, go on with those that are left.
    elastic = any(pods.role.bounds or pods.role.recovery.relaunch for pods in job.pods)
    if job.count < 2 or elastic or (in_place and in_place.checkpoint_signal):
        return
    for pods in job.pods:
        if (found := _spot(pods)) is not None:
            label, *where = found
            yield diagnose(CODE, pods.place(*where), role=pods.role.name, label=label)


def _spot(pods: RolePods) -> tuple[str | int, ...] | None:
    """By which key the Pods go to spot nodes, and the path below the PodSpec that says so."""
    for name, values in required_labels(pods):
        if name in _SPOT and _SPOT[name] in values:
            in_selector = name in pods.spec.get("nodeSelector", {})
            where = ("nodeSelector", name) if in_selector else ("affinity",)
            return (name, *where)
    for index, toleration in enumerate(pods.spec.get("tolerations", ())):
        name = toleration.get("key")
        if name in _SPOT and toleration.get("value", _SPOT[name]) == _SPOT[name]:
            return (name, "tolerations", index)
    return None
