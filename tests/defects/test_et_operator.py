"""Defects of et-operator that can be decided without a cluster.

The numbers are those of reference/et-operator.md 6. What is missing here is tested where its
subject is, or is a difference that the recordings show (docs/differences.md).
"""

from typing import Any

import pytest
import yaml

from etcompile import SecretMode, Settings
from specs import (
    HOROVOD,
    by_name,
    compiled,
    container,
    errors,
    launcher,
    pods,
    scale_in,
    scale_out,
    training_job,
    warnings,
    worker,
)


def pod(documents: list[dict[str, Any]], name: str, **options: Any) -> Any:
    return by_name(compiled(*documents, **options))["Pod", name]


def config(*documents: dict[str, Any]) -> Any:
    return by_name(compiled(*documents))["ConfigMap", "mnist-config"]["data"]


def stored(*documents: dict[str, Any]) -> Any:
    return yaml.safe_load(config(*documents)["job.yaml"])


def containers(pod: Any) -> dict[str, Any]:
    return {one["name"]: one for one in pod["spec"]["containers"]}


def mounts(one: Any) -> dict[str, Any]:
    return {mount["mountPath"]: mount for mount in one["volumeMounts"]}


def test_et_operator_02_same_name_in_two_namespaces_shares_nothing() -> None:
    jobs = [training_job(), training_job(replicas=1)]
    jobs[0]["metadata"]["namespace"], jobs[1]["metadata"]["namespace"] = "a", "b"
    result = compiled(*jobs)
    workers = {
        one["metadata"]["namespace"]: one["data"]["hostfile"]
        for one in result.objects
        if one["kind"] == "ConfigMap"
    }
    assert workers == {
        "a": "mnist-worker-0:1\nmnist-worker-1:1\n",
        "b": "mnist-worker-0:1\n",
    }


def without(document: dict[str, Any], *path: str) -> dict[str, Any]:
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return document


@pytest.mark.parametrize(
    ("documents", "code"),
    [
        ([without(training_job(), "spec")], "ET2002"),
        ([without(training_job(), "spec", "etReplicaSpecs", "worker", "replicas")], "ET2002"),
        ([training_job(), without(scale_in("x", 1), "spec", "toDelete")], "ET2002"),
    ],
    ids=["no spec", "no worker.replicas", "no toDelete"],
)
def test_et_operator_03_what_crashes_the_operator_is_an_error(
    documents: list[dict[str, Any]], code: str
) -> None:
    assert errors(*documents) == [code]


@pytest.mark.parametrize("role", ["launcher", "worker"])
def test_et_operator_03_empty_containers_are_an_error(role: str) -> None:
    job = training_job()
    job["spec"]["etReplicaSpecs"][role]["template"]["spec"]["containers"] = []
    assert errors(job) == ["ET2010"]


def test_et_operator_04_fields_of_the_newer_crd_are_preserved() -> None:
    job = training_job(restartPolicy="OnFailure", backoffLimit=2, launcherAttachMode="ssh")
    spec = stored(job)["document"]["spec"]
    assert (spec["restartPolicy"], spec["backoffLimit"]) == ("OnFailure", 2)
    assert spec["launcherAttachMode"] == "ssh"


@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        ({"replicas": 12, "maxReplicas": 9}, "ET2003"),
        ({"replicas": 1, "minReplicas": 2}, "ET2004"),
        ({"replicas": 3, "minReplicas": 4, "maxReplicas": 2}, "ET2005"),
    ],
)
def test_et_operator_05_bounds_hold_for_the_job(bounds: dict[str, int], code: str) -> None:
    job = training_job()
    worker(job).update(bounds)
    assert errors(job) == [code]


@pytest.mark.parametrize("secret", ["team-key", "team.key", "k" * 64])
def test_et_operator_16_17_named_secret_is_used_whatever_its_name(secret: str) -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"arena.kubeflow.org/ssh-secret": secret}
    result = compiled(job, settings=Settings(secret=SecretMode("external")))
    kinds = {one["kind"] for one in result.objects}
    assert not kinds & {"Secret", "ExternalSecret", "SSHKey"}
    volumes = by_name(result)["Pod", "mnist-launcher"]["spec"]["volumes"]
    [volume] = [v for v in volumes if "secret" in v]
    assert volume["secret"]["secretName"] == secret
    assert "." not in volume["name"]
    assert len(volume["name"]) <= 63


