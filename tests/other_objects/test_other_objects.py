"""Other Kubernetes objects among the inputs: checked, cleaned, and in their wave."""

import base64
from typing import Any

import pytest

import etcompile
import specs
from specs import (
    by_name,
    compiled,
    errors,
    kubeflow_job,
    manifest,
    mpi_job,
    replicas,
    training_job,
    warnings,
)


def claim(**metadata: Any) -> dict[str, Any]:
    value = specs.claim("data")
    return {**value, "metadata": {**value["metadata"], **metadata}}


def config(**fields: Any) -> dict[str, Any]:
    return manifest("ConfigMap", "hyperparameters", **{"data": {"a": "1"}, **fields})


def with_wave(wave: str) -> dict[str, Any]:
    return config(metadata={"annotations": {"argocd.argoproj.io/sync-wave": wave}})


def secret(**fields: Any) -> dict[str, Any]:
    return manifest("Secret", "token", **fields)


def test_they_stand_where_they_are_needed() -> None:
    version, spec = "networking.k8s.io/v1", {"podSelector": {}}
    policy = manifest("NetworkPolicy", "deny", api_version=version, spec=spec)
    space = manifest("Namespace", "ml")
    result = compiled(claim(), policy, training_job(), config(), space)
    kinds = [one["kind"] for one in result.objects]
    assert kinds[0] == "Namespace"
    assert kinds.index("ServiceAccount") < kinds.index("NetworkPolicy")
    assert kinds.index("NetworkPolicy") < kinds.index("PersistentVolumeClaim") < kinds.index("Pod")
    assert kinds[-1] == "Pod"


def test_without_a_job_they_render_alone() -> None:
    assert [one["kind"] for one in compiled(config()).objects] == ["ConfigMap"]


def test_they_are_held_against_the_api() -> None:
    assert errors(config(dat={"a": "1"})) == ["ET4001"]
    wrong = claim()
    wrong["spec"]["accessModes"] = "ReadWriteOnce"
    assert errors(wrong) == ["ET4002"]


def test_a_custom_resource_passes_with_a_warning() -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "x": 1}
    assert warnings(widget) == ["ET4003"]
    assert compiled(widget).objects[0]["x"] == 1


def test_what_a_cluster_wrote_is_left_out_aloud() -> None:
    live = claim(
        uid="3f0c",
        resourceVersion="7",
        creationTimestamp="2026-01-01T00:00:00Z",
        annotations={"kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    live["status"] = {"phase": "Bound"}
    assert warnings(live) == ["ET4010"]
    assert compiled(live).objects[0] == claim()


def test_a_creation_timestamp_of_null_is_nothing_to_talk_about() -> None:
    result = compiled(claim(creationTimestamp=None))
    assert (result.diagnostics, result.objects[0]) == ((), claim())


def test_the_namespace_option_is_for_them_too_where_they_can_have_one() -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    role |= {"metadata": {"name": "reader"}, "rules": []}
    objects = by_name(compiled(config(), role, namespace="ml"))
    assert objects["ConfigMap", "hyperparameters"]["metadata"]["namespace"] == "ml"
    assert "namespace" not in objects["ClusterRole", "reader"]["metadata"]


def test_two_of_one_name_are_refused() -> None:
    assert errors(config(), config()) == ["ET1018"]


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_a_secret_in_the_clear_needs_a_word(field: str) -> None:
    plain = secret(**{field: {"token": "c2VjcmV0"}})
    assert errors(plain) == ["ET4007"]
    assert len(compiled(plain, allow_plain_secrets=True).objects) == 1


@pytest.mark.parametrize(
    "data",
    [
        {"stringData": {"k": "-----BEGIN RSA PRIVATE KEY-----\nAA\n"}},
        {"data": {"k": "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCkFBQUEK"}},
        {"stringData": {"k": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA\n"}},
    ],
    ids=["pem", "base64", "encrypted"],
)
def test_no_word_lets_a_private_key_pass(data: Any) -> None:
    assert errors(secret(**data), allow_plain_secrets=True) == ["ET4006"]


PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "text",
    [
        f"echo {encoded(PEM)} | base64 -d > /root/.ssh/id_rsa",
        f"users: [{{client-key-data: {encoded(PEM)}}}]",
        encoded(f"\n{PEM}"),
        encoded(f"# mine\n{PEM}"),
        encoded(encoded(PEM)),
        base64.encodebytes(PEM.encode() * 3).decode(),
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAA",
        "PuTTY-User-Key-File-3: ssh-ed25519",
    ],
    ids=["echo", "kubeconfig", "leading", "comment", "twice", "wrapped", "ssh2", "putty"],
)
def test_private_key_in_a_config_map_is_detected_in_any_encoding(text: str) -> None:
    assert errors(config(data={"file": text})) == ["ET4006"]


@pytest.mark.parametrize(
    "metadata",
    [
        [],
        "x",
        5,
        {"name": 5},
        {"name": "a", "namespace": ["x"]},
        {"name": "a", "annotations": {"etcompile.dev/wave": 5}},
        {"name": "a", "annotations": ["a"]},
        {"name": "a", "labels": 7},
        {},
    ],
    ids=str,
)
def test_metadata_is_held_to_its_form_whatever_the_kind(metadata: Any) -> None:
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}
    assert set(errors(training_job(), widget)) == {"ET4002"}


def test_nothing_may_come_after_the_pods_and_a_wave_of_many_digits_is_none() -> None:
    assert warnings(with_wave("101")) == ["ET4009"]
    assert compiled(with_wave("9" * 5000)).objects


def test_the_namespace_option_hides_no_clash() -> None:
    existing = config()
    existing["metadata"]["name"] = "mnist-config"
    assert errors(training_job(), existing, namespace="ml") == ["ET4005"]
    named = config()
    named["metadata"]["namespace"] = "ml"
    assert errors(config(), named, namespace="ml") == ["ET1018"]


def test_a_public_certificate_is_no_secret() -> None:
    trust = config(data={"ca.pem": "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n"})
    assert errors(trust) == []


@pytest.mark.parametrize(("kind", "code"), [("Notebook", "ET4003"), ("PytorchJobs", "ET2013")])
def test_kinds_of_other_programs_in_the_group_of_jobs_pass_through(kind: str, code: str) -> None:
    value = {"apiVersion": "kubeflow.org/v1", "kind": kind, "metadata": {"name": "n"}}
    compilation = etcompile.compile([value, training_job()])
    assert code in {one.code for one in compilation.diagnostics}
    assert compilation.ok == (value in [*compilation.objects]) == (code == "ET4003")


@pytest.mark.parametrize(
    "version", ["trainer.kubeflow.org/v1alpha1", "kubeflow.org/v2", "kai.alibabacloud.com/v1alpha1"]
)
def test_later_kind_of_a_known_group_passes_and_names_its_operator(version):
    value = {"apiVersion": version, "kind": "OptimizationJob", "metadata": {"name": "n"}}
    compilation = etcompile.compile([value, training_job()])
    assert compilation.ok
    assert value in [*compilation.objects]
    [warning] = [one for one in compilation.diagnostics if one.code == "ET4003"]
    assert "operator" in warning.hint


def inside(shape: str):
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "spec": {}}
    text = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {{ x }}\n"
    argo = {"templates": [{"name": "a", "resource": {"action": "create", "manifest": text}}]}
    return {
        "WorkflowTemplate": ("argoproj.io/v1alpha1", argo),
        "CronWorkflow": ("argoproj.io/v1alpha1", {"workflowSpec": argo}),
        "AppWrapper": ("workload.codeflare.dev/v1beta2", {"components": [{"template": job}]}),
        "Experiment": ("kubeflow.org/v1beta1", {"trialTemplate": {"trialSpec": job}}),
    }[shape]


@pytest.mark.parametrize("kind", ["WorkflowTemplate", "CronWorkflow", "AppWrapper", "Experiment"])
def test_job_inside_another_object_is_named_with_its_kind(kind):
    version, spec = inside(kind)
    value = {"apiVersion": version, "kind": kind, "metadata": {"name": "n"}, "spec": spec}
    [warning] = [one for one in etcompile.compile([value]).diagnostics if one.code == "ET4022"]
    assert f"the PyTorchJob inside {kind}" in warning.message


def test_reference_to_a_job_and_data_of_a_config_map_are_no_jobs_inside():
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "a"}
    value = {"apiVersion": "example.com/v1", "kind": "Ref", "metadata": {"name": "n"}, "spec": job}
    text = config(data={"job.yaml": "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nspec: {}\n"})
    assert "ET4022" not in {one.code for one in etcompile.compile([value, text]).diagnostics}


