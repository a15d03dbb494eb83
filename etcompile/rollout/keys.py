"""An ssh key pair into a Secret that says which of its keys are to hold it (`model.keypair`).

The private key is in memory here and in the cluster, and nowhere else: no plan, no message and no
file of ours ever has it.
"""

import base64
from typing import Any

from etcompile.k8s.objects import Object
from etcompile.model.keypair import has_key_pair, key_pair_of, new_data
from etcompile.model.protocol import JOB_LABEL


def wants_key_pair(value: Object) -> bool:
    """Whether an object is a Secret that is to be given a key pair, and has none yet."""
    return value["kind"] == "Secret" and has_key_pair(value) and not value.get("data")


def with_key_pair(value: Object) -> dict[str, Any]:
    """The Secret with a new key pair.

    Args:
        value: The Secret without data, as `etcompile.backend` makes it.
    """
    pair = key_pair_of(value)
    assert pair is not None  # noqa: S101 - it wants one
    data = new_data(pair, value["metadata"]["labels"][JOB_LABEL])
    coded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    return {**value, "data": coded}


def with_placeholders(value: Object) -> dict[str, Any]:
    """The Secret with texts that are no keys: enough for a dry run, which checks their names."""
    pair = key_pair_of(value)
    assert pair is not None  # noqa: S101 - it wants one
    coded = base64.b64encode(b"made when it is applied").decode()
    return {**value, "data": dict.fromkeys(pair.halves, coded)}
