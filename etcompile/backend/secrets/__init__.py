"""Where a job's ssh key pair comes from, a module per way that needs objects.

No way puts key material into the output: render is not a secret store (reference/gitops.md
5). A new way is a module here and a row in `_MODES`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import structs

from etcompile.backend.secrets import external
from etcompile.model import Job, SecretMode, SshCredentials

_Objects = Callable[[Job, SshCredentials], list[dict[str, Any]]]


def _nothing(_job: Job, _ssh: SshCredentials) -> list[dict[str, Any]]:
    """Runtime: created in the cluster by apply or the watcher. Existing: already there."""
    return []


_MODES: dict[str, _Objects] = {
    "runtime": _nothing,
    "existing": _nothing,
    "external": external.objects,
}


def resolve(job: Job, mode: SecretMode) -> tuple[Job, list[dict[str, Any]]]:
    """The job with its credentials as the mode has them, and the objects that provide them.

    Credentials that the job's author named are left alone: the author knows better than a
    setting for all jobs.
    """
    ssh = job.credentials
    if ssh is None or not ssh.owned:
        return job, []
    if mode.name:
        ssh = structs.replace(ssh, secret=mode.name, owned=False)
        job = structs.replace(job, credentials=ssh)
    return job, _MODES[mode.kind](job, ssh)
