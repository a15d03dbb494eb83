"""Carry out a plan: write in order, at once where that is possible, and wait with reasons.

    outcome = Rollout(cluster, proposal, proposal.plan, ...).run()

`machine` decides what happens next, and is pure; `executor` has `writer` and `watches` do it.
`dryrun` asks the API server before anything is written. `inventory` writes the
inventory of a job, and `live` reads the objects that are there.
"""

from etcompile.rollout.executor import Rollout
from etcompile.rollout.machine.messages import Choices, Outcome, Proposal, StepEvent, Unready
from etcompile.rollout.refusals import Refusal

__all__ = ["Choices", "Outcome", "Proposal", "Refusal", "Rollout", "StepEvent", "Unready"]
