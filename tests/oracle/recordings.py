"""Recordings of real operators as values: what was submitted, what the operator then wrote.

What all operators' recordings have in common is here, for a test module per operator. All of
them are in a folder that need not be there; those that were made from inputs of our own are
beside this file, and are used in its place.
"""

import functools
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from defaults import defaulted
from differences import ABSENT, Difference, Row, compare
from etcompile import Settings
from etcompile.model.protocol import JOB_LABEL

ROOT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("ETCOMPILE_RECORDINGS", ROOT.parent / "shared" / "oracle"))
DIFFERENCES = ROOT / "docs" / "differences.md"
CLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_ROLE_LABELS = (
    "training-job-role",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "elasticjob.dlrover/replica-type",
)
Identity = tuple[str, str]
"""Kind and name."""


def recordings(operator: str) -> list[Path]:
    """The folders of an operator's recordings."""
    folder = SHARED / operator
    if not folder.is_dir():
        folder = Path(__file__).parent / operator
    return sorted(path.parent for path in folder.glob("*/requests.yaml"))


def all_at_hand(operator: str) -> bool:
    """Whether there are more than those of our own inputs."""
    return (SHARED / operator).is_dir()


def documents(recording: Path) -> list[Any]:
    """What the user created.

    Each was recorded in a namespace of its own; upstream's examples name another in some of
    their documents only.
    """
    values = [value for value in entries(recording / "input.yaml") if value]
    for value in values:
        value["metadata"].pop("namespace", None)
    return values


@functools.cache
def requests(recording: Path) -> tuple[dict[str, Any], ...]:
    """The operator's write requests, in order."""
    return tuple(request for request in entries(recording / "requests.yaml") if request)


@functools.cache
def settings(recording: Path) -> Settings:
    """How to compile for a cluster as it was: with the gang scheduler the operator was told of.

    What it was told is the `schedulerName` of what it made.
    """
    if not recording.name.startswith("gang-"):
        return Settings()
    made = (r["body"] for r in requests(recording) if r["verb"] == "create")
    specs = (
        value["spec"] if value["kind"] == "Pod" else value["spec"]["template"]["spec"]
        for value in made
        if value["kind"] in ("Pod", "Job")
    )
    [name] = {spec["schedulerName"] for spec in specs}
    if name == "volcano":
        return Settings(gang="volcano")
    return Settings(gang="coscheduling", gang_scheduler=name)


def entries(file: Path) -> list[Any]:
    """The documents of a YAML file; none if it is not there."""
    return list(yaml.load_all(file.read_text(), CLoader)) if file.exists() else []


def creations(requests: Iterable[Mapping[str, Any]]) -> dict[Identity, Any]:
    """Each object to the body of the last create that was accepted."""
    return {
        identity(request["body"]): _body(request)
        for request in requests
        if request["verb"] == "create" and request["code"] == 201
        if "/exec" not in request["resource"]
    }


def _body(request: Mapping[str, Any]) -> dict[str, Any]:
    """What was sent, with the namespace that may only be in the request's path."""
    body = {field: value for field, value in request["body"].items() if field != "status"}
    return {**body, "metadata": {"namespace": request["namespace"], **body["metadata"]}}


def identity(value: Mapping[str, Any]) -> Identity:
    """Kind and name of an object."""
    return value["kind"], value["metadata"]["name"]


def title(value: Mapping[str, Any]) -> str:
    """The kind of an object as docs/differences.md names it, a Pod's with its role."""
    labels = value["metadata"].get("labels", {})
    role = next((labels[name] for name in _ROLE_LABELS if name in labels), None)
    return f"Pod ({role})" if value["kind"] == "Pod" else str(value["kind"])


def compared(
    created: Mapping[Identity, Any], rendered: Iterable[Mapping[str, Any]]
) -> Iterator[Difference]:
    """The differences of the objects that both sides have, and the objects that one side lacks.

    Args:
        created: What the operator created, with the API server's defaults.
        rendered: What etcompile made of the same input.
    """
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
    found = dict.fromkeys(d for d in differences if not any(row.lists(d) for row in rows))
    return "\n".join(
        f"{d.kind} {d.path}\n  upstream: {d.upstream}\n  ours:     {d.ours}" for d in found
    )


def first_fault(steps: str, fault: re.Pattern[str]) -> float:
    """When the first fault was played, in seconds after the operator's first request."""
    times = [float(m[1]) for m in fault.finditer(steps)]
    return min((time - 0.3 for time in times if time > 1), default=float("inf"))
