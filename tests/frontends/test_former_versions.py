"""Jobs of API versions that no operator serves any more: what the error says, what migrate writes.

The shapes are those of the examples that tf-operator, pytorch-operator, mxnet-operator,
xgboost-operator and mpi-operator had beside each version.
"""

from typing import Any

import pytest
import yaml

import etcompile
from etcompile.frontends.conversion import converted
from etcompile.integrations.migrate import Migrated, migrated
from etcompile.load import from_values
from specs import compiled, errors, kubeflow_job


def pod(name: str, **fields: Any) -> dict[str, Any]:
    main = {"name": name, "image": "example.com/train:1", "command": ["train"]}
    return {"spec": {"containers": [main], **fields}}


def job(version: str, kind: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": version if "/" in version else f"kubeflow.org/{version}",
        "kind": kind,
        "metadata": {"name": "old", "namespace": "ml"},
        "spec": spec,
    }


def entry(field: str, kind: str, container: str, count: int = 1, **more: Any) -> dict[str, Any]:
    template = pod(container, restartPolicy="OnFailure")
    return {"replicas": count, field: kind, "template": template, **more}


MPI = {
    "Launcher": {"replicas": 1, "template": pod("mpi")},
    "Worker": {"replicas": 2, "template": pod("mpi")},
}
MPI_GPUS = {"name": "mpi", "image": "example.com/mpi:1", "command": ["mpirun", "train"]}

CONVERTIBLE = [
    job("v1alpha1", "TFJob", replicaSpecs=[entry("tfReplicaType", "MASTER", "tensorflow")]),
    job(
        "v1alpha1",
        "TFJob",
        RuntimeId="76no",
        replicaSpecs=[
            entry("tfReplicaType", "MASTER", "tensorflow", tfPort=2222),
            entry("tfReplicaType", "WORKER", "tensorflow", 4),
            entry("tfReplicaType", "PS", "tensorflow", 2),
        ],
        terminationPolicy={"chief": {"replicaName": "MASTER", "replicaIndex": 0}},
    ),
    job("v1alpha1", "TFJob", replicaSpecs=[{"template": pod("tensorflow")}]),
    job("v1alpha2", "TFJob", tfReplicaSpecs={"Worker": {"template": pod("tensorflow")}}),
    job(
        "v1beta1",
        "TFJob",
        cleanPodPolicy="Running",
        tfReplicaSpecs={"PS": {"replicas": 2, "template": pod("tensorflow")}},
    ),
    job(
        "v1beta2",
        "TFJob",
        ttlSecondsAfterFinished=100,
        backoffLimit=3,
        tfReplicaSpecs={"Chief": {"template": pod("tensorflow")}},
    ),
    job(
        "v1alpha1",
        "PyTorchJob",
        backend="gloo",
        masterPort="23457",
        replicaSpecs=[
            entry("replicaType", "MASTER", "pytorch"),
            entry("replicaType", "WORKER", "pytorch", 3),
        ],
    ),
    job(
        "v1beta1",
        "PyTorchJob",
        cleanPodPolicy="All",
        pytorchReplicaSpecs={"Master": {"replicas": 1, "template": pod("pytorch")}},
    ),
    job("v1beta2", "PyTorchJob", pytorchReplicaSpecs={"Worker": {"template": pod("pytorch")}}),
    job(
        "v1alpha1",
        "MXJob",
        jobMode="dist",
        replicaSpecs=[
            entry("mxReplicaType", "SCHEDULER", "mxnet", PsRootPort=9000),
            entry("mxReplicaType", "SERVER", "mxnet"),
            entry("mxReplicaType", "WORKER", "mxnet", 2),
        ],
    ),
    job(
        "v1beta1",
        "MXJob",
        jobMode="MXTrain",
        cleanPodPolicy="All",
        mxReplicaSpecs={"Scheduler": {"replicas": 1, "template": pod("mxnet")}},
    ),
    job(
        "xgboostjob.kubeflow.org/v1alpha1",
        "XGBoostJob",
        cleanPodPolicy="None",
        xgbReplicaSpecs={"Master": {"replicas": 1, "template": pod("xgboostjob")}},
    ),
    job("v1alpha1", "MPIJob", gpus=16, template=pod("mpi", restartPolicy="OnFailure")),
    job("v1alpha1", "MPIJob", gpus=4, template=pod("mpi")),
    job("v1alpha1", "MPIJob", processingUnits=8, processingUnitsPerNode=2, template=pod("mpi")),
    job(
        "v1alpha1",
        "MPIJob",
        processingUnits=4,
        processingResourceType="cpu",
        launcherOnMaster=False,
        template=pod("mpi"),
    ),
    job("v1alpha1", "MPIJob", replicas=2, slotsPerWorker=4, backoffLimit=2, template=pod("mpi")),
    job("v1alpha2", "MPIJob", slotsPerWorker=1, mpiReplicaSpecs=MPI),
    job("v1alpha2", "MPIJob", mpiDistribution="IntelMPI", backoffLimit=3, mpiReplicaSpecs=MPI),
    job("v2alpha1", "MPIJob", slotsPerWorker=1, mpiReplicaSpecs=MPI),
]


