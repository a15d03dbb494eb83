"""What etcompile renders of TrainJobs, held against what Kubeflow Trainer and JobSet created.

What the trainer applies, a JobSet, is compared with the merged document that Pods are made of; what
the Job controller creates, Pods, and JobSet's Service, with the objects.
"""

import functools
import re
from pathlib import Path
from typing import Any

import pytest

import etcompile
import recordings
from differences import Difference, rows
from etcompile import Options, Settings, backend
from etcompile.compiler.stored import read_text
from etcompile.diagnostics import has_errors
from recordings import DIFFERENCES, identity, unlisted

OPERATOR = "trainer-v2"
LISTED = rows(DIFFERENCES, "Kubeflow Trainer")
CASES = recordings.recordings(OPERATOR)
NOT_COMPILED = frozenset({"ET2007", "ET2139"})
"""What says that a field, or a runtime, is not compiled."""
REFUSED = {
    "claim-name-taken": {"ET4005"},
    "invalid-initializer-missing": {"ET2139"},
    "invalid-name": {"ET2020"},
    "invalid-patch-initializer-env": {"ET2139"},
    "invalid-patch-twice": {"ET2139"},
    "invalid-reserved-env": {"ET2139"},
    "invalid-runtime-missing": {"ET2138"},
    "invalid-success-target": {"ET2139"},
    "managed-by-multikueue": {"ET2060"},
    "negative-nodes": {"ET2008"},
    "patch-unknown-container": {"ET2139"},
    "patch-unknown-job": {"ET2139"},
    "runtime-patches-volume-type": {"ET4002"},
    "service-name-taken": {"ET4005"},
    "zero-nodes": {"ET2008"},
}
"""Inputs that Trainer refuses or passes over, or on which it fails, and the error that says so."""


@functools.cache
def compiled(recording: Path) -> etcompile.Compilation:
    options = Options(namespace=recording.name, settings=Settings(gang=scheduler(recording)))
    return etcompile.compile(recordings.documents(recording), options)


def scheduler(recording: Path) -> Any:
    """The gang scheduler that a runtime of the input names; `none` if none does."""
    for document in recordings.documents(recording):
        for name in document.get("spec", {}).get("podGroupPolicy", {}):
            return name
    return "none"


COMPILED = [case for case in CASES if compiled(case).ok]
RUNNING = [
    case
    for case in COMPILED
    if any(r["body"]["kind"] == "Pod" for r in recordings.requests(case) if r["verb"] == "create")
]


def names(cases: list[Path]) -> Any:
    return pytest.mark.parametrize("recording", cases, ids=lambda path: path.name)


KINDS = ("Pod", "Service", "PersistentVolumeClaim", "PodGroup")
"""What three controllers made in the end."""
JOB = "jobset.sigs.k8s.io/jobset-name"


def is_beside_its_launcher(recording: Path, name: str) -> bool:
    """Whether a Pod is a node that Trainer makes for a job of one node, the launcher (T3)."""
    alone = (
        document["metadata"]["name"]
        for document in recordings.documents(recording)
        if document["kind"] == "TrainJob"
        and document["spec"].get("trainer", {}).get("numNodes") == 1
    )
    ours = {value["metadata"]["name"] for value in compiled(recording).objects}
    return any(
        name == f"{job}-node-0-0" and f"{job}-launcher-0-0" in ours and name not in ours
        for job in alone
    )


def created(recording: Path) -> dict[recordings.Identity, Any]:
    """Pods, Services and claims as they were first created, Pods by the names of their hosts.

    Later ones of the same name come of failures and restarts, and those of other jobs of edits.
    """
    jobs = {
        document["metadata"]["name"]
        for document in recordings.documents(recording)
        if document["kind"] == "TrainJob" and not document["spec"].get("suspend")
    }
    found: dict[recordings.Identity, Any] = {}
    for request in recordings.requests(recording):
        body = request["body"]
        # The trainer applies PodGroups; the others create what they make.
        made = request["verb"] == "create" or body.get("kind") == "PodGroup"
        if made and request["code"] in (200, 201):
            if body["kind"] == "Pod":
                body = {**body, "metadata": {**body["metadata"], "name": body["spec"]["hostname"]}}
            if body["kind"] in KINDS:
                body = {key: value for key, value in body.items() if key != "status"}
                body["metadata"] = {"namespace": request["namespace"], **body["metadata"]}
                if body["kind"] == "Pod" and (
                    body["metadata"]["labels"][JOB] not in jobs
                    or is_beside_its_launcher(recording, body["metadata"]["name"])
                ):
                    continue
                found.setdefault(identity(body), body)
    return found


@functools.cache
def differences_of(recording: Path) -> tuple[Difference, ...]:
    rendered = [
        dict(value)
        for value in compiled(recording).objects
        if value["kind"] in KINDS and "etcompile.dev/job" in value["metadata"].get("labels", {})
    ]
    found = []
    for one in recordings.compared(created(recording), rendered):
        kind = re.sub(r"^Pod .*", "Pod", one.kind)
        if one.path.endswith(".command") and one.ours != "(absent)":
            assert one.upstream[1:-1] in one.ours, "the command itself is the same"
        found.append(Difference(kind, one.path, one.upstream, one.ours))
    return tuple(found)


def test_hostfiles_are_the_same() -> None:
    found = 0
    for recording in COMPILED:
        ours = {
            value["metadata"]["name"]: value.get("data", {})
            for value in compiled(recording).objects
        }
        for request in recordings.requests(recording):
            name = request["body"].get("metadata", {}).get("name", "")
            job = name.removesuffix("-mpi-hostfile")
            if name == job or request["verb"] != "apply" or f"{job}-etcompile" not in ours:
                continue
            lines = [
                line
                for line in request["body"]["data"]["hostfile"].splitlines()
                if not is_beside_its_launcher(recording, line.partition(".")[0])
            ]
            assert ours[f"{job}-etcompile"]["hostfile"].splitlines() == lines
            found += 1
    assert found or not CASES


def test_key_pairs_are_in_the_same_secrets() -> None:
    found = 0
    for recording in COMPILED:
        ours = {
            value["metadata"]["name"]: value
            for value in compiled(recording).objects
            if value["kind"] == "ConfigMap" and "job.yaml" in value["data"]
            for value in backend.generated(
                read_text(value["data"]["job.yaml"]).job, Settings().secret
            )
        }
        for request in recordings.requests(recording):
            body = request["body"]
            if request["verb"] == "apply" and body["metadata"]["name"] in ours:
                made = ours[body["metadata"]["name"]]
                assert (made["type"], made["immutable"]) == (body["type"], body["immutable"])
                found += 1
    assert found or not CASES


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
