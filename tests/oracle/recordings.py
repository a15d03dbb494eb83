"""What a recording says, held against what we render: what the modules of all operators share."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from defaults import defaulted
from differences import ABSENT, Difference, Row, compare
from etcompile import Settings
from etcompile.model.protocol import JOB_LABEL
from operator_recordings import Recording

ROOT = Path(__file__).parents[2]
DIFFERENCES = ROOT / "docs" / "differences.md"

_ROLE_LABELS = (
    "training-job-role",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "elasticjob.dlrover/replica-type",
)
Identity = tuple[str, str]
"""Kind and name."""


@functools.cache
def settings(recording: Recording) -> Settings:
    """How to compile for a cluster as it was: with the gang scheduler the operator was told of.

    What it was told is the `schedulerName` of what it made.
    """
    if not recording.name.startswith("gang-"):
        return Settings()
    created = (r["body"] for r in recording.requests if r["verb"] == "create")
    specs = (
        value["spec"] if value["kind"] == "Pod" else value["spec"]["template"]["spec"]
        for value in created
        if value["kind"] in ("Pod", "Job")
    )
    [name] = {spec["schedulerName"] for spec in specs}
    if name == "volcano":
        return Settings(gang="volcano")
    return Settings(gang="coscheduling", gang_scheduler=name)


def creations(requests: Iterable[Mapping[str, Any]]) -> dict[Identity, Any]:
    """Each object to the body of the last create."""
    return {
        identity(request["body"]): request["body"]
        for request in requests
        if request["verb"] == "create"
    }


def identity(value: Mapping[str, Any]) -> Identity:
    return value["kind"], value["metadata"]["name"]


def title(value: Mapping[str, Any]) -> str:
    """The kind of an object as docs/differences.md names it, a Pod's with its role."""
    labels = value["metadata"].get("labels", {})
    role = next((labels[name] for name in _ROLE_LABELS if name in labels), None)
    return f"Pod ({role})" if value["kind"] == "Pod" else str(value["kind"])


def compared(
    created: Mapping[Identity, Any], rendered: Iterable[Mapping[str, Any]]
) -> Iterator[Difference]:
    """The differences of the objects that both sides have, and the objects that one side lacks."""
    ours = {identity(value): value for value in rendered}
    for key, body in created.items():
        if key in ours:
            yield from compare(title(body), body, defaulted(ours[key]))
        else:
            yield Difference(title(body), "(object)", "(present)", ABSENT)
    names = [body["metadata"]["name"] for body in created.values()]
    for key, value in ours.items():
        if key not in created:
            # A job that its operator never starts is another matter than one Pod too many.
            job = value["metadata"].get("labels", {}).get(JOB_LABEL, "")
            is_started = any(f"{name}-".startswith(f"{job}-") for name in names)
            which = "(object)" if is_started else "(every object)"
            yield Difference(title(value), which, ABSENT, "(present)")


def unlisted(differences: Iterable[Difference], listed: Iterable[Row]) -> str:
    """The differences that no row lists, as text for people; empty if there are none."""
    rows = list(listed)
    missing = dict.fromkeys(d for d in differences if not any(row.lists(d) for row in rows))
    return "\n".join(
        f"{d.kind} {d.path}\n  upstream: {d.upstream}\n  ours:     {d.ours}" for d in missing
    )
