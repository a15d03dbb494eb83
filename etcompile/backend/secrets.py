"""Where a job's ssh key pair comes from: the credentials of its Pods, and the objects behind them.

No way puts a private key in the clear into the output: render is not a secret store
(reference/gitops.md 5). What only the outside has, a ciphertext or the parameters of a provider,
is left out here and filled in by `etcompile.compiler.keysource`. A new way is a row in `_MODES`.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from etcompile.backend.identity import job_labels, metadata
from etcompile.model import Job, SecretMode, SshCredentials
from etcompile.model.keypair import key_pair
from etcompile.model.protocol import KEY_PAIR
from etcompile.model.settings import SecretKind

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
    row = _MODES[mode.kind]
    ssh = row.credentials(job, ssh, mode)
    return structs.replace(job, credentials=ssh), row.objects(job, ssh, mode)


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


# Encrypted in the output: a SealedSecret, or a Secret for SOPS -----------------------------------


def _of_run(job: Job, ssh: SshCredentials, _mode: SecretMode) -> SshCredentials:
    """The credentials of the run: a run of its own has a key pair of its own.

    Nobody can take a key pair from one recipient to another without the private key of the first,
    so a new run must not depend on the pair of the last.
    """
    return structs.replace(ssh, secret=f"{ssh.secret}-{job.run_id}") if job.run_id else ssh


def _sealed(job: Job, ssh: SshCredentials, mode: SecretMode) -> Objects:
    """A SealedSecret without ciphertexts, of which its controller makes the Secret."""
    secret = _secret(job, ssh)
    wide = {} if mode.scope == "strict" else {_SEALED_SCOPE.format(scope=mode.scope): "true"}
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


# Made in the cluster, or fetched from a store, by External Secrets Operator ----------------------


def _external(job: Job, ssh: SshCredentials, mode: SecretMode) -> Objects:
    """An ExternalSecret; and an SSHKey generator, if no store is named that has the key pair.

    The Secret has the keys that the Pods expect, so that they are the same in every mode.
    """
    name, labels = f"{job.name}-ssh", job_labels(job)
    objects: Objects = []
    halves = {"private": ssh.private_key, "public": ssh.public_key}
    if mode.name:
        source = _store(ssh, mode.name, halves)
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


def _store(ssh: SshCredentials, named: str, halves: dict[str, str]) -> dict[str, Any]:
    """The entry of the Secret's name below a path of a store: `STORE/PATH`, `cluster:STORE`."""
    store, _, path = named.removeprefix(_OF_CLUSTER).partition("/")
    kind = "ClusterSecretStore" if named.startswith(_OF_CLUSTER) else "SecretStore"
    entry = f"{path.rstrip('/')}/{ssh.secret}" if path else ssh.secret
    return {
        "secretStoreRef": {"kind": kind, "name": store},
        "data": [
            {"secretKey": half, "remoteRef": {"key": entry, "property": key}}
            for half, key in halves.items()
        ],
    }


# In a Secret of somebody's, or mounted from a vault by the Secrets Store CSI driver --------------


def _existing(_job: Job, ssh: SshCredentials, mode: SecretMode) -> SshCredentials:
    return structs.replace(ssh, secret=mode.name, owned=False) if mode.name else ssh


def _from_vault(_job: Job, ssh: SshCredentials, mode: SecretMode) -> SshCredentials:
    """The credentials as the driver mounts them.

    It neither renames files nor sets their mode, and ssh wants both: so they are copied.
    """
    named = mode.name if mode.name and not mode.file else ssh.secret
    return structs.replace(ssh, provider_class=named, copied=True)


def _provider_class(job: Job, ssh: SshCredentials, mode: SecretMode) -> Objects:
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


class _Mode(Struct, frozen=True):
    """What a mode does.

    Args:
        credentials: The credentials as the job's Pods have them then.
        objects: What provides these, of the output.
    """

    credentials: Callable[[Job, SshCredentials, SecretMode], SshCredentials] = (
        lambda _job, ssh, _mode: ssh
    )
    objects: Callable[[Job, SshCredentials, SecretMode], Objects] = lambda _job, _ssh, _mode: []


_MODES: dict[SecretKind, _Mode] = {
    "runtime": _Mode(),  # created in the cluster by apply or the watcher
    "existing": _Mode(_existing),
    "external": _Mode(objects=_external),
    "sealed": _Mode(_of_run, _sealed),
    "sops": _Mode(_of_run, lambda job, ssh, _mode: [_secret(job, ssh)]),
    "csi": _Mode(_from_vault, _provider_class),
}
