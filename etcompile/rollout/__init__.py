"""A plan, done: writes in order and at once where they may be, waits with reasons, an inventory.

    rollout = Rollout(cluster, proposal, proposal.plan, ...)
    outcome = rollout.run()

Each part can be read alone. `machine` decides what happens next, and what an object waits for; it
is pure. `executor` carries its decisions out: it has `writer` do the steps and `watches` follow
objects. `preflight` tries all of them before anything is written, `dryrun` asks the API server
where only it knows whether two objects differ, and `refusals` says what its answers mean.
`inventory` and `lease` write the inventory of a job, and `live` reads the objects that are there.
"""

from etcompile.rollout.executor import Rollout
from etcompile.rollout.machine.messages import Choices, Outcome, Proposal, StepEvent, Unready
from etcompile.rollout.refusals import Refusal

__all__ = ["Choices", "Outcome", "Proposal", "Refusal", "Rollout", "StepEvent", "Unready"]