def migration(document: dict[str, Any]) -> Migrated:
    return migrated(from_values([document]).documents)


def written(document: dict[str, Any]) -> dict[str, Any]:
    result = migration(document)
    assert result.files, [one.message for one in result.diagnostics]
    found: dict[str, Any] = yaml.safe_load(result.files["old.yaml"])
    return found


RENAMED = [
    document for document in CONVERTIBLE if converted(document).data["spec"] == document["spec"]
]
"""Those that differ from today's by their version alone, and by run-policy fields in `spec`."""


@pytest.mark.parametrize("document", RENAMED)
def test_a_former_version_compiles_where_only_its_name_differs(document: dict[str, Any]) -> None:
    result = etcompile.compile([document])
    assert result.ok
    assert "ET2113" in {one.code for one in result.diagnostics}
    assert result.objects == etcompile.compile([written(document)]).objects


@pytest.mark.parametrize("document", [one for one in CONVERTIBLE if one not in RENAMED])
def test_a_former_version_is_refused_with_the_way_out(document: dict[str, Any]) -> None:
    (problem,) = etcompile.compile([document]).diagnostics
    version = "v2beta1" if document["apiVersion"].endswith("v2alpha1") else "v1"
    assert problem.code == "ET2011"
    assert f"write apiVersion: kubeflow.org/{version}" in (problem.hint or "")
    assert "etcompile migrate" in (problem.hint or "")
    for name in document["spec"].keys() - written(document)["spec"].keys():
        assert name in (problem.hint or "") or name == "processingResourceType"


@pytest.mark.parametrize("document", CONVERTIBLE)
def test_a_migration_writes_a_file_that_compiles_without_that_error(
    document: dict[str, Any],
) -> None:
    made = written(document)
    assert made["metadata"] == document["metadata"]
    result = compiled(made)
    assert result.ok, [one.message for one in result.diagnostics]
    assert "ET2110" not in [one.code for one in result.diagnostics]


def test_policy_fields_go_into_the_run_policy() -> None:
    made = written(CONVERTIBLE[5])
    assert made["spec"]["runPolicy"] == {"backoffLimit": 3, "ttlSecondsAfterFinished": 100}


def test_a_list_of_replicas_becomes_a_mapping_with_their_restart_policy() -> None:
    types = written(CONVERTIBLE[1])["spec"]["tfReplicaSpecs"]
    assert {name: given["replicas"] for name, given in types.items()} == {
        "Master": 1,
        "Worker": 4,
        "PS": 2,
    }
    assert {given["restartPolicy"] for given in types.values()} == {"OnFailure"}
    assert all("restartPolicy" not in given["template"]["spec"] for given in types.values())


