"""A short secret to an armored age file, for one X25519 recipient.

The file and its cryptography are pyrage's, the Python face of rage. What stands here is which
recipients are taken, and what is said of one that is none: pyrage calls all of them invalid Bech32.
"""

from typing import TYPE_CHECKING

from etcompile.encryption import RecipientError

if TYPE_CHECKING:
    from pyrage.x25519 import Recipient

_PREFIX = "age1"
_LETTERS = frozenset("qpzry9x8gf2tvdw0s3jn54khce6mua7l")
"""Those of Bech32."""


def recipient(text: str) -> "Recipient":
    """The public key of a recipient.

    Args:
        text: `age1...`, as `age-keygen` prints it.

    Raises:
        RecipientError: it is none.
    """
    # Only who encrypts pays for the import.
    import pyrage  # noqa: PLC0415

    if not text.startswith(_PREFIX):
        if "SECRET" in text.upper():  # of which no message may say more
            raise RecipientError("this is an identity, which stays with its owner")
        raise RecipientError(f"'{text}' is no X25519 recipient of age, age1...")
    if not _LETTERS.issuperset(text.removeprefix(_PREFIX)):
        raise RecipientError(f"'{text}' has a letter that no recipient has")
    try:
        return pyrage.x25519.Recipient.from_str(text)
    except pyrage.RecipientError as error:
        problem = f"'{text}' is mistyped: its length or its checksum is wrong"
        raise RecipientError(problem) from error


def encrypted(text: bytes, to: "Recipient") -> str:
    """The text as an armored age file.

    Raises:
        RecipientError: nothing can be encrypted for that key.
    """
    import pyrage  # noqa: PLC0415

    try:
        return pyrage.encrypt(text, [to], armored=True).decode()
    except pyrage.EncryptError as error:
        raise RecipientError(f"nothing can be encrypted for this recipient: {error}") from error
