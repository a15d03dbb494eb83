"""Encrypt the data of a Secret so that SOPS can decrypt it, for age recipients.

Only values are encrypted, each by AES-256-GCM with one data key and its path as additional data.
The MAC covers the encrypted values alone (`mac_only_encrypted`), so labels and annotations may
change without breaking the file. The data key is an armored age file for each recipient; pyrage,
the Python binding of rage, does its cryptography. Recipients are checked here, because pyrage calls
every other one invalid Bech32.
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from etcompile.encryption import RecipientError

if TYPE_CHECKING:
    from pyrage.x25519 import Recipient

_AGE_PREFIX = "age1"
_AGE_LETTERS = frozenset("qpzry9x8gf2tvdw0s3jn54khce6mua7l")
_VERSION = "3.9.0"
"""The first version of SOPS that supports `mac_only_encrypted`."""
_FIELDS = "^(data|stringData)$"
_NONCE_BYTES = 32
_TAG_BYTES = 16
_MAC_BEGINS = bytes.fromhex("8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69")
"""What SOPS hashes first if a MAC covers encrypted values only."""


class Encrypted(Struct, frozen=True):
    """Data that SOPS can decrypt."""

    data: Mapping[str, str]  # ciphertexts, under the same keys
    metadata: Mapping[str, Any]  # the field `sops` of the same object


def encrypted(texts: Mapping[str, bytes], recipients: Sequence[str]) -> Encrypted:
    import pyrage  # noqa: PLC0415 - an import that only encryption needs

    data_key = os.urandom(32)
    # In the order in which they are written, on which the MAC depends.
    values = {key: base64.b64encode(text) for key, text in sorted(texts.items())}
    mac = hashlib.sha512(_MAC_BEGINS + b"".join(values.values())).hexdigest().upper()
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    age = []
    for name in recipients:
        try:
            sealed = pyrage.encrypt(data_key, [age_recipient(name)], armored=True).decode()
        except pyrage.EncryptError as error:
            problem = f"nothing can be encrypted for this recipient: {error}"
            raise RecipientError(problem) from error
        age.append({"recipient": name, "enc": sealed})
    return Encrypted(
        {key: _encrypted(text, data_key, f"data:{key}:") for key, text in values.items()},
        {
            "age": age,
            "encrypted_regex": _FIELDS,
            "lastmodified": now,
            "mac": _encrypted(mac.encode(), data_key, now),
            "mac_only_encrypted": True,
            "version": _VERSION,
        },
    )


def recipients(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    entries = metadata.get("age")
    if not isinstance(entries, list):
        return ()
    names = (str(entry.get("recipient")) for entry in entries if isinstance(entry, dict))
    return tuple(sorted(names))


def age_recipient(text: str) -> "Recipient":
    """Parse the public key of a recipient, `age1...` as `age-keygen` prints it.

    Raises:
        RecipientError: It is none.
    """
    import pyrage  # noqa: PLC0415

    if not text.startswith(_AGE_PREFIX):
        if "SECRET" in text.upper():  # no message may quote it
            raise RecipientError("this is an identity, which stays with its owner")
        raise RecipientError(f"'{text}' is no X25519 recipient of age, age1...")
    if not _AGE_LETTERS.issuperset(text.removeprefix(_AGE_PREFIX)):
        raise RecipientError(f"'{text}' has a letter that no recipient has")
    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        problem = f"'{text}' is mistyped: its length or its checksum is wrong"
        raise RecipientError(problem) from error


def _encrypted(text: bytes, key: bytes, place: str) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415

    nonce = os.urandom(_NONCE_BYTES)
    sealed = AESGCM(key).encrypt(nonce, text, place.encode())
    parts = {"data": sealed[:-_TAG_BYTES], "iv": nonce, "tag": sealed[-_TAG_BYTES:]}
    coded = ",".join(f"{name}:{base64.b64encode(part).decode()}" for name, part in parts.items())
    return f"ENC[AES256_GCM,{coded},type:str]"
