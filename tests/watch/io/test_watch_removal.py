"""What is left of a job when its ttlSecondsAfterFinished is over."""

import contextlib
import time

import pytest
from watched import eventually

from etcompile.integrations.watcher_manifests import NAME
from specs import kubeflow_job
from world import mpi_job

KINDS = (
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "ServiceAccount"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("batch/v1", "Job"),
)
JOB = "etcompile.dev/job"


def torch(**policy) -> dict:
    policy = {"ttlSecondsAfterFinished": 1, **policy}
    return kubeflow_job("PyTorchJob", {"Master": 1, "Worker": 2}, runPolicy=policy)


def left(place) -> set[tuple[str, str]]:
    names = set()
    for version, kind in KINDS:
        for one in place.cluster.list(place.cluster.resource(version, kind), place.namespace).items:
            name = one["metadata"]["name"]
            if NAME not in name and name not in ("kube-root-ca.crt", "default"):
                names.add((kind, name))
    return names


def messages(place) -> list[str]:
    return [event["message"] for event in place.events_of("NotRemoved")]


def foreign(place) -> set[tuple[str, str]]:
    """Objects of people, as like to the job's as they may be."""
    service = {"spec": {"ports": [{"port": 1}]}}
    objects = (
        ("Service", "mnist-worker-9", {JOB: "mnist"}, service),
        ("ConfigMap", "mnist-etcompile-of-mine", {JOB: "mnist"}, {}),
        ("Secret", "mnist-token", {JOB: "mnist"}, {}),
        ("ConfigMap", "other-config", {JOB: "other"}, {}),
    )
    for kind, name, labels, more in objects:
        metadata = {"name": name, "namespace": place.namespace, "labels": labels}
        place.cluster.create({"apiVersion": "v1", "kind": kind, "metadata": metadata, **more})
    return {(kind, name) for kind, name, _, _ in objects}


def test_expired_job_goes_with_its_objects_and_nothing_of_others(place, watching):
    watching(rights=["removal"])
    others = foreign(place)
    place.kubelets()
    place.submit(torch())
    eventually(lambda: place.phase("mnist") == "Running")
    place.becomes("mnist-master-0", "Succeeded", 0)
    eventually(lambda: left(place) == others)
    codes = [
        event["responseStatus"]["code"]
        for event in place.plane.audit(place.namespace)
        if NAME in event["user"]["username"]
    ]
    assert 403 not in codes
    deletes = [one for one in place.writes(NAME) if one[:2] == ("delete", "services")]
    assert len(deletes) == len(set(deletes)) == 3


def test_expired_mpi_job_goes_with_its_rights_and_key_pair(place, watching):
    watching(rights=["removal"])
    place.kubelets()
    place.submit(mpi_job(runPolicy={"ttlSecondsAfterFinished": 1, "cleanPodPolicy": "None"}))
    with contextlib.suppress(AssertionError):
        eventually(lambda: place.phase("mnist") == "Running")
    assert {kind for kind, _ in left(place)} >= {"Role", "RoleBinding", "ServiceAccount"}
    place.becomes("mnist-launcher", "Succeeded", 0)
    eventually(lambda: left(place) == set())


@pytest.mark.parametrize("whose", ["its own", "somebody's"])
def test_expired_job_goes_with_a_generated_key_pair_but_not_the_users(place, watching, whose):
    secret = {"name": "mnist-ssh", "namespace": place.namespace}
    if whose == "somebody's":
        place.cluster.create({"apiVersion": "v1", "kind": "Secret", "metadata": secret})
    watching(rights=["removal"])
    place.submit(mpi_job(version="v2beta1", runPolicy={"ttlSecondsAfterFinished": 1}))
    eventually(lambda: ("Secret", "mnist-ssh") in left(place))
    place.kubelets()
    jobs = place.cluster.resource("batch/v1", "Job")
    done = [{"type": kind, "status": "True"} for kind in ("SuccessCriteriaMet", "Complete")]
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    status = {"conditions": done, "completionTime": now, "startTime": now, "succeeded": 1}
    place.cluster.patch(
        jobs, "mnist-launcher", {"status": status}, place.namespace, subresource="status"
    )
    stays = {("Secret", "mnist-ssh")} if whose == "somebody's" else set()
    eventually(lambda: left(place) == stays)


@pytest.mark.parametrize("how", ["git", "annotation", "rights"])
def test_expired_job_that_may_not_be_removed_stays_and_is_reported_once(place, watching, how):
    def marks(value: dict) -> None:
        metadata = value["metadata"]
        if how == "git":
            metadata.setdefault("labels", {})["kustomize.toolkit.fluxcd.io/name"] = "jobs"
        if how == "annotation":
            metadata.setdefault("annotations", {})["etcompile.dev/prevent-destroy"] = "true"

    watching(rights=[] if how == "rights" else ["removal"])
    place.kubelets()
    place.submit(torch(), marks=marks)
    eventually(lambda: place.phase("mnist") == "Running")
    place.becomes("mnist-master-0", "Succeeded", 0)
    [message] = eventually(lambda: messages(place))
    time.sleep(2)
    assert len(messages(place)) == 1
    assert ("ConfigMap", "mnist-etcompile") in left(place)
    assert ("Service", "mnist-master-0") in left(place)
    words = {
        "git": "ttlSecondsAfterFinished has no effect",
        "annotation": "mnist-etcompile has an annotation that forbids it",
        "rights": "services",
    }
    assert words[how] in message
    assert (("Pod", "mnist-master-0") in left(place)) == (how == "git")
