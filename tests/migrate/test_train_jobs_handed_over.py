"""Hand-overs of TrainJobs: with the runtime that Trainer noted, and as a run that begins anew."""

import copy
from typing import Any

import pytest
from dumps import documents, dumped, handed_over, migration, put, rendered_in

import etcompile
import operator_recordings
from etcompile.compiler.choices import Options
from etcompile.kubeapi import connect
from operator_recordings import recordings, trainer_runtimes

RECORDINGS = {recording.name: recording for recording in recordings("trainer-v2")}
CASES = [
    (recording, moment)
    for recording in RECORDINGS.values()
    for moment, objects in recording.objects.items()
    if any(one["kind"] == "TrainJob" for one in objects)
]


def running() -> list[dict[str, Any]]:
    """What stood in the cluster while the job of several nodes ran."""
    return copy.deepcopy(RECORDINGS["torch-multi-node"].objects["objects-running"])


@pytest.mark.parametrize(
    ("recording", "moment"),
    CASES,
    ids=[f"{recording.name}-{moment}" for recording, moment in CASES],
)
def test_what_stands_in_a_cluster_migrates_to_what_its_files_compile_to(
    recording, moment, tmp_path
):
    lives = recording.objects[moment]
    result = handed_over(lives, tmp_path)
    namespace = next(one["metadata"]["namespace"] for one in lives if one["kind"] == "TrainJob")
    ours = [one for one in recording.input() if one["apiVersion"].startswith("trainer.")]
    # What the cluster had, with all its labels.
    runtimes = operator_recordings.written(trainer_runtimes(), tmp_path / "runtimes.yaml")
    there = (str(runtimes),)
    expected = etcompile.compile(ours, Options(default_namespace=namespace, runtimes=there))
    if not expected.ok:
        assert not result.files
        return
    assert result.files, [one.message for one in result.diagnostics]
    again = etcompile.compile([str(put(result, tmp_path / "migrated"))])
    assert again.ok
    assert sorted(map(_named, again.objects)) == sorted(map(_named, expected.objects))
    assert _pods(again) == _pods(expected)


def _named(value: Any) -> tuple[str, str]:
    return value["kind"], value["metadata"]["name"]


def _pods(compilation: etcompile.Compilation) -> dict[str, Any]:
    pods = [one for one in compilation.objects if _is_pod(one)]
    return {one["metadata"]["name"]: _amounts_as_texts(one["spec"]) for one in pods}


def _amounts_as_texts(spec: Any) -> Any:
    """A Pod's spec with quantities as the API server stores them: 4 is "4"."""
    copied = copy.deepcopy(spec)
    for one in (*copied["containers"], *copied.get("initContainers", ())):
        for part in ("limits", "requests"):
            amounts = one.get("resources", {}).get(part)
            if amounts:
                one["resources"][part] = {key: str(value) for key, value in amounts.items()}
    return copied


def _is_pod(value: Any) -> bool:
    return bool(value["kind"] == "Pod")


def test_the_runtime_that_trainer_noted_is_written_and_not_the_one_of_today():
    lives = running()
    for one in lives:
        if one["metadata"]["name"].endswith("-runtime-snapshot"):
            noted = one["data"]["runtime"]
            one["data"]["runtime"] = noted.replace(
                "pytorch/pytorch:2.13.0", "pytorch/pytorch:2.9.0"
            )
    files = migration(*lives).files
    assert [*files] == ["multi-node-example.yaml", "multi-node-example-runtime.yaml", "HANDOVER.md"]
    runtime = documents(files["multi-node-example-runtime.yaml"])[0]
    assert [*runtime["metadata"]] == ["labels", "name"]
    [part] = runtime["spec"]["template"]["spec"]["replicatedJobs"]
    assert sorted(part) == ["name", "template"]
    image = "pytorch/pytorch:2.9.0-cuda13.0-cudnn9-runtime"
    pod = part["template"]["spec"]["template"]["spec"]
    assert pod == {"containers": [{"image": image, "name": "node"}]}


