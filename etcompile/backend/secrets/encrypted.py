"""An ssh key pair that stands in the output, encrypted: a SealedSecret, or a Secret for SOPS.

Here are the objects without a ciphertext. Which of their keys are to hold what says the annotation
of `runtime`, so that who fills them needs to know nothing of jobs.
"""

from typing import Any

from msgspec import structs

from etcompile.backend.identity import job_labels, metadata
from etcompile.backend.secrets import runtime
from etcompile.model import Job, SecretMode, SshCredentials

_SCOPE = "sealedsecrets.bitnami.com/{scope}"


def credentials(job: Job, ssh: SshCredentials, mode: SecretMode) -> SshCredentials:  # noqa: ARG001
    """The credentials of the run: a run of its own has a key pair of its own.

    Nobody can take a key pair from one recipient to another without the private key of the first,
    so a new run must not depend on the pair of the last.
    """
    return structs.replace(ssh, secret=f"{ssh.secret}-{job.run_id}") if job.run_id else ssh


def sealed(job: Job, ssh: SshCredentials, mode: SecretMode) -> list[dict[str, Any]]:
    """A SealedSecret, of which the controller in the cluster makes the Secret."""
    secret = runtime.secret(job, ssh)
    wide = {} if mode.scope == "strict" else {_SCOPE.format(scope=mode.scope): "true"}
    annotations = {**secret["metadata"]["annotations"], **wide}
    # As kubeseal does, in both places: the controller reads the first, a second look the other.
    marked = {"annotations": wide} if wide else {}
    return [
        {
            "apiVersion": "bitnami.com/v1alpha1",
            "kind": "SealedSecret",
            "metadata": metadata(job, ssh.secret, job_labels(job), annotations=annotations),
            "spec": {
                "encryptedData": {},
                "template": {
                    "immutable": True,
                    "metadata": metadata(job, ssh.secret, job_labels(job), **marked),
                    "type": ssh.secret_type,
                },
            },
        }
    ]


def sops(job: Job, ssh: SshCredentials, mode: SecretMode) -> list[dict[str, Any]]:  # noqa: ARG001
    """A Secret whose data SOPS can decrypt: Flux does, or a person."""
    return [runtime.secret(job, ssh)]
