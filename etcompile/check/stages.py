"""Whether Flux can sync an output folder as one Kustomization.

Apart from the other checks of objects because it depends on how the folder is laid out, which only
whoever writes it knows.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, diagnose


def unstaged(objects: Sequence[Mapping[str, Any]]) -> Iterator[Diagnostic]:
    """Warnings about Pods that run as an account which is created beside them.

    Flux dry-runs all objects of a stage before it applies the first of them, and accounts and Pods
    are in one stage (reference/gitops.md 2.2, 2.3).

    Args:
        objects: What is rendered into the folder.
    """
    accounts = {_key(one) for one in objects if one["kind"] == "ServiceAccount"}
    for one in objects if accounts else ():
        account = one["spec"].get("serviceAccountName") if one["kind"] == "Pod" else None
        if account and (_key(one)[0], account) in accounts:
            yield diagnose("ET4015", None, pod=one["metadata"]["name"], account=account)


def _key(value: Mapping[str, Any]) -> tuple[str, str]:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
