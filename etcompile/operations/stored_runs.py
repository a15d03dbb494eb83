"""The job that runs in a cluster, as its ConfigMap there holds it."""

from etcompile.compiler.stored import StoredJobError
from etcompile.model.protocol import JOB_LABEL, MANAGER
from etcompile.plan.owners import stranger
from etcompile.status import Seen
from etcompile.status.job_status import is_config
from etcompile.watch.stored_run import StoredRun


def stored_run(found: Seen) -> StoredRun:
    """The job that its ConfigMap holds.

    Args:
        found: What there is of the job.

    Raises:
        StoredJobError: there is none that this version of etcompile can read.
    """
    problem = ""
    configs = [value for value in found.objects.values() if is_config(value)]
    # A copy of it, which somebody made with its labels, is another one's or nobody's.
    configs.sort(key=lambda value: stranger(value, MANAGER) is not None)
    for value in configs:
        try:
            run = StoredRun(value)
        except StoredJobError as error:
            problem = str(error)
            continue
        if run.job.config_name == value["metadata"]["name"]:
            return run
        problem = problem or f"its ConfigMap is called {value['metadata']['name']}"
        problem += f", and not {run.job.config_name}, for {value['metadata']['labels'][JOB_LABEL]}"
    raise StoredJobError(problem)
