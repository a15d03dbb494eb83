"""What etcompile renders, held against what the real Training Operator created, MPIJob aside.

The first creation is compared with a render of the input, what an edit brought with a render of
the edited job. What came of a fault is the watcher's work: there, the job that it will read must
say what the recording's input says.
"""

import copy
import functools
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
import operator_recordings
import recordings
import training_operator
from differences import Difference, rows
from etcompile import Options
from etcompile.compiler.stored import read_stored
from etcompile.model import Job, Success
from operator_recordings import Recording
from recordings import DIFFERENCES, creations, identity, unlisted

OPERATOR = "training-operator"
KINDS = {f"{name}Job" for name in ("TF", "PyTorch", "XGBoost", "Paddle", "JAX", "MX")}

REFUSED = {
    "mxjob-tune": {"ET2001"},
    "refused-jax-no-image": {"ET4002"},
    "refused-paddle-unknown-type": {"ET2001"},
    "refused-pytorch-no-container-name": {"ET2062"},
    "refused-pytorch-two-masters": {"ET2007"},
    "refused-tfjob-bad-name": {"ET2020"},
    "refused-tfjob-chief-and-master": {"ET2063"},
    "refused-xgboost-no-master": {"ET2002"},
    "tfjob-managed-by-other": {"ET2060"},
    "xgboost-v1alpha1-rabit": {"ET2001"},
}
"""Inputs that kubectl, the API server or a webhook refuses or the operator passes over, and the
error that says so."""

PRUNED = {
    "mxjob-tune": (("mxReplicaSpecs", "TunerServer", "label"),),
    "xgboost-v1alpha1-rabit": tuple(
        ("xgbReplicaSpecs", role, "template", field)
        for role in ("Master", "Worker")
        for field in ("apiVersion", "kind")
    ),
}
"""Fields that kubectl refused and the API server dropped when asked not to check."""

SIDECARS_TOO = "etcompile.dev/sidecar-env"
_WRAPPERS = ("run-once.sh", "until-done.sh")


def documents(recording: Recording) -> list[Any]:
    """The input, as the operator saw it."""
    values = recording.input()
    for *path, field in PRUNED.get(recording.name, ()):
        values[-1]["spec"] = copy.deepcopy(values[-1]["spec"])
        functools.reduce(lambda value, step: value[step], path, values[-1]["spec"]).pop(field)
    return values


def job_of(values: list[Any]) -> Any:
    [job] = [value for value in values if value["kind"] in KINDS]
    return job


def compiled(recording: Recording, values: list[Any]) -> etcompile.Compilation:
    options = Options(namespace=recording.name, settings=recordings.settings(recording))
    compilation = etcompile.compile(values, options)
    assert compilation.ok, compilation.diagnostics
    return compilation


def of_the_job(compilation: etcompile.Compilation) -> list[Any]:
    """The objects that were rendered, without those that the input already has."""
    [group] = [group for group in compilation.groups if group.name]
    return list(group.objects)


def differences(job: Any, created: Any, rendered: list[Any]) -> Iterator[Difference]:
    """The differences of a job's objects, those of Pods with the job's kind.

    The order of a Service's ports differs from one run of the operator to the next.
    """
    kind = job["kind"]
    sides = copy.deepcopy([{identity(v): v for v in side} for side in (created, rendered)])
    for side in sides:
        for value in side.values():
            if value["kind"] == "Service":
                value["spec"].get("ports", []).sort(
                    key=lambda port: (port["port"], port.get("name", ""))
                )
    for one in recordings.compared(sides[0], sides[1].values()):
        if one.path.endswith(".command") and one.path.startswith("spec.containers"):
            assert without_wrapper(one.ours) == json.loads(one.upstream)
        if one.kind.startswith("Pod "):
            path = one.path.replace("spec.containers[", f"spec.{sidecar_or_not(job, one.path)}[")
            yield Difference(f"{kind} {one.kind}", path, one.upstream, one.ours)
        else:
            yield one


def sidecar_or_not(job: Any, path: str) -> str:
    """`sidecars` for a path of a container that the job's variables are not meant for."""
    annotations = job["metadata"].get("annotations", {})
    is_main = path.startswith(f"spec.containers[{training_operator.KINDS[job['kind']][1]}]")
    return "containers" if is_main or SIDECARS_TOO in annotations else "sidecars"


def without_wrapper(command: str) -> list[str]:
    """A command as it is run in the end."""
    shell, script, *words = json.loads(command)
    if script == "/etc/etcompile/scripts/wait-for-workers.sh":
        shell, script, *words = words
    assert shell == "sh"
    assert script in [f"/etc/etcompile/scripts/{name}" for name in _WRAPPERS]
    return words


@functools.cache
def differences_of(recording: Recording) -> tuple[Difference, ...]:
    """The differences of the first creation, and of what each edit brought."""
    values = documents(recording)
    first, *edited = stages(recording)
    all_differences = [*differences(job_of(values), first, of_the_job(compiled(recording, values)))]
    for edit, brought in zip(recording.edits, edited, strict=True):
        rendered = of_the_job(compiled(recording, with_edit(values, edit)))
        # What was there before the edit stays as it is, with the operator and with us.
        names = {identity(body) for body in brought}
        mine = [value for value in rendered if identity(value) in names]
        all_differences += differences(job_of(values), brought, mine)
    return tuple(all_differences)


def with_edit(values: list[Any], edit: Any) -> list[Any]:
    job = copy.deepcopy(edit)
    job["metadata"].pop("namespace")
    job.pop("status", None)
    return [job if value["kind"] in KINDS else value for value in values]


