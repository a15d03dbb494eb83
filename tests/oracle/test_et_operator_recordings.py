"""What etcompile renders, held against what the real et-operator created from the same files.

A recording is the operator's own write requests on a real API server. Each object that we
render and the operator created must be equal, field by field, except for the rows of
docs/differences.md; each object that only one side has must be accounted for.
"""

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from defaults import defaulted
from differences import ABSENT, Difference, compare, rows
from etcompile import Options, Settings

ROOT = Path(__file__).parents[2]
OURS = Path(__file__).parent / "et-operator"
"""Recordings made from inputs of our own."""
SHARED = Path(os.environ.get("ETCOMPILE_RECORDINGS", ROOT.parent / "shared" / "oracle"))
"""All recordings, also those made from upstream's own files, where they are at hand."""

REFUSED = {
    "crash-empty-containers": {"ET2010"},
    "crash-no-replicas": {"ET2002"},
    "crash-no-spec": {"ET2002"},
    "crash-scale-in-no-to-delete": {"ET2002"},
    "example-scale-in-twice": {"ET3002"},
}
"""Inputs that crash the operator or make it delete every worker, and the error that says so."""

CUT_SHORT = {"race-start-already-exists"}
"""The operator gave the job up before it had created everything (defect 48)."""

PRUNED = {"crash-stale-crd": ("restartPolicy", "backoffLimit", "launcherAttachMode")}
"""Fields that the recorded operator never saw, because its CRD did not know them (defect 4)."""

_FAULT = re.compile(
    r"\[\+ *([\d.]+)s\] (?:kubelet stand-in|kubectl (?:delete|annotate)|exec endpoint now fails"
    r"|operator process)"
)


def recordings() -> list[Path]:
    shared = SHARED / "et-operator"
    folder = shared if shared.is_dir() else OURS
    return sorted(path.parent for path in folder.glob("*/requests.yaml"))


@functools.cache
def differences_of(recording: Path) -> tuple[Difference, ...]:
    requests = [r for r in yaml.load_all((recording / "requests.yaml").read_text(), CLoader) if r]
    steps = (recording / "steps.txt").read_text()
    fault = first_fault(steps)
    created = creations(r for r in requests if r["t"] < fault)
    later = creations(r for r in requests if r["t"] >= fault)
    compilation = etcompile.compile(
        documents(recording),
        Options(namespace=requests[0]["namespace"], settings=settings(steps)),
    )
    errors = [d for d in compilation.diagnostics if d.severity is etcompile.Severity.ERROR]
    assert not errors, errors
    rendered = {identity(value): value for value in compilation.objects}
    found: list[Difference] = []
    for key, value in rendered.items():
        body = created.get(key) or later.get(key)
        if body is not None:
            found += compare(title(value), body, defaulted(value))
        else:
            assert recording.name in CUT_SHORT, f"{key} is not what the operator created"
    gone = {(r["resource"], r["name"]) for r in requests if r["verb"] == "delete"}
    for (kind, name), body in created.items():
        # What a scale-in removed again is gone in ours too; what came of a fault (`later`) is
        # the watcher's work, not the compiler's.
        if (kind, name) not in rendered and (f"{kind.lower()}s", name) not in gone:
            found.append(Difference(title(body), "(object)", "(present)", ABSENT))
    return tuple(found)


def settings(steps: str) -> Settings:
    """The settings that stand for the flags of the recorded operator."""
    image = re.search(r"--init-container-image=(\S+)", steps)
    return Settings(init_image=image[1] if image else None)


def documents(recording: Path) -> list[Any]:
    values = list(yaml.load_all((recording / "input.yaml").read_text(), CLoader))
    for field in PRUNED.get(recording.name, ()):
        values[0]["spec"].pop(field)
    # Recorded in a namespace of its own; upstream's examples name `default` in the job only.
    for value in values:
        value["metadata"].pop("namespace", None)
    return values


def creations(requests: Iterable[dict[str, Any]]) -> dict[tuple[str, str], Any]:
    """Kind and name to the body of the last create that was accepted."""
    return {
        identity(request["body"]): {k: v for k, v in request["body"].items() if k != "status"}
        for request in requests
        if request["verb"] == "create" and request["code"] == 201
        if "/exec" not in request["resource"]
    }


def identity(value: dict[str, Any]) -> tuple[str, str]:
    return value["kind"], value["metadata"]["name"]


def title(value: dict[str, Any]) -> str:
    role = value["metadata"].get("labels", {}).get("training-job-role")
    return f"Pod ({role})" if value["kind"] == "Pod" else value["kind"]


def first_fault(steps: str) -> float:
    """When the first fault was played, in seconds after the operator's first request."""
    times = [float(m[1]) for m in _FAULT.finditer(steps)]
    return min((time - 0.3 for time in times if time > 1), default=float("inf"))


CLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
CASES = recordings()
COMPARED = [case for case in CASES if case.name not in REFUSED]
LISTED = rows(ROOT / "docs" / "differences.md")


def test_all_recordings_are_at_hand() -> None:
    if not (SHARED / "et-operator").is_dir():
        pytest.skip(f"only {len(CASES)} recordings here: those of upstream's own files are absent")
    assert len(CASES) > 40


@pytest.mark.parametrize("recording", COMPARED, ids=lambda path: path.name)
def test_objects_equal_what_the_operator_created(recording: Path) -> None:
    unlisted = [d for d in differences_of(recording) if not any(row.lists(d) for row in LISTED)]
    assert not unlisted, "\n".join(
        f"{d.kind} {d.path}\n  upstream: {d.upstream}\n  ours:     {d.ours}" for d in unlisted
    )


@pytest.mark.parametrize("recording", [c for c in CASES if c.name in REFUSED], ids=lambda p: p.name)
def test_input_that_harms_the_operator_is_refused(recording: Path) -> None:
    compilation = etcompile.compile([recording / "input.yaml"])
    errors = {d.code for d in compilation.diagnostics if d.severity is etcompile.Severity.ERROR}
    assert errors == REFUSED[recording.name]
    assert not compilation.objects
