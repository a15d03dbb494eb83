"""Whether Flux can sync an output folder as one Kustomization.

Apart from the other checks of objects because it depends on how the folder is laid out, which only
whoever writes it knows.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.model import Origin


def unstaged(
    groups: Sequence[tuple[Origin | None, Iterable[Mapping[str, Any]]]],
) -> Iterator[Diagnostic]:
    """Warnings about Pods that run as an account which is created beside them.

    Flux dry-runs all objects of a stage before it applies the first of them, and accounts and Pods
    are in one stage (reference/gitops.md 2.2, 2.3).

    Args:
        groups: What is rendered into the folder, by the job that it is made of.
    """
    accounts = {
        _key(value)
        for _, objects in groups
        for value in objects
        if value["kind"] == "ServiceAccount"
    }
    for origin, objects in groups if accounts else ():
        for value in objects:
            account = value["spec"].get("serviceAccountName") if value["kind"] == "Pod" else None
            if account and (_key(value)[0], account) in accounts:
                place = origin.locate("metadata", "name") if origin else None
                yield diagnose(
                    codes.ACCOUNT_IN_THE_SAME_STAGE,
                    place,
                    pod=value["metadata"]["name"],
                    account=account,
                )


def _key(value: Mapping[str, Any]) -> tuple[str, str]:
    metadata = value["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
