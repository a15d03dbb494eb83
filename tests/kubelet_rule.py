"""What a container's program finds in its environment: the kubelet's rule, written anew.

Kubernetes' `third_party/forked/golang/expansion` and the kubelet's `makeEnvironmentVariables`: one
pass over the list, references to what came before, the last entry of a name counts.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def expanded(text: str, known: Mapping[str, str]) -> str:

    def value(reference: re.Match[str]) -> str:
        return "$" if reference[0] == "$$" else known.get(reference[1], reference[0])

    return re.sub(r"\$\$|\$\(([^)]*)\)", value, text)


def environment(
    entries: Sequence[Mapping[str, Any]], before: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment that a list of variables makes.

    Args:
        before: What `envFrom` brought.
    """
    known = dict(before or {})
    for entry in entries:
        source = entry.get("valueFrom")
        if source:
            known[entry["name"]] = f"<{_source(source)}>"
        else:
            known[entry["name"]] = expanded(entry.get("value") or "", known)
    return known


def _source(value: Mapping[str, Any]) -> str:
    """Where a value comes from, without the version that the API server adds to a field."""
    return repr(
        {
            kind: {key: one for key, one in sorted(source.items()) if key != "apiVersion"}
            for kind, source in value.items()
        }
    )
