"""The instructions of a hand-over: what they say of each object, and which steps they have."""

import copy
import shlex
from typing import Any

import pytest
from dumps import dumped, migration

import etcompile
from specs import container, manifest, training_job

OWNER = {
    "apiVersion": "kai.alibabacloud.com/v1alpha1",
    "kind": "TrainingJob",
    "name": "mnist",
    "controller": True,
}
TRACKED = {"argocd.argoproj.io/tracking-id": "team:kai.alibabacloud.com/TrainingJob:ml/mnist"}


def live_objects(document: Any = None) -> dict[tuple[str, str], dict[str, Any]]:
    """Live objects that are what is rendered, owned by the job."""
    objects = etcompile.compile(document or training_job()).objects
    objects_by_name = {
        (one["kind"], one["metadata"]["name"]): copy.deepcopy(dict(one)) for one in objects
    }
    for one in objects_by_name.values():
        one["metadata"]["ownerReferences"] = [OWNER]
    return objects_by_name


def handover(job: Any, *live: Any) -> str:
    return migration(job, *live).files["HANDOVER.md"]


def row(text: str, kind: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(f"| {kind} ")]


def test_live_objects_equal_to_the_rendered_ones_are_adopted_while_the_job_runs() -> None:
    text = handover(dumped(training_job(), phase="Running"), *live_objects().values())
    assert "**Nothing restarts**" in text
    assert all("is taken over as it is" in line for line in row(text, "Pod"))
    assert "When the run has ended" not in text
    assert "This takes over the run that goes on" in text


def test_a_pod_that_cannot_become_the_rendered_one_runs_on() -> None:
    live = live_objects()
    live["Pod", "mnist-launcher"]["spec"]["containers"][0]["command"] = ["horovodrun"]
    text = handover(dumped(training_job(), phase="Running"), *live.values())
    assert "**Nothing restarts**" not in text
    (line,) = (one for one in row(text, "Pod") if "mnist-launcher" in one)
    assert "stays as the operator made it until the run ends" in line
    assert "spec.containers[main].command" in line
    assert "### 4. When the run has ended" in text


def test_a_file_that_a_running_pod_reads_is_left_until_the_run_ends() -> None:
    live = live_objects()
    live["ConfigMap", "mnist-config"]["data"]["discover_hosts.sh"] = "#!/bin/sh\n"
    text = handover(dumped(training_job(), phase="Running"), *live.values())
    (line,) = row(text, "ConfigMap")
    assert "its Pods would notice" in line
    assert "data[discover_hosts.sh]" in line


def test_a_file_that_the_operator_has_not_may_come_at_any_time() -> None:
    live = live_objects()
    del live["ConfigMap", "mnist-config"]["data"]["job.yaml"]
    text = handover(dumped(training_job(), phase="Running"), *live.values())
    (line,) = row(text, "ConfigMap")
    assert "at any time" in line


def test_a_job_that_has_ended_warns_that_applying_runs_it_again() -> None:
    text = handover(dumped(training_job(), phase="Succeeded"))
    assert "runs it again" in text
    assert "While the run goes on" not in text


def test_a_suspended_job_stays_suspended() -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    assert "It is suspended" in handover(dumped(job, phase="Suspended"))


def test_the_custom_resource_is_never_deleted_with_its_pods() -> None:
    text = handover(dumped(training_job(), phase="Running"))
    deleting = [line for line in text.splitlines() if "delete trainingjob" in line]
    assert deleting
    assert all("--cascade=orphan" in shlex.split(line) for line in deleting)


def test_a_resource_that_argo_cd_syncs_is_first_let_go_of() -> None:
    job = dumped(training_job(), phase="Running")
    job["metadata"] |= {"namespace": "ml", "annotations": TRACKED}
    text = handover(job)
    assert "**Argo CD application team looks after the custom resource.**" in text
    assert text.index("Prune=false") < text.index("--cascade=orphan`")


def test_handover_preserves_the_secret_and_deletes_the_autoscaler() -> None:
    owned = {"ownerReferences": [OWNER]}
    live = [
        manifest(kind, name, api_version=version, metadata=owned)
        for version, kind, name in (
            ("v1", "Secret", "mnist"),
            ("autoscaling/v2", "HorizontalPodAutoscaler", "mnist"),
            ("v1", "Service", "mnist-worker-9"),
        )
    ]
    text = handover(dumped(training_job(), phase="Running"), *live)
    assert "the next run needs it" in row(text, "Secret")[0]
    assert "delete horizontalpodautoscaler.autoscaling/mnist" in text
    assert "delete it when the run has ended" in row(text, "Service mnist-worker-9")[0]
    assert "secret/mnist" not in text


@pytest.mark.parametrize(
    ("policy", "said"), [("ExitCode", "a worker that fails is not replaced"), ("Never", None)]
)
def test_it_says_what_nobody_does_any_more(policy: str, said: str | None) -> None:
    job = training_job()
    job["spec"]["etReplicaSpecs"]["worker"]["restartPolicy"] = policy
    text = handover(dumped(job, phase="Running"))
    assert (said or "not replaced") in text or said is None
    assert ("a worker that fails" in text) == (said is not None)


def test_without_live_objects_it_says_how_to_add_them() -> None:
    text = handover(dumped(training_job(), phase="Running"))
    assert "etcompile migrate --from-cluster trainingjob/mnist" in text


def test_a_secret_among_the_input_never_shows_its_values() -> None:
    metadata, data = {"ownerReferences": [OWNER]}, {"id_rsa": "c2VjcmV0LWtleQ=="}
    secret = manifest("Secret", "mnist", metadata=metadata, data=data)
    files = migration(dumped(training_job(), phase="Running"), secret).files
    assert all("c2VjcmV0" not in text for text in files.values())


def test_containers_with_a_changed_image_are_not_restarted_half_way() -> None:
    live = live_objects()
    live["Pod", "mnist-worker-0"]["spec"]["containers"][0]["image"] = container()["image"] + "-old"
    text = handover(dumped(training_job(), phase="Running"), *live.values())
    (line,) = (one for one in row(text, "Pod") if "until the run ends" in one)
    assert "mnist-worker-0" in line
