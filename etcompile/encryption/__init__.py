"""Texts to ciphertexts that only a cluster, or who holds a key, can read.

Each module is one format, written as its own tools write it: `sealed` for Sealed Secrets, `sops`
for SOPS with age. Nothing here knows of jobs, and nothing here can decrypt. Only these modules and
`etcompile.model.keypair` import `cryptography`, and only when they encrypt.
"""


class RecipientError(Exception):
    """Nobody can be encrypted for by this certificate or name; the text says why."""
