"""An ssh key pair that External Secrets Operator makes in the cluster, or fetches from a store.

Nothing of it is ever in Git (reference/gitops.md 5, `generate-in-cluster` and `eso`). The Secret
has the keys that the Pods expect, so that they are the same in every mode.
"""

from typing import Any

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SecretMode, SshCredentials

_GENERATORS = "generators.external-secrets.io/v1alpha1"
_OF_CLUSTER = "cluster:"


def objects(job: Job, ssh: SshCredentials, mode: SecretMode) -> list[dict[str, Any]]:
    """An ExternalSecret; and an SSHKey generator, if no store is named that has the key pair."""
    return _fetched(job, ssh, mode.name) if mode.name else _made(job, ssh)


def _made(job: Job, ssh: SshCredentials) -> list[dict[str, Any]]:
    name = f"{job.name}-ssh"
    labels = job_labels(job)
    generator = {"apiVersion": _GENERATORS, "kind": "SSHKey", "name": name}
    source = {"dataFrom": [{"sourceRef": {"generatorRef": generator}}]}
    texts = {ssh.private_key: "{{ .privateKey }}", ssh.public_key: "{{ .publicKey }}"}
    return [
        {
            "apiVersion": _GENERATORS,
            "kind": "SSHKey",
            "metadata": metadata(job, name, labels),
            "spec": {"keyType": "ed25519", "comment": job.name},
        },
        _external(job, ssh, texts, source),
    ]


def _fetched(job: Job, ssh: SshCredentials, named: str) -> list[dict[str, Any]]:
    """An ExternalSecret for the entry of the Secret's name below a path of a store."""
    store, _, path = named.removeprefix(_OF_CLUSTER).partition("/")
    kind = "ClusterSecretStore" if named.startswith(_OF_CLUSTER) else "SecretStore"
    entry = f"{path.rstrip('/')}/{ssh.secret}" if path else ssh.secret
    halves = {"private": ssh.private_key, "public": ssh.public_key}
    source = {
        "secretStoreRef": {"kind": kind, "name": store},
        "data": [
            {"secretKey": half, "remoteRef": {"key": entry, "property": key}}
            for half, key in halves.items()
        ],
    }
    texts = {key: f"{{{{ .{half} }}}}" for half, key in halves.items()}
    return [_external(job, ssh, texts, source)]


def _external(
    job: Job, ssh: SshCredentials, texts: dict[str, str], source: dict[str, Any]
) -> dict[str, Any]:
    config = {"config": ssh.config} if ssh.config else {}
    return {
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": metadata(job, f"{job.name}-ssh", job_labels(job)),
        "spec": {
            # Any other policy makes a new key pair at every refresh.
            "refreshPolicy": "CreatedOnce",
            "target": {
                "name": ssh.secret,
                "creationPolicy": "Owner",
                "immutable": True,
                "template": {"type": ssh.secret_type, "data": {**texts, **config}},
            },
            **source,
        },
    }
