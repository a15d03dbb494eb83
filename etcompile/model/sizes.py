"""How large an object is to those who keep it: the API server, and tools that store a copy of it.

Apart from the rules about sizes, because what tells a tool to store no copy must measure alike.
"""

import json
from collections.abc import Mapping
from typing import Any

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotations of one object: Kubernetes' validation, TotalAnnotationSizeLimitB."""
STORED_LIMIT = 1536 * 1024
"""Bytes of one request to etcd, `--max-request-bytes`."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which kubectl and other tools keep a copy of what they applied."""
_ESCAPED = "<>&\u2028\u2029"
"""What Go's encoder of JSON writes with six characters."""


def copied_annotations(value: Mapping[str, Any]) -> int:
    """The bytes of an object's annotations after `kubectl apply` without `--server-side`.

    That keeps a copy of the object, as JSON, in an annotation of it.
    """
    metadata = value["metadata"]
    annotations = metadata.get("annotations") or {}
    whole = {**value, "metadata": {**metadata, "annotations": annotations}}
    text = json.dumps(whole, separators=(",", ":"), ensure_ascii=False)
    escapes = sum(text.count(character) * (6 - len(character.encode())) for character in _ESCAPED)
    size = len(text.encode("utf-8", "surrogatepass")) + escapes + len("\n")
    return size + len(LAST_APPLIED) + _text_size(annotations)


def is_copied(value: Mapping[str, Any]) -> bool:
    """Whether an object can be applied by tools that keep a copy of it in an annotation."""
    return copied_annotations(value) <= ANNOTATIONS_LIMIT


def stored_size(value: Mapping[str, Any]) -> int:
    """The least bytes that the API server needs to store an object: its texts alone."""
    return _text_size(value)


def _text_size(value: object) -> int:
    if isinstance(value, str):
        return len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, Mapping):
        return sum(_text_size(key) + _text_size(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return sum(map(_text_size, value))
    return 0
