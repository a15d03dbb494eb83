"""`kueue.x-k8s.io/queue-name`: by this label Kueue finds the operators' jobs, and Pods."""

import copy
from typing import Any

import pytest

import etcompile
from etcompile import Options, Settings
from specs import by_name, compiled, elastic_job, kubeflow_job, training_job, worker

QUEUE = "kueue.x-k8s.io/queue-name"
JOBS = {
    "TrainingJob": training_job(),
    "PyTorchJob": kubeflow_job("PyTorchJob", {"Worker": 2}),
    "ElasticJob": elastic_job(),
}


def labelled(kind: str) -> dict[str, Any]:
    job = JOBS[kind]
    metadata = {**job["metadata"], "namespace": "ml", "labels": {QUEUE: "research"}}
    return {**job, "metadata": metadata}


def messages(job: Any, gang: str) -> dict[str, str]:
    diagnostics = etcompile.compile(
        [job], Options(settings=Settings(gang=gang, run="r1"))
    ).diagnostics
    return {one.code: one.message for one in diagnostics if QUEUE in one.message}


def test_a_queue_that_the_job_names_for_any_scheduler_counts_first() -> None:
    job = labelled("TrainingJob")
    job["metadata"]["annotations"] = {"etcompile.dev/gang-queue": "own"}
    compilation = compiled(job, settings=Settings(gang="kueue", run="r1"))
    pod = by_name(compilation)["Pod", "mnist-r1-worker-0"]
    assert pod["metadata"]["labels"][QUEUE] == "own"


@pytest.mark.parametrize("kind", JOBS)
def test_queue_label_without_a_gang_scheduler_is_reported_as_no_effect(kind: str) -> None:
    reported = messages(labelled(kind), "none")
    # The Pod of DLRover's master has all labels of its job, so that Kueue sees this one Pod.
    assert set(reported) - {"ET2093"} == {"ET2041"}
    assert ("ET2093" in reported) == (kind == "ElasticJob")
    assert "only the setting gang = kueue gives them its labels" in reported["ET2041"]


@pytest.mark.parametrize("gang", ["volcano", "coscheduling", "native", "koordinator", "kai"])
def test_queue_label_with_another_scheduler_is_reported_as_no_effect(gang: str) -> None:
    reported = messages(labelled("PyTorchJob"), gang)
    assert list(reported) == ["ET2092"]
    assert "only Kueue has LocalQueues" in reported["ET2092"]
    assert "research" not in str(
        [o["spec"] for o in compiled(labelled("PyTorchJob"), settings=Settings(gang=gang)).objects
         if o["kind"] == "PodGroup"]
    )  # fmt: skip


@pytest.mark.parametrize("gang", ["none", "volcano"])
def test_on_a_pod_template_it_makes_kueue_take_pods_one_by_one(gang: str) -> None:
    job = training_job()
    worker(job)["template"]["metadata"] = {"labels": {QUEUE: "research"}}
    reported = messages(job, gang)
    assert list(reported) == ["ET2093"]
    assert messages(job, "kueue") == {}


MISPLACED = {
    "kai.scheduler/queue": ("annotations", "labels"),
    QUEUE: ("annotations", "labels"),
    "quota.scheduling.koordinator.sh/name": ("annotations", "labels"),
    "scheduling.volcano.sh/queue-name": ("labels", "annotations"),
}


@pytest.mark.parametrize("key", MISPLACED)
@pytest.mark.parametrize("gang", ["none", "kai", "kueue", "volcano"])
@pytest.mark.parametrize("of_pods", [False, True], ids=["job", "Pods"])
def test_queue_in_the_wrong_map_is_moved_to_the_other(key: str, gang: str, of_pods: bool) -> None:
    wrong, right = MISPLACED[key]
    options = Options(settings=Settings(gang=gang, run="r1"), default_namespace="ml")

    def problems(field: str) -> list[tuple[str, str]]:
        job = copy.deepcopy(JOBS["TrainingJob"])
        holder = worker(job)["template"] if of_pods else job
        holder.setdefault("metadata", {}).setdefault(field, {})[key] = "research"
        diagnostics = etcompile.compile([job], options).diagnostics
        return [(one.code, one.hint or "") for one in diagnostics if key in one.message]

    assert problems(wrong) == [("ET2041", f"move it to metadata.{right}")]
    assert ("ET2041", f"move it to metadata.{wrong}") not in problems(right)
