"""Propose and carry out changes of a cluster, for programs as the commands do.

compilation = etcompile.compile(["jobs/"])
with operations.connect(context="prod") as cluster:
    proposal = operations.apply_proposal(compilation, cluster)
    result = operations.execute(cluster, proposal, tell=print)
"""

import importlib

# Not from `typing`, and nothing at once: `etcompile diff --against DIR` needs no client.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from etcompile.kubeapi import ClusterError, connect
    from etcompile.operations.cluster_plan import (
        ImpossibleError,
        apply_proposal,
        delete_proposal,
    )
    from etcompile.operations.declarations import compared, job_set
    from etcompile.operations.execution import Result, execute, refused
    from etcompile.operations.running_jobs import (
        CheckpointRequest,
        request_checkpoint,
        restart_proposal,
    )
    from etcompile.operations.saved import saved_plan, saved_proposal
    from etcompile.plan.scope import Rights
    from etcompile.rollout.machine.messages import Choices, Outcome, Proposal, StepEvent

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
    "kubeapi": ("ClusterError", "connect"),
    "operations.cluster_plan": ("ImpossibleError", "apply_proposal", "delete_proposal"),
    "operations.declarations": ("compared", "job_set"),
    "operations.execution": ("Result", "execute", "refused"),
    "operations.running_jobs": ("CheckpointRequest", "request_checkpoint", "restart_proposal"),
    "operations.saved": ("saved_plan", "saved_proposal"),
    "plan.scope": ("Rights",),
    "rollout.machine.messages": ("Choices", "Outcome", "Proposal", "StepEvent"),
}

if not TYPE_CHECKING:  # a type checker would take any name for one of ours

    def __getattr__(name: str) -> "Any":
        for home, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(f"etcompile.{home}"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
