"""What etcompile renders, held against what the real et-operator created from the same files.

A recording is the operator's own write requests on a real API server. Each object that we
render and the operator created must be equal, field by field, except for the rows of
docs/differences.md; each object that only one side has must be accounted for.
"""

import functools
from pathlib import Path
from typing import Any

import pytest

import etcompile
from defaults import defaulted
from differences import ABSENT, Difference, compare, rows
from etcompile import Options, Settings
from operator_recordings import Recording, recordings
from recordings import DIFFERENCES, creations, identity, title, unlisted

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


@functools.cache
def differences_of(recording: Recording) -> tuple[Difference, ...]:
    requests, [start] = recording.requests, recording.ends
    created = creations(r for r in requests if r["n"] <= start)
    later = creations(r for r in requests if r["n"] > start)
    options = Options(
        namespace=recording.namespace, settings=Settings(init_image=recording.init_image)
    )
    compilation = etcompile.compile(documents(recording), options)
    errors = [d for d in compilation.diagnostics if d.severity is etcompile.Severity.ERROR]
    assert not errors, errors
    rendered = {identity(value): value for value in compilation.objects}
    all_differences: list[Difference] = []
    for key, value in rendered.items():
        body = created.get(key) or later.get(key)
        if body is not None:
            all_differences += compare(title(value), body, defaulted(value))
        else:
            assert recording.name in CUT_SHORT, f"{key} is not what the operator created"
    gone = {(r["resource"], r["name"]) for r in requests if r["verb"] == "delete"}
    for (kind, name), body in created.items():
        # What a scale-in removed again is gone in ours too; what came of a fault (`later`) is
        # the watcher's work, not the compiler's.
        if (kind, name) not in rendered and (f"{kind.lower()}s", name) not in gone:
            all_differences.append(Difference(title(body), "(object)", "(present)", ABSENT))
    return tuple(all_differences)


def documents(recording: Recording) -> list[Any]:
    values = recording.input()
    for field in PRUNED.get(recording.name, ()):
        values[0]["spec"].pop(field)
    return values


CASES = recordings("et-operator")
COMPARED = [case for case in CASES if case.name not in REFUSED]
LISTED = rows(DIFFERENCES)


@pytest.mark.parametrize(
    ("operator", "count"),
    [("et-operator", 41), ("mpi-operator", 10), ("training-operator", 51), ("trainer-v2", 11)],
)
def test_there_are_recordings_of_all_paths_of_an_operator(operator: str, count: int) -> None:
    assert len(recordings(operator)) >= count


@pytest.mark.parametrize("recording", COMPARED, ids=lambda path: path.name)
def test_objects_equal_what_the_operator_created(recording: Recording) -> None:
    missing = unlisted(differences_of(recording), LISTED)
    assert not missing, missing


@pytest.mark.parametrize("recording", [c for c in CASES if c.name in REFUSED], ids=lambda p: p.name)
def test_input_that_harms_the_operator_is_refused(recording: Recording, tmp_path: Path) -> None:
    compilation = etcompile.compile([recording.file(tmp_path)])
    errors = {d.code for d in compilation.diagnostics if d.severity is etcompile.Severity.ERROR}
    assert errors == REFUSED[recording.name]
    assert not compilation.objects
