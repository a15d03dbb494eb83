"""Encrypt texts so that only a cluster, or the holder of a key, can read them.

Each module is one format, written as its own tools write it: `sealed` for Sealed Secrets, `sops`
for SOPS with age. Nothing here knows jobs or can decrypt. Only these modules and
`etcompile.model.keypair` import `cryptography`, and only when they encrypt.
"""


class RecipientError(Exception):
    """A certificate or name that cannot be a recipient; the text says why."""
