"""What becomes of a job in the cluster: its objects to its status.

`asking` reads the objects and `following` keeps them up to date; `deriving` turns them into a
status and is pure, as are the words for it (`text`, `lines`).
"""

from etcompile.status.asking import NoSuchJobError, Seen, seen
from etcompile.status.deriving import statuses
from etcompile.status.following import follow
from etcompile.status.values import ENDED, JobStatus

__all__ = ["ENDED", "JobStatus", "NoSuchJobError", "Seen", "follow", "seen", "statuses"]
