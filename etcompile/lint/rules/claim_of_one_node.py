"""A claim that only one node can use, in Pods that may be on several."""

from collections.abc import Iterator, Mapping
from typing import Any

from etcompile.diagnostics import Diagnostic, codes, diagnose
from etcompile.lint.placement import is_on_one_node
from etcompile.lint.subject import LintedJob, RolePods

CODE = codes.CLAIM_OF_ONE_NODE
_SINGLE = {"ReadWriteOnce": "one node", "ReadWriteOncePod": "one Pod"}


def findings(job: LintedJob) -> Iterator[Diagnostic]:
    """A warning for each claim of the input or of the job that several Pods use and cannot."""
    for name, spec in _claims(job).items():
        modes = spec.get("accessModes") or ()
        users = [(pods, at) for pods in job.pods if (at := _use(pods, name)) is not None]
        count = sum(pods.count for pods, _ in users)
        if not modes or not set(modes) <= _SINGLE.keys() or count < 2:
            continue
        mode = "ReadWriteOnce" if "ReadWriteOnce" in modes else "ReadWriteOncePod"
        if mode == "ReadWriteOnce" and all(is_on_one_node(pods) for pods, _ in users):
            continue
        pods, at = users[0]
        place = pods.place("volumes", at, "persistentVolumeClaim", "claimName")
        yield diagnose(CODE, place, claim=name, mode=mode, where=_SINGLE[mode], pods=count)


def _claims(job: LintedJob) -> dict[str, Mapping[str, Any]]:
    """The specs of the claims that are known, by their names."""
    given = {
        source.data["metadata"]["name"]: source.data.get("spec") or {}
        for source in job.of_kind("PersistentVolumeClaim")
        if "name" in source.data["metadata"]
    }
    return given | {claim.name: claim.spec for claim in job.job.claims}


def _use(pods: RolePods, claim: str) -> int | None:
    """The number of the volume by which Pods use a claim."""
    for index, volume in enumerate(pods.spec.get("volumes", ())):
        if (volume.get("persistentVolumeClaim") or {}).get("claimName") == claim:
            return index
    return None