def stages(recording: Recording) -> list[list[Any]]:
    """What the operator created before the first edit, then after each.

    Of an object that was created several times, the first: the others came of a fault. What it
    created beyond `replicas` and deleted again (defect 47) is not counted.
    """
    cuts = [0, *recording.ends]
    wanted = [None, *(live(requests(recording, 0, end)) for end in cuts[2:])]
    created = [creations(reversed(requests(recording, a, b))) for a, b in itertools.pairwise(cuts)]
    return [
        [body for key, body in bodies.items() if stay is None or key in stay]
        for bodies, stay in zip(created, wanted, strict=True)
    ]


def requests(recording: Recording, after: int, until: int) -> list[Any]:
    return [request for request in recording.requests if after < request["n"] <= until]


def live(requests: Any) -> set[recordings.Identity]:
    kinds = {"pods": "Pod", "services": "Service"}
    keys = set()
    for request in requests:
        key = kinds.get(request["resource"], ""), request["name"]
        if request["verb"] == "create":
            keys.add(key)
        elif request["verb"] == "delete":
            keys.discard(key)
    return {key for key in keys if key[0]}


CASES = [case for case in operator_recordings.recordings(OPERATOR) if "mpijob" not in case.name]
CREATED = [case for case in CASES if case.name not in REFUSED or case.name in PRUNED]
EDITED = [case for case in CREATED if case.edits]
ELASTIC = [case for case in EDITED if "elastic" in case.name or "dynamic" in case.name]
PLAIN = [case for case in CREATED if not case.name.startswith("gang-")]
"""Those that ran with the operator's default flags."""
LISTED = rows(DIFFERENCES, "Training Operator")


def names(cases: list[Recording]) -> Any:
    return pytest.mark.parametrize("recording", cases, ids=lambda path: path.name)


@names(CREATED)
def test_objects_equal_what_the_operator_created(recording: Recording) -> None:
    missing = unlisted(differences_of(recording), LISTED)
    assert not missing, missing


@names([case for case in CASES if case.name in REFUSED])
def test_what_the_operator_does_not_run_is_refused(recording: Recording, tmp_path: Path) -> None:
    compilation = etcompile.compile([recording.file(tmp_path)])
    errors = {d.code for d in compilation.diagnostics if d.severity is etcompile.Severity.ERROR}
    assert errors == REFUSED[recording.name]
    assert not compilation.objects


@names(EDITED)
def test_after_an_edit_the_same_replicas_are_there(recording: Recording) -> None:
    for edit, end in zip(recording.edits, recording.ends[1:], strict=True):
        rendered = of_the_job(compiled(recording, with_edit(documents(recording), edit)))
        replicas = {identity(value) for value in rendered if value["kind"] in ("Pod", "Service")}
        assert replicas == live(requests(recording, 0, end))


@names(ELASTIC)
def test_an_edit_of_an_elastic_type_leaves_running_pods_alone(recording: Recording) -> None:
    before = compiled(recording, documents(recording))
    assert any(role.bounds for role in stored_job(before).roles)
    pods = {identity(one): one for one in of_the_job(before) if one["kind"] == "Pod"}
    for edit in recording.edits:
        for value in of_the_job(compiled(recording, with_edit(documents(recording), edit))):
            assert pods.setdefault(identity(value), value) == value or value["kind"] != "Pod"


def stored_job(compilation: etcompile.Compilation) -> Job:
    [text] = [v["data"]["job.yaml"] for v in compilation.objects if v["kind"] == "ConfigMap"]
    return read_stored(yaml.safe_load(text))[0]


@names(CREATED)
def test_the_stored_job_says_what_the_watcher_will_need(recording: Recording) -> None:
    values = documents(recording)
    job_value, job = job_of(values), stored_job(compiled(recording, values))
    policy = job_value["spec"].get("runPolicy", {})
    assert job.run.deadline == policy.get("activeDeadlineSeconds")
    assert job.run.ttl == policy.get("ttlSecondsAfterFinished")
    assert job.run.backoff_limit == policy.get("backoffLimit")
    assert job.run.clean_pods == policy.get("cleanPodPolicy", "None")
    assert job.run.suspended == policy.get("suspend", False)
    assert job.run.success == Success(*training_operator.deciding(job_value))
    restarts = {role.name: role.recovery.restart for role in job.roles}
    assert restarts == training_operator.restart_policies(job_value)
    replicas = {role.name: len(role.members) for role in job.roles}
    assert replicas == training_operator.replicas(job_value)


@names(PLAIN)
def test_the_model_is_what_was_recorded(recording: Recording) -> None:
    """The model of the operator, so that it is not a second opinion of ours."""
    first, *edited = stages(recording)
    values = documents(recording)
    job = job_of(values)
    if not job["spec"].get("runPolicy", {}).get("suspend"):
        assert by_identity(training_operator.children(job, recording.name)) == by_identity(first)
    for edit, brought in zip(recording.edits, edited, strict=True):
        modelled = training_operator.children(edit, recording.name)
        assert by_identity(brought).items() <= by_identity(modelled).items()


def by_identity(bodies: list[Any]) -> dict[recordings.Identity, Any]:
    """The objects without what differs from run to run."""
    result = {}
    for body in copy.deepcopy(bodies):
        body["metadata"].pop("ownerReferences", None)
        if body["kind"] == "Service":
            body["spec"]["ports"].sort(key=lambda port: port.get("name", ""))
        result[identity(body)] = body
    return result
