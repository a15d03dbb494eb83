"""Scale intents folded over a job: which workers are left when all of them are done.

Each ScaleOut and ScaleIn is a file in Git, so the order in which they count must follow from
the files (`ordered`), and each must be possible at its turn (`fold`). et-operator's index
rules (reference/et-operator.md 5) hold, minus its defects.
"""

from etcompile.compiler.intents.fold import Folded, fold
from etcompile.compiler.intents.order import ordered
from etcompile.compiler.intents.selection import Selected, by_job

__all__ = ["Folded", "Selected", "by_job", "fold", "ordered"]