def test_two_jobs_with_another_runtime_of_one_name_are_refused():
    lives = running()
    others = copy.deepcopy(lives)
    for one in others:
        metadata = one["metadata"]
        metadata["name"] = metadata["name"].replace("multi-node-example", "second")
        for owner in metadata.get("ownerReferences", ()):
            owner["name"] = owner["name"].replace("multi-node-example", "second")
        if "runtime" in one.get("data", {}):
            noted = one["data"]["runtime"]
            one["data"]["runtime"] = noted.replace(
                "pytorch/pytorch:2.13.0", "pytorch/pytorch:2.9.0"
            )
    assert migration(*lives).files
    result = migration(*lives, *others)
    assert not result.files
    [problem] = result.diagnostics
    assert "ClusterTrainingRuntime torch-distributed" in problem.message


def job(**spec: Any) -> dict[str, Any]:
    reference = {"runtimeRef": {"name": "torch-distributed"}}
    trainer = {"trainer": {"command": ["torchrun", "a.py"]}}
    head = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    return {**head, "metadata": {"name": "mn"}, "spec": {**reference, **trainer, **spec}}


def test_handover_without_a_runtime_snapshot_names_the_shipped_runtime_used():
    text = migration(dumped(job(), jobsStatus=[])).files["HANDOVER.md"]
    assert "ConfigMap mn-runtime-snapshot" in text
    assert "as Trainer 2.3.0 ships it" in text


def test_a_running_job_is_ended_by_background_deletion_and_never_adopted(tmp_path):
    text = handed_over(running(), tmp_path).files["HANDOVER.md"]
    assert "**The run cannot be taken over**" in text
    assert "**this ends the run**" in text
    assert "delete trainjob.v1alpha1.trainer.kubeflow.org/multi-node-example --cascade=back" in text
    assert "--cascade=orphan" not in text
    assert "--adopt" not in text
    assert "wait --for=delete service/multi-node-example" in text
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    [service] = [line for line in lines if line.startswith("| Service ")]
    assert "is deleted with the custom resource, and created again" in service
    for kind in ("JobSet", "Job", "ConfigMap multi-node-example-runtime-snapshot"):
        [line] = [line for line in lines if line.startswith(f"| {kind} ")]
        assert line.endswith("| is deleted with the custom resource |")


def test_a_claim_of_the_job_goes_and_that_is_said(tmp_path):
    lives = RECORDINGS["torchtune-llama"].objects["objects-training"]
    text = handed_over(lives, tmp_path).files["HANDOVER.md"]
    [line] = [one for one in text.splitlines() if one.startswith("| PersistentVolumeClaim ")]
    assert "created again (its data is lost)" in line
    assert "The claims that the job owns go, too" in text


def test_a_job_that_has_ended_is_not_said_to_run():
    done = [{"type": "Complete", "status": "True", "reason": "AllJobsCompleted"}]
    text = migration(dumped(job(), conditions=done)).files["HANDOVER.md"]
    assert "Its run by the Kubeflow Trainer has ended" in text
    assert "stop before step 3" in text


# A real API server ------------------------------------------------------------------------------


def test_the_api_server_takes_what_is_rendered_when_the_job_has_been_removed(
    control_plane, namespace, tmp_path
):
    """Live objects stand beside none of the rendered Pods; the rest is free once it is deleted."""
    lives = [one for one in running() if one["kind"] in ("Service", "ConfigMap")]
    result = handed_over(running(), tmp_path)
    objects = rendered_in(namespace, result)
    kubeconfig = control_plane.kubeconfig(
        user="migrator", groups=["system:masters"], namespace=namespace
    )
    with connect(kubeconfig=kubeconfig) as cluster:
        for one in lives:
            metadata = {"name": one["metadata"]["name"], "namespace": namespace}
            plain = {key: value for key, value in one.items() if key != "status"}
            plain["metadata"] = metadata
            cluster.create(plain, field_manager="jobset", field_validation="Ignore")
        for one in lives:
            resource = cluster.resource(one["apiVersion"], one["kind"])
            cluster.delete(resource, one["metadata"]["name"])
        for one in objects:
            cluster.server_side_apply(one, force=False)
        pods = cluster.list(cluster.resource("v1", "Pod")).items
    assert {one["metadata"]["name"] for one in pods} == {
        f"multi-node-example-node-0-{index}" for index in range(3)
    }