def test_a_port_of_its_own_is_kept() -> None:
    types = written(CONVERTIBLE[6])["spec"]["pytorchReplicaSpecs"]
    ports = types["Master"]["template"]["spec"]["containers"][0]["ports"]
    assert ports == [{"name": "pytorchjob-port", "containerPort": 23457}]


def test_one_template_becomes_a_launcher_and_workers_as_the_operator_made_them() -> None:
    limits = {"limits": {"memory": "1Gi"}}
    template = {"spec": {"containers": [{**MPI_GPUS, "resources": limits}]}}
    spec = written(job("v1alpha1", "MPIJob", gpus=16, template=template))["spec"]
    launcher, workers = (spec["mpiReplicaSpecs"][name] for name in ("Launcher", "Worker"))
    (lead,) = launcher["template"]["spec"]["containers"]
    (idle,) = workers["template"]["spec"]["containers"]
    assert (spec["slotsPerWorker"], workers["replicas"]) == (8, 2)
    assert "resources" not in lead
    assert lead["command"] == ["mpirun", "train"]
    assert "command" not in idle
    assert idle["resources"]["limits"] == {"memory": "1Gi", "nvidia.com/gpu": 8}


def test_a_container_is_renamed_where_its_operator_called_it_otherwise() -> None:
    types = written(CONVERTIBLE[11])["spec"]["xgbReplicaSpecs"]
    assert types["Master"]["template"]["spec"]["containers"][0]["name"] == "xgboost"


def test_the_hand_over_says_what_changed_and_names_the_resource_as_it_is() -> None:
    text = migration(CONVERTIBLE[5]).files["HANDOVER.md"]
    assert "spec.backoffLimit moves to spec.runPolicy.backoffLimit" in text
    assert "tfjob.v1beta2.kubeflow.org/old" in text


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (job("v1alpha2", "MPIJob", mpiDistribution="MPICH", mpiReplicaSpecs=MPI), "MPICH"),
        (job("v1alpha1", "MPIJob", gpus=12, template=pod("mpi")), "no multiple"),
        (job("v1alpha1", "MPIJob", gpus="many", template=pod("mpi")), "no number"),
        (job("v1alpha1", "MPIJob", template=pod("mpi")), "spec.replicas"),
        (job("v1alpha1", "MPIJob", replicas=1, launcherOnMaster=True, template=pod("m")), "node"),
        (job("v1alpha1", "TFJob", replicaSpecs=[{"tfReplicaType": "PS"}]), "no template"),
        (
            job(
                "v1alpha1",
                "TFJob",
                replicaSpecs=[entry("tfReplicaType", "WORKER", "tensorflow")] * 2,
            ),
            "told from the others",
        ),
        (
            job(
                "v1alpha1",
                "TFJob",
                replicaSpecs=[entry("tfReplicaType", "WORKER", "tensorflow", 2)],
                terminationPolicy={"chief": {"replicaName": "WORKER", "replicaIndex": 1}},
            ),
            "terminationPolicy",
        ),
        (job("v1beta1", "TFJob"), "tfReplicaSpecs"),
        ({**job("v1beta1", "TFJob"), "spec": None}, "no spec"),
    ],
)
def test_a_shape_without_a_counterpart_is_refused_with_the_reason(
    document: dict[str, Any], reason: str
) -> None:
    (problem,) = etcompile.compile([document]).diagnostics
    assert (problem.code, "cannot be converted automatically" in (problem.hint or "")) == (
        "ET2011",
        True,
    )
    assert reason in (problem.hint or "")
    assert not migration(document).files


