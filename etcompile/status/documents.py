"""The status of jobs as JSON values for scripts."""

from typing import Any

from msgspec import Struct, structs

from etcompile.goodput import Goodput
from etcompile.status.values import JobStatus


def job_value(job: JobStatus) -> dict[str, Any]:
    """A job as a JSON value."""
    return {
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.kind or None,
        "phase": job.phase,
        "phaseFrom": "watcher" if job.reported else "pods",
        "because": job.because,
        "orphanOf": job.orphan_of or None,
        "run": job.run,
        "created": job.created,
        "restarts": job.restarts,
        "epoch": _value(job.epoch) if job.epoch else None,
        "goodput": goodput_value(job.goodput),
        "hosts": _value(job.hosts) if job.hosts else None,
        "roles": [_value(role) for role in job.roles],
        "replicas": [_value(replica) for replica in job.replicas],
        "surplus": list(job.surplus),
        "events": [_value(event) for event in job.events],
    }


def goodput_value(goodput: Goodput | None) -> dict[str, Any] | None:
    """How much of its time a run has been in training; None if that is not known."""
    if goodput is None:
        return None
    return {
        "trainingSeconds": round(goodput.training, 1),
        "elapsedSeconds": round(goodput.elapsed, 1),
        "ratio": round(goodput.ratio, 4),
    }


def _value(struct: Struct) -> dict[str, Any]:
    # Every field is one word: it is spelt the same in Python and in JSON.
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in structs.asdict(struct).items()
    }
