"""What etcompile renders, held against the model of et-operator, for shapes without recordings.

The model is first held against the recordings, so that it is not a second opinion of ours.
"""

import copy
import functools
from typing import Any

import pytest

import etcompile
import recordings
import test_et_operator_recordings as recorded
from differences import ABSENT, Difference, compare
from etcompile import Options
from operator_recordings import Recording
from specs import container, launcher, training_job, worker
from upstream import children

PLAIN = [case for case in recorded.COMPARED if case.name not in recorded.CUT_SHORT]


@pytest.mark.parametrize("recording", PLAIN, ids=lambda path: path.name)
def test_the_model_is_what_was_recorded(recording: Recording) -> None:
    first = copy.deepcopy(recordings.creations(reversed(recording.requests)))
    [job] = [d for d in recorded.documents(recording) if d["kind"] == "TrainingJob"]
    modelled = children(job, recording.namespace, recording.init_image or "alpine:3.10")
    for value in modelled:
        if recorded.identity(value) in first:
            body = first[recorded.identity(value)]
            body["metadata"].pop("ownerReferences")
            assert value == body
    others = {key for key in first if key[0] != "Secret" and "-worker-" not in key[1]}
    assert others <= {recorded.identity(value) for value in modelled}


def full(**spec: Any) -> dict[str, Any]:
    """A job whose templates have a bit of everything."""
    job = training_job(replicas=3, slotsPerWorker=2, **spec)
    for role in (launcher(job), worker(job)):
        template = role["template"]
        template["metadata"] = {
            "labels": {"team": "nlp", "training-job-role": "mine"},
            "annotations": {"sidecar.istio.io/inject": "false"},
        }
        template["spec"].update(
            initContainers=[container("download", args=["model"])],
            volumes=[{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "3072Mi"}}],
            nodeSelector={"pool": "gpu"},
            tolerations=[{"key": "gpu", "operator": "Exists"}],
            priorityClassName="high",
            imagePullSecrets=[{"name": "registry"}],
            terminationGracePeriodSeconds=5,
            hostNetwork=False,
        )
        main = template["spec"]["containers"][0]
        main["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]
        main["env"] = [{"name": "A", "value": "1"}, {"name": "B", "value": "$(A)"}]
        main["resources"] = {"limits": {"cpu": "0.5", "memory": "1024Mi"}}
        template["spec"]["containers"].append(container("sidecar", image="sidecar"))
    return job


def with_account(job: dict[str, Any]) -> dict[str, Any]:
    launcher(job)["template"]["spec"]["serviceAccountName"] = "trainer"
    return job


def with_agent(job: dict[str, Any]) -> dict[str, Any]:
    trainer = launcher(job)["template"]["spec"]["containers"][0]
    trainer["env"] = [{"name": "OMPI_MCA_plm_rsh_agent", "value": "/mine.sh"}]
    return job


def as_user(job: dict[str, Any]) -> dict[str, Any]:
    for role in (launcher(job), worker(job)):
        main = role["template"]["spec"]["containers"][0]
        main["securityContext"] = {"runAsUser": 1000}
    job["metadata"]["annotations"] = {"etcompile.dev/ssh-mount-path": "/home/mpi/.ssh"}
    return job


def named_secret(job: dict[str, Any]) -> dict[str, Any]:
    job["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": "team-key"}
    return job


def with_command(job: dict[str, Any]) -> dict[str, Any]:
    worker(job)["template"]["spec"]["containers"][0]["command"] = ["/start-sshd"]
    del launcher(job)["template"]["spec"]["containers"][0]["command"]
    return job


def pulled(policy: str, job: dict[str, Any]) -> dict[str, Any]:
    for role in (launcher(job), worker(job)):
        role["template"]["spec"]["containers"][0]["imagePullPolicy"] = policy
    return job


SHAPES = {
    "full ssh": full(),
    "full kubexec": full(launcherAttachMode="kubexec"),
    "no mode": training_job(launcherAttachMode=""),
    "own account": with_account(training_job(launcherAttachMode="kubexec")),
    "own account ssh": with_account(training_job()),
    "own agent": with_agent(training_job(launcherAttachMode="kubexec")),
    "non-root kubexec": as_user(training_job(launcherAttachMode="kubexec")),
    "non-root ssh": as_user(training_job()),
    "named secret": named_secret(full()),
    "own command": with_command(training_job()),
    "always pull": pulled("Always", training_job()),
    "never pull": pulled("Never", training_job(launcherAttachMode="kubexec")),
}


def differences_of(job: dict[str, Any]) -> list[Difference]:
    compilation = etcompile.compile(job, Options(namespace="ml"))
    assert compilation.ok, compilation.diagnostics
    ours = {recorded.identity(value): value for value in compilation.objects}
    all_differences: list[Difference] = []
    for theirs in children(job, "ml"):
        mine = ours.pop(recorded.identity(theirs), None)
        if mine is None:
            all_differences.append(
                Difference(recorded.title(theirs), "(object)", "(present)", ABSENT)
            )
        else:
            all_differences += compare(recorded.title(theirs), theirs, recorded.defaulted(mine))
    assert not ours
    return all_differences


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_without_a_recording_differs_only_as_listed(shape: str) -> None:
    missing = recordings.unlisted(differences_of(SHAPES[shape]), recorded.LISTED)
    assert not missing, missing


@pytest.mark.parametrize("row", recorded.LISTED, ids=lambda row: f"{row.kind} {row.path}")
def test_each_listed_difference_occurs(row: Any) -> None:
    assert any(row.lists(difference) for difference in everywhere()), (
        "docs/differences.md lists a difference that does not occur any more"
    )


@functools.cache
def everywhere() -> frozenset[Difference]:
    occurring = {one for case in recorded.COMPARED for one in recorded.differences_of(case)}
    return frozenset(occurring.union(*map(differences_of, SHAPES.values())))
