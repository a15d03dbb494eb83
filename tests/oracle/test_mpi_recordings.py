"""What etcompile renders for both kinds of MPIJob, held against what their operators did.

A recording has moments: the start, and one after each edit of the job. At each of them the
objects that the operator has standing must equal what we render of the job as it is then, field
by field, but for the rows of docs/differences.md. What operators do about faults is the
watcher's work; what it needs to know for that must be in the stored job.
"""

import copy
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import etcompile
import operator_recordings
import recordings
from defaults import defaulted
from differences import ABSENT, Difference, compare, rows
from etcompile import Options, Settings, Severity
from etcompile.compiler.stored import read_stored
from etcompile.model import Job
from operator_recordings import Recording
from recordings import DIFFERENCES, Identity, identity, title, unlisted

OPERATORS = {"training-operator": "MPIJob of the Training Operator", "mpi-operator": "MPI Operator"}
"""The folder of an operator's recordings, and its heading in docs/differences.md."""

REFUSED = {
    "invalid-launcher-replicas": ["ET2007"],
    "invalid-mpi-implementation": ["ET2007"],
    "invalid-no-launcher": ["ET2002"],
    "invalid-restart-policy": ["ET2007", "ET2007"],
    "invalid-worker-replicas-missing": ["ET2002"],
}
"""Inputs that the operator refuses, mostly by an event that nobody sees (D15)."""

_JOB_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/")


class Moment(NamedTuple):
    """A job at some time, and the objects that the operator had standing then."""

    job: Mapping[str, Any]
    standing: Mapping[Identity, Any]


def cases(operator: str) -> list[Recording]:
    all_cases = operator_recordings.recordings(operator)
    return [case for case in all_cases if operator == "mpi-operator" or "mpijob" in case.name]


CASES = [(operator, case) for operator in OPERATORS for case in cases(operator)]
COMPARED = [(operator, case) for operator, case in CASES if case.name not in REFUSED]
REFUSED_CASES = [(operator, case) for operator, case in CASES if case.name in REFUSED]
RESTART = {"training-operator": "Never", "mpi-operator": "OnFailure"}
"""Restart policies of launchers that name none."""
LISTED = {operator: rows(DIFFERENCES, heading) for operator, heading in OPERATORS.items()}


def named(value: object) -> str:
    return value.name if isinstance(value, Recording) else ""


def moments(recording: Recording) -> Iterator[Moment]:
    """The start of a recording, and what it was after each edit."""
    requests = recording.requests
    jobs = [*recording.input(), *copy.deepcopy(recording.edits)]
    for number, (job, end) in enumerate(zip(jobs, recording.ends, strict=True)):
        job["metadata"].pop("namespace", None)
        done = requests if len(jobs) == 1 else [r for r in requests if r["n"] <= end]
        yield Moment(job, standing(done) if number else first_creations(done))


def first_creations(requests: Any) -> dict[Identity, Any]:
    """Each object as it was created first; later, it is created again after faults."""
    return recordings.creations(reversed(requests))


def standing(requests: Any) -> dict[Identity, Any]:
    """The objects that are left after requests, without what the API server adds to them."""
    left: dict[Identity, Any] = {}
    for request in requests:
        if request["verb"] == "delete":
            left.pop(("Pod", request["name"]), None)
        else:
            left[identity(request["body"])] = as_written(request["body"])
    return left


def as_written(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object as it was before a server and its controllers completed it."""
    written = dict(value)
    if value["kind"] == "Job":
        spec = {k: v for k, v in value["spec"].items() if k != "selector"}
        template = dict(spec["template"])
        labels = template["metadata"]["labels"].items()
        others = {k: v for k, v in labels if not k.startswith(_JOB_LABELS)}
        template["metadata"] = template["metadata"] | {"labels": others}
        written["spec"] = spec | {"template": template}
    return written


def rendered(
    job: Mapping[str, Any], space: str, settings: Settings | None = None
) -> dict[Identity, Any]:
    options = Options(namespace=space, settings=settings or Settings())
    compilation = etcompile.compile(job, options)
    assert compilation.ok, compilation.diagnostics
    return {identity(value): value for value in compilation.objects}


def stored(job: Mapping[str, Any], space: str) -> Job:
    config = rendered(job, space)["ConfigMap", f"{job['metadata']['name']}-config"]
    read, _ = read_stored(yaml.safe_load(config["data"]["job.yaml"]))
    return read


def differing(
    upstream: Mapping[Identity, Any], ours: Mapping[Identity, Any]
) -> Iterator[Difference]:
    """Where what stands differs from what we render."""
    for key, value in upstream.items():
        if key in ours:
            yield from compare(title(value), value, defaulted(ours[key]))
        else:
            yield Difference(title(value), "(object)", "(present)", ABSENT)
    for key, value in ours.items():
        if key not in upstream:
            yield Difference(title(value), "(object)", ABSENT, "(present)")


@functools.cache
def differences_of(recording: Recording) -> tuple[Difference, ...]:
    space, settings = recording.namespace, recordings.settings(recording)
    return tuple(
        difference
        for moment in moments(recording)
        for difference in differing(moment.standing, rendered(moment.job, space, settings))
    )


@pytest.mark.parametrize(("operator", "recording"), COMPARED, ids=named)
def test_objects_equal_what_the_operator_has_standing(operator: str, recording: Recording) -> None:
    assert not unlisted(differences_of(recording), LISTED[operator])


@pytest.mark.parametrize(("operator", "recording"), COMPARED, ids=named)
def test_the_stored_job_knows_what_the_operator_decides_by_later(
    operator: str, recording: Recording
) -> None:
    for moment in moments(recording):
        spec = moment.job["spec"]
        policy = spec.get("runPolicy", {})
        job = stored(moment.job, recording.namespace)
        assert job.run.suspended == policy.get("suspend", False)
        assert job.run.clean_pods == policy.get(
            "cleanPodPolicy", spec.get("cleanPodPolicy", "None")
        )
        assert job.run.backoff_limit == policy.get("backoffLimit")
        assert job.run.deadline == policy.get("activeDeadlineSeconds")
        assert job.run.ttl == policy.get("ttlSecondsAfterFinished")
        assert job.run.success.roles == ("launcher",)
        for name, default in (("Launcher", RESTART[operator]), ("Worker", "Never")):
            role = job.role(name.lower())
            replica = spec["mpiReplicaSpecs"][name]
            assert role is not None
            assert role.recovery.restart == replica.get("restartPolicy", default)
            assert len(role.members) == replica.get("replicas", 1)


def test_a_replaced_worker_is_the_one_that_the_operator_creates_again() -> None:
    # The operator's second creation of a worker that was gone equals its first one.
    [recording] = [case for _, case in COMPARED if case.name == "worker-failed"]
    [moment] = moments(recording)
    space = recording.namespace
    job = stored(moment.job, space)
    again = recordings.creations(recording.requests)
    assert job.credentials is not None
    name = f"{job.name}-worker-1"
    assert again["Pod", name] == moment.standing["Pod", name]
    assert rendered(job.document, space)["Pod", name] == rendered(moment.job, space)["Pod", name]


@pytest.mark.parametrize(("operator", "recording"), REFUSED_CASES, ids=named)
def test_input_that_the_operator_refuses_is_refused(
    operator: str, recording: Recording, tmp_path: Path
) -> None:
    compilation = etcompile.compile([recording.file(tmp_path)])
    errors = [d for d in compilation.diagnostics if d.severity is Severity.ERROR]
    assert [d.code for d in errors] == REFUSED[recording.name]
    assert all(d.location is not None and d.location.line for d in errors)
    assert not compilation.objects