def host_warnings(text: str, *others, kind: str = "MPIJob"):
    if kind == "MPIJob":
        value = mpi_job("v2beta1")
        launcher = value["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
        launcher["containers"][0]["args"] = [text]
    else:
        value = kubeflow_job(kind, {"Master": replicas(kind, 1, args=[text]), "Worker": 2})
    value["metadata"] = {"name": "pair", "namespace": "ml"}
    diagnostics = etcompile.compile([value, *others]).diagnostics
    return [(one.message, one.hint) for one in diagnostics if one.code == "ET4023"]


def test_host_name_of_another_version_of_the_operator_is_corrected():
    [(message, hint)] = host_warnings("MASTER_ADDR=pair-worker-0.pair-worker:29500")
    assert message.startswith("no host is called pair-worker-0.pair-worker")
    assert hint == "write pair-worker-0.pair"
    [(_, hint)] = host_warnings("tcp://pair-master-0.pair", kind="PyTorchJob")
    assert hint == "write pair-master-0"


@pytest.mark.parametrize(
    "text",
    [
        *("pair-worker-0.pair", "pair-worker-0.pair.ml.svc.cluster.local", "pair-worker-0.log"),
        *("other-pair-worker-0.pair-worker", "pair-worker-9.pair-worker", "a.pair-worker-0"),
    ],
)
def test_host_name_that_resolves_or_is_no_host_gets_no_warning(text):
    assert host_warnings(text) == []


def test_host_name_in_a_service_of_the_input_gets_no_warning():
    spec = {"clusterIP": "None", "ports": [{"port": 22}]}
    service = manifest("Service", "pair-worker", metadata={"namespace": "ml"}, spec=spec)
    assert host_warnings("pair-worker-0.pair-worker", service) == []


def test_object_with_a_generated_name_is_named_by_its_prefix() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"generateName": "login-"}}
    reference = {"name": "mine", "kind": "TrainingRuntime"}
    train_job = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob"}
    train_job |= {"metadata": {"generateName": "tune-"}, "spec": {"runtimeRef": reference}}
    messages = [
        one.message
        for value in ({**secret, "stringData": {"a": "b"}}, train_job)
        for one in etcompile.compile([value]).diagnostics
    ]
    assert "Secret 'login-' holds its data in plain text" in messages
    assert "there is no TrainingRuntime 'mine', which TrainJob 'tune-' names" in messages