def non_root(job: dict[str, Any]) -> dict[str, Any]:
    for role in (launcher(job), worker(job)):
        role["template"]["spec"]["securityContext"] = {"runAsUser": 1000}
    return job


def test_et_operator_17_ssh_for_non_root_needs_to_know_the_home() -> None:
    assert errors(non_root(training_job())) == ["ET2045", "ET2045"]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cleanPodPolicy",), "running"),
        (("launcherAttachMode",), "SSH"),
        (("restartPolicy",), "Always"),
        (("etReplicaSpecs", "worker", "restartPolicy"), "onFailure"),
        (("etReplicaSpecs", "launcher", "restartPolicy"), "never"),
    ],
)
def test_et_operator_19_a_misspelt_choice_is_an_error(path: tuple[str, ...], value: str) -> None:
    job = training_job()
    inner = job["spec"]
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    assert errors(job) == ["ET2007"]


def test_et_operator_28_no_script_is_pasted_into_a_shell() -> None:
    hostile = scale_out("a", 1, script="/s.sh; rm -rf /", env=[{"name": "B", "value": "x y"}])
    result = compiled(training_job(), hostile)
    assert "/s.sh" not in str(result.objects)
    assert "ET3009" in {d.code for d in result.diagnostics}


def test_et_operator_34_a_suspended_job_can_be_resumed() -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "true"}
    kinds = {one["kind"] for one in compiled(job).objects}
    assert kinds == {"ConfigMap", "ServiceAccount"}
    assert warnings(job) == ["ET2046"]
    job["metadata"]["annotations"] = {"job-supervisor.kube-ai.io/job-suspended": "false"}
    assert len(pods(compiled(job))) == 2


def sidecar_first(job: dict[str, Any]) -> dict[str, Any]:
    for role in (launcher(job), worker(job)):
        role["template"]["spec"]["containers"].insert(0, container("log-shipper"))
    return job


def test_et_operator_42_the_trainer_need_not_be_the_first_container() -> None:
    job = sidecar_first(training_job())
    for role in (launcher(job), worker(job)):
        annotations = {"kubectl.kubernetes.io/default-container": "main"}
        role["template"]["metadata"] = {"annotations": annotations}
    both = containers(pod([job], "mnist-launcher"))
    assert "/etc/edl" in mounts(both["main"])
    assert both["main"]["command"][2:] == HOROVOD
    assert "volumeMounts" not in both["log-shipper"]
    assert "command" not in containers(pod([job], "mnist-worker-0"))["log-shipper"]


def test_et_operator_42_sidecar_mistaken_for_the_trainer_is_a_warning() -> None:
    assert "ET2049" in warnings(sidecar_first(training_job()))


def test_et_operator_43_the_wait_for_workers_has_an_end() -> None:
    job = training_job()
    job["metadata"]["annotations"] = {"etcompile.dev/gate-timeout": "42"}
    assert "42" in config(job)["wait-for-workers.sh"]


def test_et_operator_47_an_edit_reaches_all_pods_or_none() -> None:
    job = training_job()
    before = by_name(compiled(job))
    worker(job)["template"]["spec"]["containers"][0]["image"] = "horovod/horovod:0.28.2"
    after = by_name(compiled(job))
    hashes = {
        which["Pod", name]["metadata"]["annotations"]["etcompile.dev/spec-hash"]
        for which in (before, after)
        for name in ("mnist-launcher", "mnist-worker-0", "mnist-worker-1")
    }
    assert len(hashes) == 2


def test_et_operator_52_newer_fields_of_pods_survive() -> None:
    job = training_job()
    spec = worker(job)["template"]["spec"]
    spec["initContainers"] = [container("proxy", restartPolicy="Always")]
    spec["securityContext"] = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec["containers"][0]["livenessProbe"] = {"grpc": {"port": 9}}
    rendered = pod([job], "mnist-worker-0")["spec"]
    assert rendered["initContainers"][0]["restartPolicy"] == "Always"
    assert rendered["securityContext"] == {"seccompProfile": {"type": "RuntimeDefault"}}
    assert rendered["containers"][0]["livenessProbe"] == {"grpc": {"port": 9}}
