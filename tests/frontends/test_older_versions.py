"""Jobs of API versions that no operator serves any more: what compiles, and what the error says.

The shapes are those of the examples that tf-operator, pytorch-operator, mxnet-operator,
xgboost-operator and mpi-operator had beside each version.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

import etcompile
from etcompile import Options, frontends
from etcompile.cli.check import command
from etcompile.cli.scale import command as scale
from etcompile.integrations.krm.function import answer
from etcompile.integrations.migrate import Migrated, migrated
from etcompile.load import from_values
from specs import compiled, errors, kubeflow_job, manifest


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


def one(role: str, container: str, count: int | None = 1) -> dict[str, Any]:
    """One role of a job, with a plain template."""
    numbered = {} if count is None else {"replicas": count}
    return {role: {**numbered, "template": pod(container)}}


MPI = {**one("Launcher", "mpi"), **one("Worker", "mpi", 2)}
SCHEDULER = one("Scheduler", "mxnet")
WORKER = one("Worker", "pytorch", None)
AFTER = {"ttlSecondsAfterFinished": 100, "backoffLimit": 3}
XGBOOST = "xgboostjob.kubeflow.org"
OF_TODAY = [
    job("v1alpha2", "TFJob", tfReplicaSpecs=one("Worker", "tensorflow", None)),
    job("v1beta1", "TFJob", cleanPodPolicy="Running", tfReplicaSpecs=one("PS", "tensorflow", 2)),
    job("v1beta2", "TFJob", **AFTER, tfReplicaSpecs=one("Chief", "tensorflow", None)),
    job(
        "v1beta1", "PyTorchJob", cleanPodPolicy="All", pytorchReplicaSpecs=one("Master", "pytorch")
    ),
    job("v1beta2", "PyTorchJob", pytorchReplicaSpecs=WORKER),
    job("v1beta1", "MXJob", jobMode="MXTrain", cleanPodPolicy="All", mxReplicaSpecs=SCHEDULER),
    job(
        f"{XGBOOST}/v1",
        "XGBoostJob",
        cleanPodPolicy="None",
        xgbReplicaSpecs=one("Master", "xgboost"),
    ),
    job("v1alpha2", "MPIJob", slotsPerWorker=1, mpiReplicaSpecs=MPI),
    job("v2", "MPIJob", slotsPerWorker=1, cleanPodPolicy="Running", mpiReplicaSpecs=MPI),
    job("v1alpha2", "PyTorchJob", pytorchReplicaSpecs=WORKER),
    job("v1alpha2", "MXJob", jobMode="MXTrain", mxReplicaSpecs=SCHEDULER),
    job(f"{XGBOOST}/v1alpha1", "XGBoostJob", xgbReplicaSpecs=one("Master", "xgboost")),
]
OF_OTHER_SHAPE = [
    job("v1alpha1", "TFJob", replicaSpecs=[entry("tfReplicaType", "MASTER", "tensorflow")]),
    job(
        "v1alpha1",
        "TFJob",
        RuntimeId="76no",
        replicaSpecs=[entry("tfReplicaType", "MASTER", "tensorflow", tfPort=2222)],
        terminationPolicy={"chief": {"replicaName": "MASTER", "replicaIndex": 0}},
    ),
    job(
        "v1alpha1",
        "PyTorchJob",
        backend="gloo",
        masterPort="23457",
        replicaSpecs=[entry("replicaType", "MASTER", "pytorch")],
    ),
    job(
        "v1alpha1",
        "MXJob",
        jobMode="dist",
        replicaSpecs=[entry("mxReplicaType", "SCHEDULER", "mxnet", PsRootPort=9000)],
    ),
    job("v1alpha1", "MPIJob", gpus=16, template=pod("mpi", restartPolicy="OnFailure")),
    job(
        "v1alpha1",
        "MPIJob",
        processingUnits=4,
        processingResourceType="cpu",
        launcherOnMaster=False,
        template=pod("mpi"),
    ),
    job("v1alpha1", "MPIJob", replicas=2, slotsPerWorker=4, backoffLimit=2, template=pod("mpi")),
]
WITH_DROPPED_FIELDS = [
    job(
        "v1beta2", "TFJob", ttlSecondsAfterFinishing=100, tfReplicaSpecs=one("Worker", "tensorflow")
    ),
    job("v1alpha2", "MPIJob", mpiDistribution="MPICH", mpiReplicaSpecs=MPI),
    job("v1beta1", "TFJob"),
    {**job("v1beta1", "TFJob"), "spec": None},
]


def migration(document: dict[str, Any]) -> Migrated:
    return migrated(from_values([document]).documents)


def written(document: dict[str, Any]) -> dict[str, Any]:
    result = migration(document)
    assert result.files, [one.message for one in result.diagnostics]
    converted: dict[str, Any] = yaml.safe_load(result.files["old.yaml"])
    return converted


@pytest.mark.parametrize("document", OF_TODAY)
def test_older_api_version_compiles_if_only_its_name_differs(document: dict[str, Any]) -> None:
    result = etcompile.compile([document])
    assert result.ok
    assert "ET2113" in {one.code for one in result.diagnostics}
    converted = written(document)
    assert converted["metadata"] == document["metadata"]
    assert result.objects == etcompile.compile([converted]).objects


@pytest.mark.parametrize("document", WITH_DROPPED_FIELDS)
def test_fields_that_a_version_dropped_since_are_refused_by_name(document: dict[str, Any]) -> None:
    result = etcompile.compile([document])
    assert not result.ok
    hints = [one.hint for one in result.diagnostics if one.code == "ET2113"]
    assert hints == ["write apiVersion: kubeflow.org/v1"]
    of_today = {"mpiReplicaSpecs", "tfReplicaSpecs"}
    messages = [one.message for one in result.diagnostics]
    for name in (document["spec"] or {}).keys() - of_today:
        assert f"spec has no field '{name}'" in messages
    assert not migration(document).files


@pytest.mark.parametrize("document", OF_OTHER_SHAPE)
def test_version_of_another_shape_is_refused_with_the_steps_to_today(
    document: dict[str, Any],
) -> None:
    [problem] = etcompile.compile([document]).diagnostics
    assert problem.code == "ET2011"
    assert problem.fix is None
    hint = problem.hint or ""
    assert "kubeflow.org/v" in hint
    dropped = {"processingResourceType", "launcherOnMaster", "slotsPerWorker", "jobMode"}
    for name in document["spec"].keys() - dropped:
        assert name in hint
    assert not migration(document).files


def test_every_older_version_in_the_table_has_a_test() -> None:
    tested = {
        (one["kind"], one["apiVersion"]): one in OF_TODAY for one in [*OF_TODAY, *OF_OTHER_SHAPE]
    }
    rows = [row for kind in frontends.kinds() for row in frontends.older_versions(kind.name)]
    of_operators = {row for row in rows if "elastic.pytorch.org" not in row.version}
    assert {(row.kind, row.version): bool(row.today) for row in of_operators} == tested


@pytest.mark.parametrize(
    "kind", frontends.kinds(), ids=lambda kind: f"{kind.name}-{kind.api_version}"
)
def test_version_that_never_existed_is_refused_and_the_known_ones_are_named(kind: Any) -> None:
    group, _, _ = kind.api_version.partition("/")
    [problem] = etcompile.compile([job(f"{group}/v99", kind.name)]).diagnostics
    assert (problem.code, problem.fix) == ("ET2011", None)
    assert kind.api_version in (problem.hint or "")
    for row in frontends.older_versions(kind.name):
        if row.today == kind.api_version:
            assert row.version in (problem.hint or "")


def test_fix_writes_no_version_over_one_of_another_shape(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(OF_OTHER_SHAPE[-1]))
    before = file.read_text()
    assert CliRunner().invoke(command, ["--unsafe-fixes", str(file)]).exit_code == 2
    assert file.read_text() == before


def test_policy_fields_go_into_the_run_policy() -> None:
    document = next(one for one in OF_TODAY if "ttlSecondsAfterFinished" in one["spec"])
    converted = written(document)
    assert converted["spec"]["runPolicy"] == {"backoffLimit": 3, "ttlSecondsAfterFinished": 100}
    text = migration(document).files["HANDOVER.md"]
    assert "apiVersion kubeflow.org/v1beta2 becomes kubeflow.org/v1" in text
    assert "spec.backoffLimit moves to spec.runPolicy.backoffLimit" in text
    assert "tfjob.v1beta2.kubeflow.org/old" in text


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
    version = "xgboostjob.kubeflow.org/v1" if kind == "XGBoostJob" else "v1alpha2"
    document = {**job(version, kind), "spec": spec}
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


@pytest.mark.parametrize(
    ("version", "kind", "meant"),
    [
        *(("v1", kind, "PyTorchJob") for kind in ("PytorchJob", "PyTorchJobs", "pytorchjob")),
        ("v1", "TFjob", "TFJob"),
        ("kai.alibabacloud.com/v1alpha1", "Scaleout", "ScaleOut"),
    ],
)
def test_a_misspelt_kind_is_named_as_it_was_meant(version: str, kind: str, meant: str) -> None:
    [problem] = etcompile.compile([job(version, kind)]).diagnostics
    assert problem.code == "ET2013"
    assert problem.hint == f"did you mean '{meant}'?"


@pytest.mark.parametrize(("version", "kind"), [("v1beta2", "ConfigMap"), ("v99", "PyTorchJob")])
def test_krm_function_compiles_older_versions_and_refuses_unknown_ones(
    version: str, kind: str
) -> None:
    document = job(
        version, "PyTorchJob", pytorchReplicaSpecs={"Worker": {"template": pod("pytorch")}}
    )
    config = manifest("EtcompileTransformer", "jobs", api_version="etcompile.dev/v1alpha1")
    for items, function in (([document], config), ([], document)):
        values = {
            "apiVersion": "config.kubernetes.io/v1",
            "kind": "ResourceList",
            "items": items,
            "functionConfig": function,
        }
        answered = answer(yaml.safe_dump(values).encode(), Options())
        kinds = [item["kind"] for item in yaml.safe_load("".join(answered.texts()))["items"]]
        assert answered.refused == (version == "v99")
        assert kinds[:1] == ([kind] if items or not answered.refused else [])


def test_scale_finds_a_job_of_an_older_version(tmp_path: Path) -> None:
    document = job(
        "v1beta2",
        "PyTorchJob",
        elasticPolicy={"minReplicas": 1, "maxReplicas": 4},
        pytorchReplicaSpecs={"Worker": {"replicas": 2, "template": pod("pytorch")}},
    )
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(document))
    done = CliRunner().invoke(scale, ["old", "--to", "3", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (
        yaml.safe_load(file.read_text())["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 3
    )
