"""What etcompile renders of TrainJobs, held against what Kubeflow Trainer and JobSet created.

What the trainer applies, a JobSet, is compared with the merged document that Pods are made of; what
the Job controller creates, Pods, and JobSet's Service, with the objects.
"""

import functools
import re
from typing import Any

import pytest
import yaml

import etcompile
import operator_recordings
import recordings
from differences import Difference, rows
from etcompile import Options, Settings, backend
from etcompile.compiler.stored import read_text
from etcompile.diagnostics import has_errors
from operator_recordings import Recording
from recordings import DIFFERENCES, ROOT, identity, unlisted

OPERATOR = "trainer-v2"
LISTED = rows(DIFFERENCES, "Kubeflow Trainer")
CASES = operator_recordings.recordings(OPERATOR)
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
def compiled(recording: Recording) -> etcompile.Compilation:
    options = Options(namespace=recording.name, settings=Settings(gang=scheduler(recording)))
    return etcompile.compile(recording.input(), options)


def scheduler(recording: Recording) -> Any:
    """The gang scheduler that a runtime of the input names; `none` if none does."""
    for document in recording.documents:
        for name in document.get("spec", {}).get("podGroupPolicy", {}):
            return name
    return "none"


COMPILED = [case for case in CASES if compiled(case).ok]
RUNNING = [
    case
    for case in COMPILED
    if any(r["body"]["kind"] == "Pod" for r in case.requests if r["verb"] == "create")
]


def names(cases: list[Recording]) -> Any:
    return pytest.mark.parametrize("recording", cases, ids=lambda path: path.name)


KINDS = ("Pod", "Service", "PersistentVolumeClaim", "PodGroup")
"""What three controllers made in the end."""
JOB = "jobset.sigs.k8s.io/jobset-name"


def shares_pod_of_launcher(recording: Recording, name: str) -> bool:
    """Whether a Pod is a node that Trainer makes for a job of one node, the launcher (T3)."""
    alone = (
        document["metadata"]["name"]
        for document in recording.documents
        if document["kind"] == "TrainJob"
        and document["spec"].get("trainer", {}).get("numNodes") == 1
    )
    ours = {value["metadata"]["name"] for value in compiled(recording).objects}
    return any(
        name == f"{job}-node-0-0" and f"{job}-launcher-0-0" in ours and name not in ours
        for job in alone
    )


def created(recording: Recording) -> dict[recordings.Identity, Any]:
    """Pods, Services and claims as they were first created, Pods by the names of their hosts.

    Later ones of the same name come of failures and restarts, and those of other jobs of edits.
    """
    jobs = {
        document["metadata"]["name"]
        for document in recording.documents
        if document["kind"] == "TrainJob" and not document["spec"].get("suspend")
    }
    by_identity: dict[recordings.Identity, Any] = {}
    for request in recording.requests:
        if request["verb"] == "delete":
            continue
        body = request["body"]
        # The trainer applies PodGroups; the others create what they make.
        if request["verb"] == "create" or body["kind"] == "PodGroup":
            if body["kind"] == "Pod":
                body = {**body, "metadata": {**body["metadata"], "name": body["spec"]["hostname"]}}
            if body["kind"] in KINDS:
                if body["kind"] == "Pod" and (
                    body["metadata"]["labels"][JOB] not in jobs
                    or shares_pod_of_launcher(recording, body["metadata"]["name"])
                ):
                    continue
                by_identity.setdefault(identity(body), body)
    return by_identity


@functools.cache
def differences_of(recording: Recording) -> tuple[Difference, ...]:
    rendered = [
        dict(value)
        for value in compiled(recording).objects
        if value["kind"] in KINDS and "etcompile.dev/job" in value["metadata"].get("labels", {})
    ]
    all_differences = []
    for one in recordings.compared(created(recording), rendered):
        kind = re.sub(r"^Pod .*", "Pod", one.kind)
        if one.path.endswith(".command") and one.ours != "(absent)":
            assert one.upstream[1:-1] in one.ours, "the command itself is the same"
        all_differences.append(Difference(kind, one.path, one.upstream, one.ours))
    return tuple(all_differences)


def test_hostfiles_are_the_same() -> None:
    count = 0
    for recording in COMPILED:
        ours = {
            value["metadata"]["name"]: value.get("data", {})
            for value in compiled(recording).objects
        }
        for request in recording.requests:
            name = request["name"]
            job = name.removesuffix("-mpi-hostfile")
            if name == job or request["verb"] != "apply" or f"{job}-etcompile" not in ours:
                continue
            lines = [
                line
                for line in request["body"]["data"]["hostfile"].splitlines()
                if not shares_pod_of_launcher(recording, line.partition(".")[0])
            ]
            assert ours[f"{job}-etcompile"]["hostfile"].splitlines() == lines
            count += 1
    assert count


def test_key_pairs_are_in_the_same_secrets() -> None:
    count = 0
    for recording in COMPILED:
        ours = {
            value["metadata"]["name"]: value
            for value in compiled(recording).objects
            if value["kind"] == "ConfigMap" and "job.yaml" in value["data"]
            for value in backend.generated(
                read_text(value["data"]["job.yaml"]).job, Settings().secret
            )
        }
        for request in recording.requests:
            if request["verb"] == "apply" and request["name"] in ours:
                body, secret = request["body"], ours[request["name"]]
                assert (secret["type"], secret["immutable"]) == (body["type"], body["immutable"])
                count += 1
    assert count


def test_shipped_runtimes_match_the_recorded_installed_runtimes() -> None:
    file = ROOT / "schemas" / "trainer" / "runtimes.yaml"
    ours = {one["metadata"]["name"]: one["spec"] for one in yaml.safe_load_all(file.read_text())}
    theirs = {
        one["metadata"]["name"]: one["spec"] for one in operator_recordings.trainer_runtimes()
    }
    assert ours == theirs


@names(RUNNING)
def test_every_difference_is_listed(recording: Recording) -> None:
    text = unlisted(differences_of(recording), LISTED)
    assert text == "", text


def test_every_listed_difference_occurs() -> None:
    occurring = [difference for case in RUNNING for difference in differences_of(case)]
    idle = [row for row in LISTED if not any(map(row.lists, occurring))]
    assert idle == []


@names(CASES)
def test_an_input_compiles_or_is_refused_by_name(recording: Recording) -> None:
    codes = {one.code for one in compiled(recording).diagnostics if has_errors([one])}
    if recording.name in REFUSED:
        assert codes >= REFUSED[recording.name]
    elif not compiled(recording).ok:
        assert codes & {*NOT_COMPILED, "ET5006", "ET2008"}, codes
