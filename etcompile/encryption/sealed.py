"""Encrypt texts as the `encryptedData` of a SealedSecret, as `kubeseal --cert` does.

Each text is encrypted with a new session key by AES-256-GCM, and that key by RSA-OAEP with SHA-256
for the certificate's key. OAEP's label binds it to the place where it may be opened, which Sealed
Secrets calls its scope. This needs only the certificate, no cluster.
"""

import base64
import hashlib
import os
import struct
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from etcompile.encryption import RecipientError

_SESSION_KEY_BYTES = 32
_NONCE = bytes(12)
"""Constant, because a session key encrypts one text only."""


class Certificate(Struct, frozen=True):
    """The certificate of a Sealed Secrets controller."""

    key: Any
    digest: str  # SHA-256 of the key, which a renewed certificate for the same key shares
    expires: datetime


def certificate(text: bytes) -> Certificate:
    """Read the first certificate of a PEM file as of `kubeseal --fetch-cert`.

    Raises:
        RecipientError: It holds none, or one of another algorithm than RSA.
    """
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey  # noqa: PLC0415

    try:
        first = x509.load_pem_x509_certificates(text)[0]
        key = first.public_key()
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RecipientError("it holds no certificate in PEM form") from error
    if not isinstance(key, RSAPublicKey):
        raise RecipientError("its key is no RSA key, and Sealed Secrets has no other")
    info = key.public_bytes(form.Encoding.DER, form.PublicFormat.SubjectPublicKeyInfo)
    return Certificate(key, f"sha256:{hashlib.sha256(info).hexdigest()}", first.not_valid_after_utc)


def label(scope: str, namespace: str, name: str) -> bytes:
    """Return what the ciphertext of a Secret is bound to, as Sealed Secrets writes it.

    Args:
        scope: `strict`, `namespace-wide` or `cluster-wide`.
    """
    bound = {"namespace-wide": namespace, "cluster-wide": ""}
    return bound.get(scope, f"{namespace}/{name}").encode()


def encrypted(texts: Mapping[str, bytes], certificate: Certificate, label: bytes) -> dict[str, str]:
    """Encrypt the texts as a SealedSecret holds them, under the same keys.

    Raises:
        RecipientError: The certificate has expired, so a controller may no longer have its key, or
            the key is too short for anything to be encrypted with it.
    """
    from cryptography.hazmat.primitives import hashes  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import padding  # noqa: PLC0415
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    if certificate.expires < datetime.now(UTC):
        raise RecipientError(f"it has expired on {certificate.expires:%Y-%m-%d}")
    oaep = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), label)
    sealed = {}
    for name, text in texts.items():
        session = os.urandom(_SESSION_KEY_BYTES)
        try:
            wrapped = certificate.key.encrypt(session, oaep)
        except ValueError as error:
            problem = f"its key of {certificate.key.key_size} bits is too short"
            raise RecipientError(problem) from error
        body = AESGCM(session).encrypt(_NONCE, text, None)
        sealed[name] = base64.b64encode(struct.pack(">H", len(wrapped)) + wrapped + body).decode()
    return sealed
