"""Those who can decrypt what render encrypts, none of them by our code.

A controller of Sealed Secrets after the documentation of its format, and the holder of an age
identity by `pyrage`; the real `kubeseal` and `sops` beside them, where they are installed.
"""

import base64
import hashlib
import json
import re
import struct
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyrage
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)


class Controller:
    """The controller of Sealed Secrets: a key, certificates for it, and how it unseals."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def certificate(self, file: Path, *, days: int = 365, key: Any = None) -> Path:
        """A certificate in a file, valid until so many days from now."""
        key = key or self.key
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sealed-secret")])
        begin = NOW - timedelta(days=1000)
        builder = x509.CertificateBuilder(
            name,
            name,
            key.public_key(),
            x509.random_serial_number(),
            begin,
            NOW + timedelta(days=days),
        )
        certificate = builder.sign(key, hashes.SHA256())
        file.write_bytes(certificate.public_bytes(form.Encoding.PEM))
        return file

    def private(self, file: Path) -> Path:
        format_ = (form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
        file.write_bytes(self.key.private_bytes(*format_))
        return file

    def unsealed(self, value: dict[str, Any]) -> dict[str, Any]:
        """The Secret of a SealedSecret; an exception if this controller cannot open it."""
        metadata = value["metadata"]
        label = f"{metadata.get('namespace', '')}/{metadata['name']}"
        annotations = metadata.get("annotations", {})
        if annotations.get("sealedsecrets.bitnami.com/namespace-wide") == "true":
            label = metadata["namespace"]
        if annotations.get("sealedsecrets.bitnami.com/cluster-wide") == "true":
            label = ""
        sealed = value["spec"]["encryptedData"]
        template = {"apiVersion": "v1", "kind": "Secret", **value["spec"]["template"]}
        data = {key: self._opened(text, label.encode()) for key, text in sealed.items()}
        return {**template, "data": data}

    def _opened(self, text: str, label: bytes) -> bytes:
        raw = base64.b64decode(text, validate=True)
        size = struct.unpack(">H", raw[:2])[0]
        oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label)
        session = self.key.decrypt(raw[2 : 2 + size], oaep)
        return AESGCM(session).decrypt(bytes(12), raw[2 + size :], None)


def elliptic() -> Any:
    """A key that Sealed Secrets has no use for."""
    return ec.generate_private_key(ec.SECP256R1())


class Owner:
    def __init__(self) -> None:
        self.identity = pyrage.x25519.Identity.generate()
        self.recipient = str(self.identity.to_public())

    def decrypted(self, value: dict[str, Any]) -> dict[str, Any]:
        """The Secret that SOPS makes of an encrypted one; an assertion fails if it would not."""
        sops = value["sops"]
        mine = next(one for one in sops["age"] if one["recipient"] == self.recipient)
        key = pyrage.decrypt(mine["enc"].encode(), [self.identity])
        places = {name: f"data:{name}:" for name in value["data"]}
        data = {name: _value(value["data"][name], key, place) for name, place in places.items()}
        begin = bytes.fromhex("8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69")
        mac = hashlib.sha512(begin + b"".join(data.values())).hexdigest().upper()
        assert sops["mac_only_encrypted"] is True
        assert _value(sops["mac"], key, sops["lastmodified"]) == mac.encode()
        decoded = {name: base64.b64decode(text, validate=True) for name, text in data.items()}
        return {**{k: v for k, v in value.items() if k != "sops"}, "data": decoded}


def _value(text: str, key: bytes, place: str) -> bytes:
    match = re.fullmatch(r"ENC\[AES256_GCM,data:(.*),iv:(.*),tag:(.*),type:str\]", text)
    assert match
    data, nonce, tag = (base64.b64decode(part, validate=True) for part in match.groups())
    return AESGCM(key).decrypt(nonce, data + tag, place.encode())


def by_kubeseal(program: str, value: dict[str, Any], private: Path) -> dict[str, bytes]:
    """The data of a SealedSecret as the real tool recovers it, without a cluster."""
    done = subprocess.run(
        [program, "--recovery-unseal", "--recovery-private-key", private],
        input=json.dumps(value),
        capture_output=True,
        text=True,
        check=True,
    )
    return _decoded(json.loads(done.stdout))


def by_sops(program: str, file: Path, owner: Owner) -> dict[str, bytes]:
    """The data of a file as the real tool decrypts it, its MAC checked."""
    done = subprocess.run(
        [program, "decrypt", file],
        env={"SOPS_AGE_KEY": str(owner.identity)},
        capture_output=True,
        text=True,
        check=True,
    )
    return _decoded(yaml.safe_load(done.stdout))


def _decoded(secret: dict[str, Any]) -> dict[str, bytes]:
    return {key: base64.b64decode(text) for key, text in secret["data"].items()}


def is_key_pair(private: bytes, public: bytes) -> bool:
    """Whether these are the two halves of one key, as OpenSSH writes them."""
    key = form.load_ssh_private_key(private, None).public_key()
    derived = key.public_bytes(form.Encoding.OpenSSH, form.PublicFormat.OpenSSH)
    return derived.split() == public.split()[:2]
