"""An ssh key pair that `apply` or the watcher makes in the cluster: everything of it but the keys.

What is here may be shown and stored. The annotation says which keys the Secret is to get, because
the kinds differ in that; only who creates the Secret ever holds them (reference/gitops.md 5).
"""

import json
from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SshCredentials
from etcompile.model.protocol import KEY_PAIR


def secret(job: Job, ssh: SshCredentials) -> dict[str, Any]:
    """The Secret without its data. It is immutable: a new key would cut a running job in two."""
    text = json.dumps(key_pair(ssh), sort_keys=True, separators=(",", ":"))
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, ssh.secret, job_labels(job), annotations={KEY_PAIR: text}),
        "type": ssh.secret_type,
        "immutable": True,
    }


def key_pair(ssh: SshCredentials) -> dict[str, str]:
    """Which keys of the Secret hold what (`etcompile.keypair`)."""
    config = {"config": ssh.config} if ssh.config else {}
    return {"privateKey": ssh.private_key, "publicKey": ssh.public_key, **config}
