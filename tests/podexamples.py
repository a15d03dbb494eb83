"""The examples of the table of Pod rules as whole Pods."""

import re
from typing import Any

import yaml

from etcompile.k8s.validation import Rule

_OF_SPEC = ("containers", "initContainers", "volumes", "hostNetwork")
_LONG = re.compile(r"x\*(\d+)")


def pod(rule: Rule, text: str) -> dict[str, Any]:
    """A Pod that is sound but for an example of a rule.

    Args:
        rule: The rule.
        text: Its `breaks` or its `takes`.
    """
    example = _long(yaml.safe_load(text if text.startswith("{") else f"{{{text}}}"))
    container = {"name": "main", "image": "a:1"}
    init = {"name": "init", "image": "a:1"}
    volume = {"name": "data", "emptyDir": {}}
    metadata: dict[str, Any] = {"name": "pod"}
    if "annotations" in example:
        metadata["annotations"] = example.pop("annotations")
    spec: dict[str, Any] = {}
    if rule.path.startswith("metadata"):
        metadata |= example
    elif any(name in example for name in _OF_SPEC):
        spec |= example
    elif rule.path.startswith(("spec.(", "spec.containers[*]")):
        container |= example
    elif rule.path.startswith("spec.initContainers[*]"):
        init |= example
    elif rule.path.startswith("spec.volumes[*]"):
        volume = {"name": "data", **example}
    else:
        spec |= example
    spec = {"containers": [container], "initContainers": [init], "volumes": [volume], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _long(value: Any) -> Any:
    """`x*5` stands for a text of that length."""
    if isinstance(value, dict):
        return {key: _long(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_long(inner) for inner in value]
    if isinstance(value, str) and (match := _LONG.fullmatch(value)):
        return "x" * int(match[1])
    return value
