"""Ranks that whoever tidies up nodes may evict."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.EVICTABLE
_MARKS = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations of Pods that keep an autoscaler from removing their node."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """One warning for the roles that neither a mark nor a PodDisruptionBudget protects."""
    budgets = [source.data.get("spec") or {} for source in job.of_kind("PodDisruptionBudget")]
    names = [
        pods.role.name
        for pods in job.pods
        if not _is_marked(pods) and not any(_selects(budget, pods) for budget in budgets)
    ]
    if names:
        place = job.job.origin.locate("metadata", "name")
        yield diagnose(CODE, place, job=job.job.name, roles=" and ".join(names))


def _is_marked(pods: RolePods) -> bool:
    annotations = pods.metadata.get("annotations", {})
    return any(annotations.get(name) == value for name, value in _MARKS.items())


def _selects(budget: Mapping[str, Any], pods: RolePods) -> bool:
    """Whether a budget may select the Pods: expressions are not held against their labels."""
    if budget.get("selector") is None:
        return False
    wanted = budget["selector"].get("matchLabels") or {}
    labels = pods.metadata.get("labels", {})
    return all(labels.get(name) == value for name, value in wanted.items())
