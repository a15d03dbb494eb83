"""An ssh key pair that `apply` or the watcher makes in the cluster: everything of it but the keys.

What is here may be shown and stored. The annotation says which keys the Secret is to get, because
the kinds differ in that; only who creates the Secret ever holds them (reference/gitops.md 5).
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SshCredentials
from etcompile.model.keypair import key_pair
from etcompile.model.protocol import KEY_PAIR


def secret(job: Job, ssh: SshCredentials) -> dict[str, Any]:
    """The Secret without its data. It is immutable: a new key would cut a running job in two."""
    annotations = {KEY_PAIR: key_pair(ssh).annotation}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, ssh.secret, job_labels(job), annotations=annotations),
        "type": ssh.secret_type,
        "immutable": True,
    }
