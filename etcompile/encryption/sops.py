"""The data of a Secret to that of one which SOPS can decrypt, for age recipients.

Only the values are encrypted, each by AES-256-GCM with one data key and its own place as additional
data. The MAC is over the encrypted values alone (`mac_only_encrypted`), so that a label or an
annotation may change and the file still be whole. The data key is an armored age file for each
recipient: its cryptography is pyrage's, the Python face of rage. Which recipients are accepted
stands here, because pyrage calls all others invalid Bech32.
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
"""Those of Bech32."""
_VERSION = "3.9.0"
"""The first version of SOPS that knows `mac_only_encrypted`."""
_FIELDS = "^(data|stringData)$"
_NONCE_BYTES = 32
_TAG_BYTES = 16
_MAC_BEGINS = bytes.fromhex("8a3fd2ad54ce66527b1034f3d147be0b0b975b3bf44f72c6fdadec8176f27d69")
"""What SOPS hashes first where a MAC is over encrypted values only."""


class Encrypted(Struct, frozen=True):
    """Data that SOPS can decrypt.

    Args:
        data: The ciphertexts, by the keys of the data.
        metadata: What belongs under `sops` in the same object.
    """

    data: Mapping[str, str]
    metadata: Mapping[str, Any]


def encrypted(texts: Mapping[str, bytes], recipients: Sequence[str]) -> Encrypted:
    """The data of a Secret, encrypted."""
    import pyrage  # noqa: PLC0415 - only who encrypts pays for the import

    data_key = os.urandom(32)
    # In the order in which they are written: the MAC depends on it.
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
    """The age recipients of what stands under `sops`, in alphabetical order."""
    entries = metadata.get("age")
    if not isinstance(entries, list):
        return ()
    names = (str(entry.get("recipient")) for entry in entries if isinstance(entry, dict))
    return tuple(sorted(names))


def age_recipient(text: str) -> "Recipient":
    """The public key of a recipient.

    Args:
        text: `age1...`, as `age-keygen` prints it.

    Raises:
        RecipientError: it is none.
    """
    import pyrage  # noqa: PLC0415

    if not text.startswith(_AGE_PREFIX):
        if "SECRET" in text.upper():  # of which no message may say more
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
