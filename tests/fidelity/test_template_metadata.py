"""Labels and annotations of a Pod template are its author's, but for those that identify a Pod.

The source operators add their identity labels and nothing else (reference/training-operator.md 2.1,
reference/mpi-operator-v2.md 3.3, reference/et-operator.md 2.2, reference/dlrover.md 3.1).
"""

import json
from typing import Any

import pytest
from every_job import JOBS, changed, compiled, pod_templates

from etcompile import Settings
from specs import elastic_job, kubeflow_job, replicas, training_job, warnings

RECOMMENDED = {
    "app.kubernetes.io/name": "chat-llm",
    "app.kubernetes.io/component": "trainer",
    "app.kubernetes.io/part-of": "assistants",
    "app.kubernetes.io/managed-by": "helm",
    "app.kubernetes.io/version": "2.1",
    "app.kubernetes.io/instance": "chat",
    "team": "nlp",
}
UNBUFFERED = "PYTHONUNBUFFERED"
OURS = ("etcompile.dev/job", "etcompile.dev/role", "etcompile.dev/index", "etcompile.dev/run")
each_job = pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)


def labelled(labels: dict[str, str]) -> Any:
    def change(template: dict[str, Any]) -> None:
        metadata = template.setdefault("metadata", {})
        metadata["labels"] = {**metadata.get("labels", {}), **labels}

    return change


def role(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["etcompile.dev/role"])


@each_job
@pytest.mark.parametrize(
    "options", [{}, {"run": "a1"}, {"gang": "volcano"}, {"services": "shared"}], ids=str
)
def test_a_template_keeps_its_labels_in_every_pod(job, options) -> None:
    settings = {"kubernetes_version": "1.34", **options}
    document = changed(job, labelled(RECOMMENDED))
    objects = compiled(document, settings=Settings(**settings)).objects
    all_labels = [pod["metadata"]["labels"] for pod in pod_templates(objects)]
    assert all_labels
    for labels in all_labels:
        # The master of DLRover has a template of its own where the job gives none.
        if labels["etcompile.dev/role"] != "dlrover-master":
            assert RECOMMENDED.items() <= labels.items()


