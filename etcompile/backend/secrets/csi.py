"""An ssh key pair that the Secrets Store CSI driver mounts straight from a vault.

No Secret is there at all. What the provider is called and what it must be told is up to whoever
runs the vault: a SecretProviderClass of theirs, or a pattern of one from which each job gets its
own (reference/gitops.md 5).
"""

from typing import Any

from msgspec import structs

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SecretMode, SshCredentials


def credentials(job: Job, ssh: SshCredentials, mode: SecretMode) -> SshCredentials:  # noqa: ARG001
    """The credentials as the driver mounts them.

    It neither renames files nor sets their mode, and ssh wants both: so they are copied.
    """
    named = mode.name if mode.name and not mode.file else ssh.secret
    return structs.replace(ssh, provider_class=named, copied=True)


def objects(job: Job, ssh: SshCredentials, mode: SecretMode) -> list[dict[str, Any]]:
    """The job's own SecretProviderClass, without its spec; none if somebody else has one."""
    if not mode.file or ssh.provider_class is None:
        return []
    return [
        {
            "apiVersion": "secrets-store.csi.x-k8s.io/v1",
            "kind": "SecretProviderClass",
            "metadata": metadata(job, ssh.provider_class, job_labels(job)),
            "spec": {},
        }
    ]
