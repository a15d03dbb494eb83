"""Checkpoints in a folder of the node, which another Pod may not find."""

from collections.abc import Iterator

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.checkpoints import checkpoints
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.CHECKPOINT_ON_ONE_NODE


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each place of checkpoints that is a hostPath, unless the node is fixed."""
    for pods in job.pods:
        for found in checkpoints(pods):
            if found.held and "hostPath" in found.held.volume and not _stays(pods):
                path = found.held.volume["hostPath"].get("path", "")
                place = found.place(pods)
                yield diagnose(CODE, place, said=found.said, path=path)
                break


def _stays(pods: RolePods) -> bool:
    """Whether the Pods run on a node that is named."""
    spec = pods.spec
    return "nodeName" in spec or "kubernetes.io/hostname" in spec.get("nodeSelector", {})
