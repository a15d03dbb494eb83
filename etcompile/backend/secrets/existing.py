"""An ssh key pair in a Secret that somebody looks after: the Pods mount it, and that is all."""

from msgspec import structs

from etcompile.model import Job, SecretMode, SshCredentials


def credentials(job: Job, ssh: SshCredentials, mode: SecretMode) -> SshCredentials:  # noqa: ARG001
    """The credentials in the Secret of that name."""
    return structs.replace(ssh, secret=mode.name, owned=False) if mode.name else ssh
