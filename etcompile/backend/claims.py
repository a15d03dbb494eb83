"""PersistentVolumeClaims of a job: what they hold is not the job's to delete.

Nothing of etcompile deletes one that nobody names (`etcompile.plan.owners`); Argo CD and Flux
are told to leave them (`gitops`).
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job


def objects(job: Job) -> list[dict[str, Any]]:
    """The claims of a job."""
    made = []
    for claim in job.claims:
        labels = {**job_labels(job), **claim.labels, **job.selector}
        more = {"annotations": dict(claim.annotations)} if claim.annotations else {}
        made.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": metadata(job, claim.name, labels, **more),
                "spec": dict(claim.spec),
            }
        )
    return made
