"""Where a job's ssh key pair comes from: the credentials of its Pods, and the objects behind them.

No way puts a private key in the clear into the output: render is not a secret store
(reference/gitops.md 5). What only the outside has, a ciphertext or the parameters of a provider,
is left out here and filled in by `etcompile.compiler.keysource`.
"""

from typing import Any

from msgspec import structs

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SecretMode, SshCredentials
from etcompile.model.keypair import key_pair
from etcompile.model.protocol import KEY_PAIR

_SEALED_SCOPE = "sealedsecrets.bitnami.com/{scope}"
_GENERATORS = "generators.external-secrets.io/v1alpha1"
_OF_CLUSTER = "cluster:"

Objects = list[dict[str, Any]]


def resolve(job: Job, mode: SecretMode) -> tuple[Job, Objects]:
    """The job with its credentials as the mode has them, and the objects that provide them.

    Credentials that the job's author named are left alone: the author knows better than a
    setting for all jobs.
    """
    ssh = job.credentials
    if ssh is None or not ssh.owned:
        return job, []
    objects: Objects = []
    match mode.kind:
        case "runtime":
            pass  # created in the cluster by apply or the watcher
        case "existing":
            ssh = structs.replace(ssh, secret=mode.name, owned=False) if mode.name else ssh
        case "external":
            objects = _external(job, ssh, mode)
        case "sealed" | "sops":
            # Nobody can take a key pair from one recipient to another without the private key of
            # the first, so a new run must not depend on the pair of the last.
            if job.run_id:
                ssh = structs.replace(ssh, secret=f"{ssh.secret}-{job.run_id}")
            objects = [_sealed(job, ssh, mode) if mode.kind == "sealed" else _secret(job, ssh)]
        case "csi":
            # The driver neither renames files nor sets their mode, and ssh wants both: so they are
            # copied.
            named = mode.name if mode.name and not mode.file else ssh.secret
            ssh = structs.replace(ssh, provider_class=named, copied=True)
            if mode.file:
                provider = {
                    "apiVersion": "secrets-store.csi.x-k8s.io/v1",
                    "kind": "SecretProviderClass",
                    "metadata": metadata(job, named, job_labels(job)),
                    "spec": {},
                }
                objects = [provider]
    return structs.replace(job, credentials=ssh), objects


def generated(job: Job, mode: SecretMode) -> Objects:
    """What is made in the cluster, outside of the output, without its keys."""
    ssh = job.credentials
    if ssh is None or not ssh.owned or mode.kind != "runtime":
        return []
    return [_secret(job, ssh)]


def namespace_reason(job: Job, mode: SecretMode) -> str | None:
    """Why the mode must know the job's namespace; None if it need not."""
    ssh = job.credentials
    if ssh is not None and ssh.owned and mode.kind == "sealed" and mode.scope != "cluster-wide":
        return "its key pair is sealed for one"
    return None


def _secret(job: Job, ssh: SshCredentials) -> dict[str, Any]:
    """The Secret without its data. It is immutable: a new key would cut a running job in two.

    The annotation says which keys it is to get; only who creates the Secret ever holds them.
    """
    annotations = {KEY_PAIR: key_pair(ssh).annotation}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, ssh.secret, job_labels(job), annotations=annotations),
        "type": ssh.secret_type,
        "immutable": True,
    }


def _sealed(job: Job, ssh: SshCredentials, mode: SecretMode) -> dict[str, Any]:
    """A SealedSecret without ciphertexts, of which its controller makes the Secret."""
    secret = _secret(job, ssh)
    wide = {} if mode.scope == "strict" else {_SEALED_SCOPE.format(scope=mode.scope): "true"}
    annotations = {**secret["metadata"]["annotations"], **wide}
    # As kubeseal does, in both places: the controller reads the first, a second look the other.
    marked = {"annotations": wide} if wide else {}
    return {
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


def _external(job: Job, ssh: SshCredentials, mode: SecretMode) -> Objects:
    """An ExternalSecret; and an SSHKey generator, if no store is named that has the key pair.

    The Secret has the keys that the Pods expect, so that they are the same in every mode.
    """
    name, labels = f"{job.name}-ssh", job_labels(job)
    objects: Objects = []
    source: dict[str, Any]
    halves = {"private": ssh.private_key, "public": ssh.public_key}
    if mode.name:
        # The entry of the Secret's name below a path of a store: `STORE/PATH`, `cluster:STORE`.
        store, _, path = mode.name.removeprefix(_OF_CLUSTER).partition("/")
        kind = "ClusterSecretStore" if mode.name.startswith(_OF_CLUSTER) else "SecretStore"
        entry = f"{path.rstrip('/')}/{ssh.secret}" if path else ssh.secret
        remote = [
            {"secretKey": half, "remoteRef": {"key": entry, "property": key}}
            for half, key in halves.items()
        ]
        source = {"secretStoreRef": {"kind": kind, "name": store}, "data": remote}
    else:
        generator = {"apiVersion": _GENERATORS, "kind": "SSHKey", "name": name}
        source = {"dataFrom": [{"sourceRef": {"generatorRef": generator}}]}
        objects.append(
            {
                "apiVersion": _GENERATORS,
                "kind": "SSHKey",
                "metadata": metadata(job, name, labels),
                "spec": {"keyType": "ed25519", "comment": job.name},
            }
        )
    ending = "" if mode.name else "Key"
    texts = {key: f"{{{{ .{half}{ending} }}}}" for half, key in halves.items()}
    config = {"config": ssh.config} if ssh.config else {}
    objects.append(
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
                    "template": {"type": ssh.secret_type, "data": {**texts, **config}},
                },
                **source,
            },
        }
    )
    return objects
