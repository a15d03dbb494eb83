"""Derive the status of a job from its objects in the cluster.

`reader` reads the objects and keeps them up to date; `job_status` turns them into a status and is
pure, as are the modules that put it into words.
"""

from etcompile.model.run_record import ENDED
from etcompile.status.job_status import statuses
from etcompile.status.reader import AnotherJobError, NoSuchJobError, Seen, find_job, follow, seen
from etcompile.status.values import JobStatus

__all__ = [
    "ENDED",
    "AnotherJobError",
    "JobStatus",
    "NoSuchJobError",
    "Seen",
    "find_job",
    "follow",
    "seen",
    "statuses",
]
