"""Name the keys of a Secret that hold an ssh key pair, and generate a pair for them.

The kinds differ in the names of the keys. A Secret whose pair is created in the cluster names
them in an annotation, which may be shown and stored. Only the program that creates the Secret ever
holds the private key: no plan, message or file of ours has it (reference/gitops.md 5).
"""

import base64
import json
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from etcompile.model.job import SshCredentials
from etcompile.model.protocol import JOB_LABEL, KEY_PAIR


class KeyPair(Struct, frozen=True):
    """The names of the keys in a Secret."""

    private: str
    public: str
    config: str | None = None

    @property
    def halves(self) -> tuple[str, str]:
        return self.private, self.public

    @property
    def keys(self) -> frozenset[str]:
        return frozenset(self.halves if self.config is None else (*self.halves, "config"))

    @property
    def annotation(self) -> str:
        """Return the value of the Secret's annotation, which `key_pair_of` reads."""
        named = {"privateKey": self.private, "publicKey": self.public}
        config = {} if self.config is None else {"config": self.config}
        return json.dumps({**named, **config}, sort_keys=True, separators=(",", ":"))


def key_pair(ssh: SshCredentials) -> KeyPair:
    return KeyPair(ssh.private_key, ssh.public_key, ssh.config or None)


def has_key_pair(value: Mapping[str, Any]) -> bool:
    """Report whether an object holds a key pair of etcompile, or waits for one."""
    return KEY_PAIR in (value["metadata"].get("annotations") or {})


def key_pair_of(value: Mapping[str, Any]) -> KeyPair | None:
    if value["kind"] != "Secret" or not has_key_pair(value):
        return None
    named = json.loads(value["metadata"]["annotations"][KEY_PAIR])
    return KeyPair(named["privateKey"], named["publicKey"], named.get("config"))


def new_data(pair: KeyPair, comment: str) -> dict[str, bytes]:
    """Generate the data of a Secret: an Ed25519 pair in OpenSSH's formats, sorted by key."""
    # Slow to import, and needed once in the life of a job.
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


def wants_key_pair(value: Mapping[str, Any]) -> bool:
    return value["kind"] == "Secret" and has_key_pair(value) and not value.get("data")


def with_key_pair(value: Mapping[str, Any]) -> dict[str, Any]:
    pair = key_pair_of(value)
    assert pair is not None  # noqa: S101 - it wants one
    data = new_data(pair, value["metadata"]["labels"][JOB_LABEL])
    coded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    return {**value, "data": coded}


def with_placeholders(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Secret with texts instead of keys, for a dry run, which checks their names."""
    pair = key_pair_of(value)
    assert pair is not None  # noqa: S101 - it wants one
    coded = base64.b64encode(b"made when it is applied").decode()
    return {**value, "data": dict.fromkeys(pair.halves, coded)}
