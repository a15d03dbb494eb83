"""A wish for more or fewer workers to a file in the source tree: `etcompile scale`.

    files -found-> a job and its intents -wish-> one intent more -fold-> accepted -> a new file

Files that are there are read, and only the job's own is ever written (`in_place`). Nothing is
decided here about workers: the intent goes through the same stages that render puts it through,
before it is written.
"""

from etcompile.scaling.in_place import in_place
from etcompile.scaling.proposal import Proposal, proposal, written
from etcompile.scaling.selection import Chosen, chosen

__all__ = ["Chosen", "Proposal", "chosen", "in_place", "proposal", "written"]
