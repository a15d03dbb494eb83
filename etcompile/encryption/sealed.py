"""Texts to the `encryptedData` of a SealedSecret, as `kubeseal --cert` writes it.

A text is encrypted with a session key of its own by AES-256-GCM, and that key by RSA-OAEP with
SHA-256 for the certificate's key. OAEP's label binds it to where it may be opened: Sealed Secrets
calls that its scope. No cluster is needed, only the certificate.
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
"""A session key encrypts one text and no other."""


class Certificate(Struct, frozen=True):
    """What a controller of Sealed Secrets shows to be encrypted for.

    Args:
        digest: The SHA-256 of that key, which a renewed certificate for it has too.
    """

    key: Any
    digest: str
    expires: datetime


def certificate(text: bytes) -> Certificate:
    """The certificate of a PEM file as of `kubeseal --fetch-cert`, the first of several.

    Raises:
        RecipientError: it holds none, or one of another algorithm than RSA.
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
    """What the ciphertext of a Secret is bound to, as Sealed Secrets spells it.

    Args:
        scope: `strict`, `namespace-wide` or `cluster-wide`.
    """
    bound = {"namespace-wide": namespace, "cluster-wide": ""}
    return bound.get(scope, f"{namespace}/{name}").encode()


def encrypted(texts: Mapping[str, bytes], certificate: Certificate, label: bytes) -> dict[str, str]:
    """The texts as a SealedSecret holds them, by the same keys.

    Raises:
        RecipientError: the certificate has expired, so that nobody knows whether a controller
            still has its key, or the key is too short for anything to be encrypted with it.
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
