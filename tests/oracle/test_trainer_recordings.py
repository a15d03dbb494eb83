"""What etcompile renders of TrainJobs, held against what Kubeflow Trainer and JobSet created.

What the trainer applies, a JobSet, is compared with the merged document that Pods are made of; what
the Job controller creates, Pods, and JobSet's Service, with the objects.
"""

import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import etcompile
import recordings
from differences import Difference, rows
from etcompile import Options
from etcompile.diagnostics import has_errors
from recordings import DIFFERENCES, identity, unlisted

OPERATOR = "trainer-v2"
LISTED = rows(DIFFERENCES, "Kubeflow Trainer")
CASES = recordings.recordings(OPERATOR)
NOT_COMPILED = frozenset({"ET2007", "ET2139"})
"""What says that a field, or a runtime, is not compiled."""
REFUSED = {
    "invalid-initializer-missing": {"ET2139"},
    "invalid-name": {"ET2020"},
    "invalid-reserved-env": {"ET2139"},
    "invalid-runtime-missing": {"ET2138"},
    "invalid-success-target": {"ET2139"},
    "managed-by-multikueue": {"ET2060"},
    "negative-nodes": {"ET2008"},
    "service-name-taken": {"ET4005"},
    "zero-nodes": {"ET2008"},
}
"""Inputs that Trainer refuses or passes over, or on which it fails, and the error that says so."""


@functools.cache
def compiled(recording: Path) -> etcompile.Compilation:
    return etcompile.compile(recordings.documents(recording), Options(namespace=recording.name))


COMPILED = [case for case in CASES if compiled(case).ok]
RUNNING = [
    case
    for case in COMPILED
    if any(r["body"]["kind"] == "Pod" for r in recordings.requests(case) if r["verb"] == "create")
]


def names(cases: list[Path]) -> Any:
    return pytest.mark.parametrize("recording", cases, ids=lambda path: path.name)


def start(recording: Path) -> Iterator[Any]:
    """The requests of the start; later ones come of edits, failures and restarts."""
    last = int((recording / "initial").read_text())
    return (request for request in recordings.requests(recording)[:last])


def created(recording: Path) -> dict[recordings.Identity, Any]:
    """Pods and Services as they were created at the start, Pods by the names of their hosts."""
    found = {}
    for request in start(recording):
        if request["verb"] == "create" and request["code"] == 201:
            body = request["body"]
            if body["kind"] == "Pod":
                body = {**body, "metadata": {**body["metadata"], "name": body["spec"]["hostname"]}}
            if body["kind"] in ("Pod", "Service"):
                body = {key: value for key, value in body.items() if key != "status"}
                body["metadata"] = {"namespace": request["namespace"], **body["metadata"]}
                found[identity(body)] = body
    return found


@functools.cache
def differences_of(recording: Path) -> tuple[Difference, ...]:
    rendered = [
        dict(value)
        for value in compiled(recording).objects
        if value["kind"] in ("Pod", "Service")
        and "etcompile.dev/job" in value["metadata"].get("labels", {})
    ]
    found = []
    for one in recordings.compared(created(recording), rendered):
        kind = re.sub(r"^Pod .*", "Pod", one.kind)
        if one.path.endswith(".command") and one.ours != "(absent)":
            assert one.upstream[1:-1] in one.ours, "the command itself is the same"
        found.append(Difference(kind, one.path, one.upstream, one.ours))
    return tuple(found)


def test_there_are_recordings() -> None:
    if not CASES:
        pytest.skip("the recordings of Trainer are not here")
    assert len(RUNNING) > 10


@names(RUNNING)
def test_every_difference_is_listed(recording: Path) -> None:
    text = unlisted(differences_of(recording), LISTED)
    assert text == "", text


def test_every_listed_difference_occurs() -> None:
    if not CASES:
        pytest.skip("the recordings of Trainer are not here")
    found = [difference for case in RUNNING for difference in differences_of(case)]
    idle = [row for row in LISTED if not any(map(row.lists, found))]
    assert idle == []


@names(CASES)
def test_an_input_compiles_or_is_refused_by_name(recording: Path) -> None:
    codes = {one.code for one in compiled(recording).diagnostics if has_errors([one])}
    if recording.name in REFUSED:
        assert codes >= REFUSED[recording.name]
    elif not compiled(recording).ok:
        assert codes & {*NOT_COMPILED, "ET5006", "ET2008"}, codes
