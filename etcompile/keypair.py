"""A new ssh key pair, as the data of the Secret that is to hold it.

Ed25519, in the forms that OpenSSH reads. At the bottom because whoever applies to a cluster and
whoever encrypts for a repository make one, and neither knows the other. Only they ever hold it.
"""

from collections.abc import Mapping


def new_secret(shape: Mapping[str, str], comment: str) -> dict[str, bytes]:
    """The data of a Secret with a new key pair.

    Args:
        shape: Which of its keys hold what: `privateKey` and `publicKey`; and under `config` the
            client's configuration itself, if the Secret has one.
        comment: What ends the public half: whose it is.

    Returns:
        The texts by key, in the order of the keys.
    """
    # Heavy, and needed once in the life of a job.
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
        Ed25519PrivateKey,
    )

    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.OpenSSH, form.NoEncryption())
    public = key.public_key().public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    data = {shape["privateKey"]: private, shape["publicKey"]: public + f" {comment}\n".encode()}
    if "config" in shape:
        data["config"] = shape["config"].encode()
    return dict(sorted(data.items()))
