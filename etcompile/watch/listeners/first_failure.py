"""Name the same first failure in the run record and its Events as `etcompile why` does.

The core names the replica for which it ends an attempt: the first of which it learned. Others may
have failed before; which of them was the first follows from the log of failures.
"""

from etcompile.causes.log import first_causes
from etcompile.watch.core.run import Listener, Replica, Run
from etcompile.watch.listeners.failures import log_of


def _described(run: Run, loss: Replica) -> str | None:
    log = log_of(run)
    causes = first_causes(log.failures) if log is not None else {}
    first = causes.get(run.view.begun.attempt)
    return f"{first.pod}: {first.in_words}" if first and first.pod != loss.name else None


LISTENER = Listener(before=lambda run: run.adding(described=_described))
