"""An ssh key pair that External Secrets Operator makes in the cluster, once.

Nothing of it is ever in Git (reference/gitops.md 5, `generate-in-cluster`). The Secret has
the keys that the Pods expect, so that they are the same in every mode.
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SshCredentials

_GENERATORS = "generators.external-secrets.io/v1alpha1"


def objects(job: Job, ssh: SshCredentials) -> list[dict[str, Any]]:
    """An SSHKey generator, and the ExternalSecret that turns one key of it into the Secret."""
    name = f"{job.name}-ssh"
    labels = job_labels(job)
    generator = {"apiVersion": _GENERATORS, "kind": "SSHKey", "name": name}
    texts = {
        ssh.private_key: "{{ .privateKey }}",
        ssh.public_key: "{{ .publicKey }}",
        **({"config": ssh.config} if ssh.config else {}),
    }
    return [
        {
            "apiVersion": _GENERATORS,
            "kind": "SSHKey",
            "metadata": metadata(job, name, labels),
            "spec": {"keyType": "ed25519", "comment": job.name},
        },
        {
            "apiVersion": "external-secrets.io/v1",
            "kind": "ExternalSecret",
            "metadata": metadata(job, name, labels),
            "spec": {
                # Any other policy makes a new key pair at every refresh.
                "refreshPolicy": "CreatedOnce",
                "target": {
                    "name": ssh.secret,
                    "creationPolicy": "Owner",
                    "immutable": True,
                    "template": {"type": ssh.secret_type, "data": texts},
                },
                "dataFrom": [{"sourceRef": {"generatorRef": generator}}],
            },
        },
    ]
