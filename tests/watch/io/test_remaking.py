"""A Pod that is made again is the Pod that Git declares, byte for byte, whoever marks it."""

import json
from pathlib import Path

import pytest
from watched import training_job

from etcompile.compiler import Options, compile  # noqa: A004
from etcompile.model import PROFILES, Settings
from etcompile.stored import StoredJobError
from etcompile.watch.remaking import StoredRun
from etcompile.watch.tracking import Tracking

EXAMPLES = Path(__file__).parents[3] / "examples"
FOLDERS = sorted(path for path in EXAMPLES.glob("*/*") if path.is_dir())


def live(config: dict, namespace: str = "ml", **metadata) -> dict:
    """The job's ConfigMap as a cluster has it."""
    own = {"namespace": namespace, "uid": "u", "resourceVersion": "1"}
    return {**config, "metadata": {**own, **config["metadata"], **metadata}}


def made_again(run: StoredRun) -> dict[str, dict]:
    return {
        pod["metadata"]["name"]: pod
        for role in run.job.roles
        for member in role.members
        for _, pod in run.pods(role.name, [member.index])
    }


@pytest.mark.parametrize("profiles", [(), PROFILES], ids=["plain", "every-profile"])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_each_pod_of_each_example_can_be_made_again_alone(folder, profiles):
    found = compile([folder], Options(settings=Settings(profiles=profiles)))
    for group in found.groups:
        configs = [v for v in group.objects if v["kind"] == "ConfigMap" and "job.yaml" in v["data"]]
        for config in configs:
            run = StoredRun(live(config, group.namespace or "ml"))
            declared = {
                value["metadata"]["name"]: value
                for value in group.objects
                if value["kind"] == "Pod" or (value["kind"] == "Job" and not run.job.run.suspended)
            }
            again = made_again(run) if declared else {}
            for value in again.values():
                if group.namespace is None:
                    del value["metadata"]["namespace"]
            assert again == declared


def test_marks_of_a_tool_come_from_the_config_map_that_it_declares():
    (group,) = compile([training_job()], Options(namespace="ml")).groups
    config = next(value for value in group.objects if value["kind"] == "ConfigMap")
    marks = {"argocd.argoproj.io/tracking-id": "team_app:/ConfigMap:ml/bert-config"}
    labels = {"kustomize.toolkit.fluxcd.io/name": "ml", "somebody/else": "x"}
    labels |= config["metadata"]["labels"]
    run = StoredRun(live(config, annotations=marks, labels=labels))
    pod = made_again(run)["bert-worker-1"]["metadata"]
    tracked = pod["annotations"]["argocd.argoproj.io/tracking-id"]
    assert tracked == "team_app:/Pod:ml/bert-worker-1"
    assert pod["labels"]["kustomize.toolkit.fluxcd.io/name"] == "ml"
    assert "somebody/else" not in pod["labels"]
    assert run.tracking.synced


@pytest.mark.parametrize(
    ("metadata", "synced"),
    [
        ({}, False),
        ({"labels": {"app.kubernetes.io/managed-by": "etcompile"}}, False),
        ({"labels": {"applyset.kubernetes.io/part-of": "applyset-x-v1"}}, False),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "x"}}, True),
        ({"labels": {"kapp.k14s.io/app": "1"}}, True),
        ({"annotations": {"argocd.argoproj.io/tracking-id": "a:/ConfigMap:b/c"}}, True),
        ({"annotations": {"config.k8s.io/owning-inventory": "x"}}, True),
    ],
)
def test_who_brings_back_what_is_deleted_is_known_by_its_marks(metadata, synced):
    assert Tracking.of(metadata).synced is synced


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "a: b: c",
        "kind: StoredJob",
        "apiVersion: etcompile.dev/v1alpha1\nkind: StoredJob",
        json.dumps({"apiVersion": "etcompile.dev/v1alpha1", "kind": "StoredJob", "document": 7}),
    ],
)
def test_what_is_no_stored_job_is_an_error_of_its_own(text):
    config = {"metadata": {"name": "x-config"}, "data": {"job.yaml": text}}
    with pytest.raises(StoredJobError):
        StoredRun(live(config))
