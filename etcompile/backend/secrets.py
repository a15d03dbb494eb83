"""Provide a job's ssh key pair: the credentials of its Pods, and the objects behind them.

No mode puts a private key in the clear into the output: render is not a secret store
(reference/gitops.md 5). Ciphertexts and the parameters of a provider are left out here;
`etcompile.compiler.keysource` fills them in.
"""

from typing import Any

from msgspec import structs

from etcompile.backend.identity import job_labels, job_object, metadata
from etcompile.model import Job, SecretMode, SshCredentials
from etcompile.model.keypair import key_pair
from etcompile.model.protocol import KEY_PAIR

_SEALED_SCOPE = "sealedsecrets.bitnami.com/{scope}"
_GENERATORS = "generators.external-secrets.io/v1alpha1"
_OF_CLUSTER = "cluster:"

Objects = list[dict[str, Any]]


def resolve(job: Job, mode: SecretMode) -> tuple[Job, Objects]:
    """Return the job with its credentials in this mode, and the objects that provide them.

    Credentials that the job names stay: they are more specific than a setting for all jobs.
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
            # A key pair cannot be re-encrypted for another recipient without the private key of
            # the first, so each run has its own pair.
            if job.run_id:
                ssh = structs.replace(ssh, secret=f"{ssh.secret}-{job.run_id}")
            secret = _secret(job, ssh)
            objects = [secret]
            if mode.kind == "sealed":
                scope = _SEALED_SCOPE.format(scope=mode.scope)
                wide = {} if mode.scope == "strict" else {scope: "true"}
                annotations = {**secret["metadata"]["annotations"], **wide}
                # In both places, as kubeseal does: the controller decrypts by the first, validates
                # the second.
                marked = {"annotations": wide} if wide else {}
                name, labels = ssh.secret, job_labels(job)
                template = {
                    "immutable": True,
                    "metadata": metadata(job, name, labels, **marked),
                    "type": ssh.secret_type,
                }
                sealed = {
                    "apiVersion": "bitnami.com/v1alpha1",
                    "kind": "SealedSecret",
                    "metadata": metadata(job, name, labels, annotations=annotations),
                    "spec": {"encryptedData": {}, "template": template},
                }
                objects = [sealed]
        case "csi":
            # The driver neither renames files nor sets their mode, and ssh needs both, so an init
            # container copies them.
            named = mode.name if mode.name and not mode.file else ssh.secret
            ssh = structs.replace(ssh, provider_class=named, copied=True)
            if mode.file:
                api = "secrets-store.csi.x-k8s.io/v1"
                objects = [job_object(job, api, "SecretProviderClass", named, spec={})]
    return structs.replace(job, credentials=ssh), objects


def generated(job: Job, mode: SecretMode) -> Objects:
    ssh = job.credentials
    if ssh is None or not ssh.owned or mode.kind != "runtime":
        return []
    return [_secret(job, ssh)]


def namespace_reason(job: Job, mode: SecretMode) -> str | None:
    ssh = job.credentials
    if ssh is not None and ssh.owned and mode.kind == "sealed" and mode.scope != "cluster-wide":
        return "its key pair is sealed for one"
    return None


def _secret(job: Job, ssh: SshCredentials) -> dict[str, Any]:
    """Return the Secret without data. It is immutable: a new key would break a running job.

    The annotation says which keys it will get; only its creator ever holds them.
    """
    annotations = {KEY_PAIR: key_pair(ssh).annotation}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, ssh.secret, job_labels(job), annotations=annotations),
        "type": ssh.secret_type,
        "immutable": True,
    }


def _external(job: Job, ssh: SshCredentials, mode: SecretMode) -> Objects:
    """Return an ExternalSecret, and an SSHKey generator if the mode names no store.

    The Secret has the keys that the Pods expect, so that Pods are the same in every mode.
    """
    name = f"{job.name}-ssh"
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
        spec = {"keyType": "ed25519", "comment": job.name}
        objects.append(job_object(job, _GENERATORS, "SSHKey", name, spec=spec))
    ending = "" if mode.name else "Key"
    texts = {key: f"{{{{ .{half}{ending} }}}}" for half, key in halves.items()}
    config = {"config": ssh.config} if ssh.config else {}
    target = {
        "name": ssh.secret,
        "creationPolicy": "Owner",
        "immutable": True,
        "template": {"type": ssh.secret_type, "data": {**texts, **config}},
    }
    # Any other policy makes a new key pair at every refresh.
    whole = {"refreshPolicy": "CreatedOnce", "target": target, **source}
    api = "external-secrets.io/v1"
    return [*objects, job_object(job, api, "ExternalSecret", name, spec=whole)]
