"""Where a job's ssh key pair comes from, a module per way that needs objects.

No way puts a private key in the clear into the output: render is not a secret store
(reference/gitops.md 5). What only the outside has, a ciphertext or the parameters of a provider,
is left out here and filled in by `etcompile.stages.encryption`. A new way is a module here and a
row in `_MODES`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from etcompile.backend.secrets import csi, encrypted, existing, external, runtime
from etcompile.model import Job, SecretMode, SshCredentials
from etcompile.model.settings import SecretKind

__all__ = ["generated", "namespace_reason", "resolve"]


class _Mode(Struct, frozen=True):
    """What a mode does.

    Args:
        credentials: The credentials as the job's Pods have them then.
        objects: What provides these, of the output.
    """

    credentials: Callable[[Job, SshCredentials, SecretMode], SshCredentials]
    objects: Callable[[Job, SshCredentials, SecretMode], list[dict[str, Any]]]


def _same(_job: Job, ssh: SshCredentials, _mode: SecretMode) -> SshCredentials:
    return ssh


def _nothing(_job: Job, _ssh: SshCredentials, _mode: SecretMode) -> list[dict[str, Any]]:
    """Runtime: created in the cluster by apply or the watcher. Existing: already there."""
    return []


_MODES: dict[SecretKind, _Mode] = {
    "runtime": _Mode(_same, _nothing),
    "existing": _Mode(existing.credentials, _nothing),
    "external": _Mode(_same, external.objects),
    "sealed": _Mode(encrypted.credentials, encrypted.sealed),
    "sops": _Mode(encrypted.credentials, encrypted.sops),
    "csi": _Mode(csi.credentials, csi.objects),
}


def resolve(job: Job, mode: SecretMode) -> tuple[Job, list[dict[str, Any]]]:
    """The job with its credentials as the mode has them, and the objects that provide them.

    Credentials that the job's author named are left alone: the author knows better than a
    setting for all jobs.
    """
    ssh = job.credentials
    if ssh is None or not ssh.owned:
        return job, []
    row = _MODES[mode.kind]
    ssh = row.credentials(job, ssh, mode)
    return structs.replace(job, credentials=ssh), row.objects(job, ssh, mode)


def generated(job: Job, mode: SecretMode) -> list[dict[str, Any]]:
    """What is made in the cluster, outside of the output, without its keys."""
    ssh = job.credentials
    if ssh is None or not ssh.owned or mode.kind != "runtime":
        return []
    return [runtime.secret(job, ssh)]


def namespace_reason(job: Job, mode: SecretMode) -> str | None:
    """Why the mode must know the job's namespace; None if it need not."""
    ssh = job.credentials
    if ssh is not None and ssh.owned and mode.kind == "sealed" and mode.scope != "cluster-wide":
        return "its key pair is sealed for one"
    return None
