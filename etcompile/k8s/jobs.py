"""Read the status of a Kubernetes Job: whether it is over, and how it ended.

Only a condition decides. After its last Pod has failed, the controller may still try again.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.k8s.objects import Object, condition, is_true, status_of


def has_succeeded(job: Object) -> bool:
    return is_true(status_of(job), "Complete")


def failure(job: Object) -> Mapping[str, Any] | None:
    """Return the condition Failed, with reason and message; None if the Job has not failed."""
    status = status_of(job)
    return condition(status, "Failed") if is_true(status, "Failed") else None


def is_over(job: Object) -> bool:
    return has_succeeded(job) or failure(job) is not None


def is_suspended(job: Object) -> bool:
    return bool((job.get("spec") or {}).get("suspend"))
