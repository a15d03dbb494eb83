"""A restartPolicy and a backoffLimit of which one says retry and the other never."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.k8s.path import value_at
from etcompile.lint.subject import LintedJob

CODE = codes.RETRIES_CONTRADICT
_API_DEFAULT = 6
"""The backoffLimit that the API server gives a TrainingJob (reference/et-operator.md 0)."""


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for a backoffLimit that the restart policies make meaningless, or the reverse."""
    spec: Mapping[str, Any] = job.job.origin.source.data.get("spec") or {}
    path = ("spec", "runPolicy", "backoffLimit")
    limit = (spec.get("runPolicy") or {}).get("backoffLimit")
    if _limits_restarts(job):
        path, limit = ("spec", "backoffLimit"), spec.get("backoffLimit")  # type: ignore[assignment]
    if limit is None:
        return
    place = job.job.origin.locate(*path)
    written = _written(job, spec)
    if limit == 0 and written:
        who, policy = written[0]
        problem = f"restartPolicy {policy} of {who} asks for another try, and it allows none"
        yield diagnose(CODE, place, limit=limit, problem=problem)
    elif limit > 0 and _never(job) and not (_limits_restarts(job) and limit == _API_DEFAULT):
        problem = "restartPolicy Never lets nothing be tried again, so that nothing is counted"
        yield diagnose(CODE, place, limit=limit, problem=problem)


def _limits_restarts(job: LintedJob) -> bool:
    """Whether restarts of the whole job are counted, as et-operator does, not failed replicas."""
    return job.job.run.limits == "restarts"


def _written(job: LintedJob, spec: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The restart policies that the author wrote and that the limit counts, if they retry."""
    if _limits_restarts(job):
        found = [("the job", spec.get("restartPolicy"))]
    else:
        # The limit of an MPIJob v2beta1 is that of its launcher (reference/mpi-operator-v2.md 2).
        counted = [pods.role for pods in job.pods if pods.role.batch] or [p.role for p in job.pods]
        found = [(role.name, _value(job, role.origin.path)) for role in counted]
    return [(who, policy) for who, policy in found if policy in ("OnFailure", "Always", "ExitCode")]


def _value(job: LintedJob, path: tuple[str | int, ...]) -> Any:
    return value_at(job.job.origin.source.data, (*path, "restartPolicy"))


def _never(job: LintedJob) -> bool:
    """Whether nothing in the job is tried again after a failure."""
    run = job.job.run
    if run.together or run.in_place or any(pods.role.batch for pods in job.pods):
        return False
    if _limits_restarts(job):
        return run.restart == "Never"
    return all(pods.role.recovery.restart == "Never" for pods in job.pods)
