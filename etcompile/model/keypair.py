"""Which keys of a Secret are to hold an ssh key pair, and a new pair for them.

The kinds differ in the names of the keys. A Secret that is to get its pair in the cluster says
them in an annotation, which may be shown and stored; only who creates the Secret ever holds the
keys themselves (reference/gitops.md 5).
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.model.job import SshCredentials
from etcompile.model.protocol import JOB_LABEL, KEY_PAIR


class KeyPair(Struct, frozen=True):
    """Which keys of a Secret hold what."""

    private: str
    public: str
    config: str | None = None

    @property
    def halves(self) -> tuple[str, str]:
        """The keys of both halves."""
        return self.private, self.public

    @property
    def keys(self) -> frozenset[str]:
        """All keys that the Secret has when it is whole."""
        return frozenset(self.halves if self.config is None else (*self.halves, "config"))

    @property
    def annotation(self) -> str:
        """What a Secret says of it, for `key_pair_of`."""
        named = {"privateKey": self.private, "publicKey": self.public}
        config = {} if self.config is None else {"config": self.config}
        return json.dumps({**named, **config}, sort_keys=True, separators=(",", ":"))


def key_pair(ssh: SshCredentials) -> KeyPair:
    """The key pair of a job's credentials."""
    return KeyPair(ssh.private_key, ssh.public_key, ssh.config or None)


def has_key_pair(value: Mapping[str, Any]) -> bool:
    """Whether an object says that it holds a key pair of etcompile's, or is to hold one."""
    return KEY_PAIR in (value["metadata"].get("annotations") or {})


def key_pair_of(value: Mapping[str, Any]) -> KeyPair | None:
    """The key pair that an object is to hold; None if it is no Secret that is to hold one."""
    if value["kind"] != "Secret" or not has_key_pair(value):
        return None
    named = json.loads(value["metadata"]["annotations"][KEY_PAIR])
    return KeyPair(named["privateKey"], named["publicKey"], named.get("config"))


def new_data(pair: KeyPair, comment: str) -> dict[str, bytes]:
    """The data of a Secret with a new key pair: Ed25519, in the forms that OpenSSH reads.

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
    data = {pair.private: private, pair.public: public + f" {comment}\n".encode()}
    if pair.config is not None:
        data["config"] = pair.config.encode()
    return dict(sorted(data.items()))


# The Secret. The private key is in memory here and in the cluster, and nowhere else: no plan, no
# message and no file of ours ever has it.


def wants_key_pair(value: Mapping[str, Any]) -> bool:
    """Whether an object is a Secret that is to be given a key pair, and has none yet."""
    return value["kind"] == "Secret" and has_key_pair(value) and not value.get("data")


def with_key_pair(value: Mapping[str, Any]) -> dict[str, Any]:
    """The Secret with a new key pair."""
    pair = key_pair_of(value)
    assert pair is not None  # noqa: S101 - it wants one
    data = new_data(pair, value["metadata"]["labels"][JOB_LABEL])
    coded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    return {**value, "data": coded}


def with_placeholders(value: Mapping[str, Any]) -> dict[str, Any]:
    """The Secret with texts that are no keys: enough for a dry run, which checks their names."""
    pair = key_pair_of(value)
    assert pair is not None  # noqa: S101 - it wants one
    coded = base64.b64encode(b"made when it is applied").decode()
    return {**value, "data": dict.fromkeys(pair.halves, coded)}
