"""A short secret to an armored age file, for one X25519 recipient.

Written here, after the specification of age (C2SP, age.md), because it is forty lines above
primitives that `cryptography` has, and a package for it would be one more to trust with keys.
"""

import base64
import hashlib
import hmac
import os
import textwrap

from etcompile.encryption import RecipientError

_LETTERS = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_PREFIX = "age"
_CHECKSUM = 6
_KEY_BYTES = 32
_VERSION = b"age-encryption.org/v1"
_INFO = _VERSION + b"/X25519"
_LAST_CHUNK = bytes(11) + b"\x01"
_CHUNK = 64 * 1024


def recipient(text: str) -> bytes:
    """The public key of a recipient.

    Args:
        text: `age1...`, as `age-keygen` prints it.

    Raises:
        RecipientError: it is none.
    """
    prefix, _, letters = text.rpartition("1")
    if prefix != _PREFIX:
        if "SECRET" in text.upper():  # of which no message may say more
            raise RecipientError("this is an identity, which stays with its owner")
        raise RecipientError(f"'{text}' is no X25519 recipient of age, age1...")
    if any(letter not in _LETTERS for letter in letters):
        raise RecipientError(f"'{text}' has a letter that no recipient has")
    values = [_LETTERS.index(letter) for letter in letters]
    whole = [*(ord(one) >> 5 for one in prefix), 0, *(ord(one) & 31 for one in prefix), *values]
    if _checksum(whole) != 1:
        raise RecipientError(f"'{text}' is mistyped: its checksum is wrong")
    bits = "".join(f"{value:05b}" for value in values[:-_CHECKSUM])
    key = int(bits[: _KEY_BYTES * 8] or "0", 2).to_bytes(_KEY_BYTES, "big")
    if len(bits) // 8 != _KEY_BYTES:
        raise RecipientError(f"'{text}' is not as long as a recipient")
    return key


def encrypted(text: bytes, public: bytes) -> str:
    """The text as an armored age file.

    Args:
        text: Less than 64 KiB, as a data key is.
        public: The recipient's public key.

    Raises:
        RecipientError: the key is a point of which every secret would be known.
    """
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    if len(text) >= _CHUNK:
        raise ValueError("one chunk is all that is written here")
    file_key = os.urandom(16)
    header = b"\n".join((_VERSION, *_stanza(file_key, public), b"---"))
    mac = hmac.new(_derived(file_key, b"", b"header"), header, hashlib.sha256).digest()
    nonce = os.urandom(16)
    payload = ChaCha20Poly1305(_derived(file_key, nonce, b"payload"))
    body = payload.encrypt(_LAST_CHUNK, text, None)
    return _armored(header + b" " + _unpadded(mac) + b"\n" + nonce + body)


def _stanza(file_key: bytes, public: bytes) -> tuple[bytes, bytes]:
    """The two lines from which the recipient learns the file's key."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import (  # noqa: PLC0415
        X25519PrivateKey,
        X25519PublicKey,
    )
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305  # noqa: PLC0415

    own = X25519PrivateKey.generate()
    share = own.public_key().public_bytes_raw()
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:
        raise RecipientError("this recipient's key is no point that keeps a secret") from error
    wrap = ChaCha20Poly1305(_derived(shared, share + public, _INFO))
    body = wrap.encrypt(bytes(12), file_key, None)
    return b"-> X25519 " + _unpadded(share), _unpadded(body)


def _derived(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """HKDF with SHA-256, to one block."""
    extracted = hmac.new(salt or bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def _unpadded(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


def _armored(data: bytes) -> str:
    lines = textwrap.wrap(base64.b64encode(data).decode(), 64)
    ends = "-----BEGIN AGE ENCRYPTED FILE-----", "-----END AGE ENCRYPTED FILE-----"
    return "\n".join((ends[0], *lines, ends[1])) + "\n"


def _checksum(values: list[int]) -> int:
    """Bech32's: 1 for what is as it was written."""
    found = 1
    for value in values:
        top = found >> 25
        found = (found & 0x1FFFFFF) << 5 ^ value
        for place, generator in enumerate(_GENERATOR):
            found ^= generator if top >> place & 1 else 0
    return found
