"""A plan, done: writes in order and at once where they may be, waits with reasons, an inventory.

    rollout = Rollout(cluster, plan, ...)
    outcome = rollout.run()

What may be read alone: `reasons` says what an object waits for, `writing` does one step,
`preflight` asks the API server about all of them before anything is written, `inventory` keeps
the ApplySet, `keys` makes key pairs, `watching` follows objects, and `running` strings these
together.
"""

from etcompile.rollout.outcome import Happening, Outcome, Refusal, Unready
from etcompile.rollout.running import Choices, Rollout

__all__ = ["Choices", "Happening", "Outcome", "Refusal", "Rollout", "Unready"]
