"""What a container's program finds in its environment: the kubelet's rule, written anew.

Kubernetes' `third_party/forked/golang/expansion` and the kubelet's `makeEnvironmentVariables`: one
pass over the list, references to what came before, the last entry of a name counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def expanded(text: str, known: Mapping[str, str]) -> str:
    result, at = "", 0
    while at < len(text):
        if text[at] != "$" or at + 1 == len(text):
            result, at = result + text[at], at + 1
        elif text[at + 1] == "$":
            result, at = result + "$", at + 2
        elif text[at + 1] == "(":
            end = text.find(")", at + 2)
            name = text[at + 2 : end]
            if end < 0:
                result, at = result + "$(", at + 2
            else:
                result, at = result + known.get(name, f"$({name})"), end + 1
        else:
            result, at = result + text[at : at + 2], at + 2
    return result


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
