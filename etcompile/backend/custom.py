"""Objects of kinds of somebody else's: what a program of the job wants to read from the cluster.

Their kinds must be known to the cluster already. A definition of a kind is for whoever looks
after the cluster, and so is never among a job's objects.
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job


def objects(job: Job) -> list[dict[str, Any]]:
    """The custom resources of a job."""
    return [
        {
            "apiVersion": custom.api_version,
            "kind": custom.kind,
            "metadata": metadata(job, custom.name, {**job_labels(job), **custom.labels}),
            "spec": dict(custom.spec),
        }
        for custom in job.custom
    ]
