"""`etcompile migrate --from-cluster`, against a real API server that serves the custom resource."""

import subprocess
import sys
import time
from pathlib import Path
from urllib.error import HTTPError

import pytest
import yaml

import etcompile
from definitions import definition
from specs import elastic_job, scale_out, scale_plan, training_job

GROUP, DLROVER = "kai.alibabacloud.com", "elastic.iml.github.io"


SERVED = {GROUP: ("TrainingJob", "ScaleOut", "ScaleIn"), DLROVER: ("ElasticJob", "ScalePlan")}


@pytest.fixture
def served(control_plane) -> None:
    """The custom resources of et-operator and DLRover, served."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    for group, kinds in SERVED.items():
        for kind in kinds:
            try:
                status = {"subresources": {"status": {}}}
                control_plane.ask("POST", path, definition(group, kind, "v1alpha1", **status))
            except HTTPError as error:
                if error.code != 409:
                    raise
    ends = time.monotonic() + 30
    for group, kinds in SERVED.items():
        while not {f"{kind.lower()}s" for kind in kinds} <= _resources(control_plane, group):
            if time.monotonic() > ends:
                pytest.fail("the custom resources are not served")
            time.sleep(0.2)


def _resources(control_plane, group: str) -> set[str]:
    try:
        listed = control_plane.ask("GET", f"/apis/{group}/v1alpha1")["resources"]
    except HTTPError:
        return set()
    return {one["name"] for one in listed}


def migrate(kubeconfig: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "etcompile", "migrate", "--kubeconfig", str(kubeconfig)]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        check=False,
        timeout=60,
        encoding="utf-8",
    )


def test_a_job_is_read_with_its_intents_and_objects(
    control_plane, namespace, served, tmp_path
) -> None:
    resources = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}"
    job = control_plane.ask("POST", f"{resources}/trainingjobs", training_job())
    path = f"{resources}/trainingjobs/mnist"
    workers = [f"mnist-worker-{index}" for index in range(3)]
    control_plane.set_status(path, {"phase": "Running", "targetWorkers": workers})
    control_plane.ask("POST", f"{resources}/scaleouts", scale_out("more", 1))
    for name, owned in (("mnist-config", True), ("of-somebody-else", False)):
        owner = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": "TrainingJob",
            "name": "mnist",
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": name, "ownerReferences": [owner] if owned else []}
        body = {"metadata": metadata, "data": {"hostfile": ""}}
        control_plane.ask("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    kubeconfig = control_plane.kubeconfig(namespace=namespace)
    folder = tmp_path / "job"

    done = migrate(kubeconfig, "--from-cluster", "trainingjob/mnist", "-d", folder)

    assert done.returncode == 0, done.stderr
    documents = [*yaml.safe_load_all((folder / "mnist.yaml").read_text())]
    assert [one["kind"] for one in documents] == ["TrainingJob"]
    assert documents[0]["spec"] == training_job()["spec"]
    header = (folder / "mnist.yaml").read_text()
    assert "from cluster test: without its status" in header
    assert "<python>" not in header + done.stderr
    text = (folder / "HANDOVER.md").read_text()
    assert "| ConfigMap mnist-config |" in text
    assert "of-somebody-else" not in text
    options = etcompile.Options(overlays=(str(folder),))
    compiled = etcompile.compile([str(folder)], options)
    pods = [one for one in compiled.objects if one["kind"] == "Pod"]
    assert [
        one["metadata"]["name"] for one in pods if "worker" in one["metadata"]["name"]
    ] == workers


def test_elasticjob_is_read_with_the_plans_that_name_it(
    control_plane, namespace, served, tmp_path
) -> None:
    resources = f"/apis/{DLROVER}/v1alpha1/namespaces/{namespace}"
    job = elastic_job({"worker": 2})
    job["metadata"]["namespace"] = namespace
    control_plane.ask("POST", f"{resources}/elasticjobs", job)
    by_owner = scale_plan("by-owner", ownerJob="mnist")
    del by_owner["metadata"]["labels"]
    for plan in (scale_plan("by-label"), by_owner, scale_plan("of-another", job="bert")):
        plan["metadata"]["namespace"] = namespace
        control_plane.ask("POST", f"{resources}/scaleplans", plan)
    kubeconfig = control_plane.kubeconfig(namespace=namespace)
    folder = tmp_path / "job"

    done = migrate(kubeconfig, "--from-cluster", "elasticjob/mnist", "-d", folder)

    assert done.returncode == 0, done.stderr
    text = (folder / "HANDOVER.md").read_text()
    assert f"scaleplan.{DLROVER}/by-label" in text
    assert f"scaleplan.{DLROVER}/by-owner" in text
    assert "of-another" not in text


def test_missing_job_in_the_cluster_is_reported(control_plane, namespace, served) -> None:
    kubeconfig = control_plane.kubeconfig(namespace=namespace)
    done = migrate(kubeconfig, "--from-cluster", "trainingjob/mnist")
    assert done.returncode == 2
    assert "there is no TrainingJob 'mnist'" in done.stderr


def test_unknown_kind_is_reported(tmp_path) -> None:
    path = tmp_path / "kubeconfig"
    server = {"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    config = {"clusters": [server], "contexts": [context], "current-context": "c", "users": users}
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", **config}))
    done = migrate(path, "--from-cluster", "sparkjob/mnist")
    assert done.returncode == 2
    assert "is not KIND/NAME of one of" in done.stderr
