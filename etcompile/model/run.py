"""A job as one run of it, whose Pods have names of their own.

Nearly nothing in a Pod may change, so a changed job needs new Pods, and new Pods need new names
if no tool is to delete the old ones by force (reference/gitops.md 1.3). Hosts keep their names:
they are Services, and those follow the run by its label.
"""

from msgspec import structs

from etcompile.model.job import Job, Role
from etcompile.model.protocol import RUN_LABEL

LONGEST_RUN = 16
"""Characters of a run's ID: it is in the name of each Pod."""


def in_run(job: Job, run: str | None) -> Job:
    """The job as this run of it.

    Args:
        job: The job.
        run: The run's ID; None for the run whose Pods are named as their hosts are.

    Returns:
        The job with Pods `JOB-ID-worker-0`, which carry the run's label and are selected by it,
        and with an identity of its own, so that the end of another run does not end this one.
    """
    if run is None:
        return job
    return structs.replace(
        job,
        run_id=run,
        roles=tuple(structs.replace(r, pod_stem=_pod_stem(job, r, run)) for r in job.roles),
        selector={**job.selector, RUN_LABEL: run},
        identity={**job.identity, "run": run},
    )


def _pod_stem(job: Job, role: Role, run: str) -> str:
    return f"{job.name}-{run}-{role.stem.removeprefix(f'{job.name}-')}"