@each_job
def test_ours_stand_where_a_template_has_none(job) -> None:
    for pod in pod_templates(compiled(job).objects):
        labels = pod["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == job["metadata"]["name"]
        assert labels["app.kubernetes.io/managed-by"] == "etcompile"
        assert labels["app.kubernetes.io/component"] == labels["etcompile.dev/role"]


@each_job
@pytest.mark.parametrize("gang", ["none", "volcano", "koordinator", "kai"])
def test_selectors_use_no_label_that_a_template_may_set(job, gang) -> None:
    def selectors(value: Any) -> Any:
        if isinstance(value, dict):
            for key, inner in value.items():
                if "selector" in key.lower() and key != "nodeSelector":
                    yield inner
                yield from selectors(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                yield from selectors(inner)

    settings = Settings(gang=gang, kubernetes_version="1.34")
    objects = compiled(job, settings=settings).objects
    assert "app.kubernetes.io/" not in json.dumps(list(selectors(list(objects))))


@each_job
def test_every_overwritten_identity_label_of_a_template_is_reported(job) -> None:
    # A master of DLRover's that makes the other Pods has no template in these jobs.
    pods = [pod for pod in pod_templates(compiled(job).objects) if role(pod) != "dlrover-master"]
    if not pods:
        pytest.skip("all its Pods are made by DLRover's master")
    identities = {
        key
        for pod in pods
        for key in pod["metadata"]["labels"]
        if not key.startswith("app.kubernetes.io/")
    }
    labels = dict.fromkeys((*identities, *OURS), "mine")
    compilation = compiled(changed(job, labelled(labels)))
    messages = " ".join(d.message for d in compilation.diagnostics if d.code == "ET2042")
    for pod in pod_templates(compilation.objects):
        for key in labels:
            if role(pod) != "dlrover-master" and pod["metadata"]["labels"].get(key) != "mine":
                assert f"label '{key}'" in messages
    for key in OURS:
        assert f"label '{key}'" in messages


def test_the_label_of_an_index_that_a_launcher_has_not_is_dropped() -> None:
    job = changed(training_job(), labelled({"etcompile.dev/index": "3"}))
    (launcher,) = (
        pod["metadata"]["labels"]
        for pod in pod_templates(compiled(job).objects)
        if pod["metadata"]["labels"]["etcompile.dev/role"] == "launcher"
    )
    assert "etcompile.dev/index" not in launcher


def test_the_annotation_of_the_run_is_ours_and_said_to_be() -> None:
    worker = replicas("JAXJob", 1)
    worker["template"]["metadata"] = {"annotations": {"etcompile.dev/spec-hash": "mine", "a": "b"}}
    job = kubeflow_job("JAXJob", {"Worker": worker})
    assert "ET2042" in warnings(job)
    (pod,) = pod_templates(compiled(job).objects)
    assert pod["metadata"]["annotations"]["a"] == "b"
    assert pod["metadata"]["annotations"]["etcompile.dev/spec-hash"] != "mine"


@pytest.mark.parametrize("where", ["worker", "dlrover-master", "job"])
def test_label_that_crashes_the_dlrover_operator_is_omitted_and_reported(where) -> None:
    label = {"app.kubernetes.io/name": "elasticjob"}
    job = elastic_job({"worker": 2, "dlrover-master": 1})
    del job["spec"]["replicaSpecs"]["dlrover-master"]["replicas"]
    if where == "job":
        job["metadata"]["labels"] = label
    else:
        job["spec"]["replicaSpecs"][where]["template"]["metadata"] = {"labels": label}
    compilation = compiled(job)
    assert "app.kubernetes.io/name: elasticjob" in " ".join(
        d.message for d in compilation.diagnostics if d.code == "ET2042"
    )
    for pod in pod_templates(compilation.objects):
        assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "dlrover"


def test_dlrover_master_has_the_name_label_of_the_job_like_the_operator() -> None:
    job = elastic_job()
    job["metadata"]["labels"] = {"app.kubernetes.io/name": "tuner"}
    names = {
        pod["metadata"]["labels"]["etcompile.dev/role"]: pod["metadata"]["labels"][
            "app.kubernetes.io/name"
        ]
        for pod in pod_templates(compiled(job).objects)
    }
    assert names == {"dlrover-master": "tuner", "worker": "dlrover"}


@each_job
def test_overwritten_hostname_or_subdomain_is_reported(job) -> None:
    def named(template: dict[str, Any]) -> None:
        template["spec"] |= {"hostname": "lead", "subdomain": "mine"}

    result = compiled(changed(job, named))
    assert result.ok
    pods = [pod for pod in pod_templates(result.objects) if role(pod) != "dlrover-master"]
    for field, value in (("hostname", "lead"), ("subdomain", "mine")):
        lost = any(pod["spec"].get(field) != value for pod in pods)
        reported = any(
            f"{field} '{value}' is overwritten" in one.message for one in result.diagnostics
        )
        assert reported == lost


@each_job
def test_python_writes_at_once_in_every_kind_unless_the_template_says_otherwise(job) -> None:
    def set_variable(template: dict[str, Any]) -> None:
        for container in template["spec"]["containers"]:
            container["env"] = [{"name": "PYTHONUNBUFFERED", "value": ""}]

    for wanted, document in (("1", job), ("", changed(job, set_variable))):
        for pod in pod_templates(compiled(document).objects):
            every = [c.get("env", []) for c in pod["spec"]["containers"]]
            values = [e.get("value") for env in every for e in env if e["name"] == UNBUFFERED]
            # The master of DLRover has a template of its own where the job gives none.
            assert wanted in values or role(pod) == "dlrover-master", pod["metadata"]["name"]
