"""An ssh key pair into a Secret that says which of its keys are to hold it.

The private key is in memory here and in the cluster, and nowhere else: no plan, no message and no
file of ours ever has it.
"""

import base64
import json
from typing import Any

from etcompile.k8s.objects import Object
from etcompile.keypair import new_secret
from etcompile.model.protocol import KEY_PAIR


def wants_key_pair(value: Object) -> bool:
    """Whether an object is a Secret that is to be given a key pair, and has none yet."""
    annotations = value["metadata"].get("annotations") or {}
    return value["kind"] == "Secret" and KEY_PAIR in annotations and not value.get("data")


def with_key_pair(value: Object) -> dict[str, Any]:
    """The Secret with a new key pair.

    Args:
        value: The Secret without data, as `etcompile.backend` makes it.
    """
    shape = json.loads(value["metadata"]["annotations"][KEY_PAIR])
    data = new_secret(shape, value["metadata"]["labels"]["etcompile.dev/job"])
    coded = {name: base64.b64encode(text).decode() for name, text in data.items()}
    return {**value, "data": coded}


def with_placeholders(value: Object) -> dict[str, Any]:
    """The Secret with texts that are no keys: enough for a dry run, which checks their names."""
    shape = json.loads(value["metadata"]["annotations"][KEY_PAIR])
    coded = base64.b64encode(b"made when it is applied").decode()
    return {**value, "data": {shape["privateKey"]: coded, shape["publicKey"]: coded}}
