"""A plan, done: writes in order and at once where they may be, waits with reasons, an inventory.

    rollout = Rollout(cluster, plan, ...)
    outcome = rollout.run()

What may be read alone: `machine` decides what happens next, `reasons` says what an object waits
for, `writer` does one step, `preflight` asks the API server about all of them before anything is
written, `inventory` keeps the ApplySet, `watches` follows objects, and `executor` strings these
together.
"""

from etcompile.rollout.executor import Rollout
from etcompile.rollout.machine import Choices
from etcompile.rollout.outcome import Outcome, Refusal, StepEvent, Unready

__all__ = ["Choices", "Outcome", "Refusal", "Rollout", "StepEvent", "Unready"]
