"""What the commands do to a cluster, for programs: propose, look at it, carry it out.

    compilation = etcompile.compile(["jobs/"])
    with operations.connect(context="prod") as cluster:
        proposal = operations.apply_proposal(compilation, cluster)
        for step in proposal.plan.steps:
            print(step.action, step.ref)
        result = operations.execute(cluster, proposal, tell=print)

The command line adds options, questions, signals and exit codes. `cluster_plan` makes the plan
against a cluster for `apply` and `diff`, `declarations` the one against a folder or a Git revision,
and `saved` reads a plan from a file.
"""

import importlib

# Not from `typing`, and nothing at once: `etcompile diff --against DIR` needs no client.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from etcompile.kubeapi import ClusterError, connect
    from etcompile.operations.cluster_plan import apply_proposal, delete_proposal
    from etcompile.operations.declarations import compared
    from etcompile.operations.execution import execute, refused
    from etcompile.operations.job_sets import job_set
    from etcompile.operations.proposal import ImpossibleError, Result
    from etcompile.operations.running_jobs import (
        CheckpointRequest,
        request_checkpoint,
        restart_proposal,
    )
    from etcompile.operations.saved import saved_plan, saved_proposal
    from etcompile.plan.scope import Rights
    from etcompile.rollout import Choices, Outcome, Proposal, StepEvent

__all__ = [
    "CheckpointRequest",
    "Choices",
    "ClusterError",
    "ImpossibleError",
    "Outcome",
    "Proposal",
    "Result",
    "Rights",
    "StepEvent",
    "apply_proposal",
    "compared",
    "connect",
    "delete_proposal",
    "execute",
    "job_set",
    "refused",
    "request_checkpoint",
    "restart_proposal",
    "saved_plan",
    "saved_proposal",
]

_HOMES = {
    **dict.fromkeys(("ClusterError", "connect"), "kubeapi"),
    **dict.fromkeys(("CheckpointRequest", "request_checkpoint"), "operations.running_jobs"),
    "compared": "operations.declarations",
    **dict.fromkeys(("execute", "refused"), "operations.execution"),
    "job_set": "operations.job_sets",
    **dict.fromkeys(("apply_proposal", "delete_proposal"), "operations.cluster_plan"),
    **dict.fromkeys(("ImpossibleError", "Result"), "operations.proposal"),
    "restart_proposal": "operations.running_jobs",
    **dict.fromkeys(("saved_plan", "saved_proposal"), "operations.saved"),
    "Rights": "plan.scope",
    **dict.fromkeys(("Choices", "Outcome", "Proposal", "StepEvent"), "rollout"),
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> "Any":
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"etcompile.{_HOMES[name]}"), name)