@pytest.mark.parametrize(
    "spec",
    [
        {"replicaSpecs": [None]},
        {"replicaSpecs": [{"template": {"spec": {"containers": {}}}}]},
        {"replicaSpecs": [[]]},
        {"tfReplicaSpecs": []},
        {"tfReplicaSpecs": {"Worker": None}},
        {"tfReplicaSpecs": {"Worker": {"template": None}}},
        {"template": {"spec": {"containers": [1]}}},
        {"gpus": [], "template": {"spec": {"containers": [{"resources": []}]}}},
        {"replicas": 1, "template": {"spec": {"containers": [{"resources": {"limits": 5}}]}}},
        {"gpus": "9" * 5000, "template": {"spec": {"containers": [{}]}}},
        {"xgbReplicaSpecs": {"Master": {"template": {"spec": {"containers": [{}, 4]}}}}},
        [],
        "text",
    ],
)
@pytest.mark.parametrize("kind", ["TFJob", "PyTorchJob", "MXJob", "MPIJob", "XGBoostJob"])
def test_no_shape_is_too_odd_to_be_refused(kind: str, spec: Any) -> None:
    document = {**job("v1alpha1", kind), "spec": spec}
    assert errors(document), "refused, whichever version it is read as"
    assert not migration(document).files


@pytest.mark.parametrize(
    ("version", "kind", "meant"),
    [
        ("kubeflow.com/v1", "PyTorchJob", "kubeflow.org/v1"),
        ("kubeflow/v1", "TFJob", "kubeflow.org/v1"),
        ("Kubeflow.org/v1", "TFJob", "kubeflow.org/v1"),
        ("kubflow.org/v1", "JAXJob", "kubeflow.org/v1"),
        ("trainer.kubeflow.org/v1alpha1", "PyTorchJob", "kubeflow.org/v1"),
        ("v1", "TFJob", "kubeflow.org/v1"),
        ("kubeflow.com/v2beta1", "MPIJob", "kubeflow.org/v2beta1"),
        ("kubeflow.com/v1", "MPIJob", "kubeflow.org/v1"),
        ("kai.alibaba.com/v1alpha1", "TrainingJob", "kai.alibabacloud.com/v1alpha1"),
        ("alibabacloud.com/v1alpha1", "ScaleOut", "kai.alibabacloud.com/v1alpha1"),
        ("elastic.iml.github.com/v1alpha1", "ElasticJob", "elastic.iml.github.io/v1alpha1"),
    ],
)
def test_a_kind_of_ours_in_a_group_with_a_slip_is_an_error(
    version: str, kind: str, meant: str
) -> None:
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "a"}, "spec": {}}
    (problem,) = etcompile.compile([document]).diagnostics
    assert (problem.code, problem.hint) == ("ET2111", f"did you mean apiVersion: {meant}?")


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("sagemaker.services.k8s.aws/v1alpha1", "TrainingJob"),
        ("training.kubedl.io/v1alpha1", "TFJob"),
        ("batch.paddlepaddle.org/v1", "PaddleJob"),
        ("example.com/v1", "ElasticJob"),
    ],
)
def test_a_kind_of_the_same_name_of_another_project_passes(version: str, kind: str) -> None:
    other = {"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "b"}}
    result = compiled(kubeflow_job("TFJob", {"Worker": 1}), other)
    assert result.ok
    assert other in [*result.objects]


def test_a_job_of_torchelastic_is_not_sent_to_dlrover() -> None:
    document = {**job("v1alpha1", "ElasticJob"), "apiVersion": "elastic.pytorch.org/v1alpha1"}
    [problem] = etcompile.compile([document]).diagnostics
    assert problem.code == "ET2011"
    assert "PyTorchJob with an elasticPolicy" in (problem.hint or "")


@pytest.mark.parametrize("kind", ["PytorchJob", "PyTorchJobs", "pytorchjob", "TFjob"])
def test_a_misspelt_kind_is_named_as_it_was_meant(kind: str) -> None:
    [problem] = etcompile.compile([job("v1", kind)]).diagnostics
    assert problem.code == "ET2013"
    meant = "TFJob" if kind == "TFjob" else "PyTorchJob"
    assert problem.hint == f"did you mean '{meant}'?"
