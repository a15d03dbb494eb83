"""What the status of a Job of Kubernetes means: whether it has decided, and how.

A Job has succeeded or failed when its controller says so in a condition, not when its last Pod
has: it may try again.
"""

from collections.abc import Mapping
from typing import Any

from etcompile.k8s.objects import Object, condition, is_true, status_of


def has_succeeded(job: Object) -> bool:
    """Whether the Job is complete."""
    return is_true(status_of(job), "Complete")


def failure(job: Object) -> Mapping[str, Any] | None:
    """The condition by which the Job has failed, with reason and message; None if it has not."""
    status = status_of(job)
    return condition(status, "Failed") if is_true(status, "Failed") else None


def is_over(job: Object) -> bool:
    """Whether the Job has succeeded or failed: it makes no more Pods."""
    return has_succeeded(job) or failure(job) is not None


def is_suspended(job: Object) -> bool:
    """Whether the Job is told to make no Pods."""
    return bool((job.get("spec") or {}).get("suspend"))
