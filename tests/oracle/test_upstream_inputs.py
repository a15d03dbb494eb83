"""Upstream's own example files, unchanged, where they are at hand."""

import os
from pathlib import Path

import pytest

import etcompile
from specs import pods

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs"))
FOLDER = INPUTS / "et-operator"
KUBEFLOW = [
    path
    for system in ("training-operator", "mpi-operator")
    for path in sorted((INPUTS / system).rglob("*.y*ml"))
]
STRICT = {
    "mx_job_tune_gpu_v1.yaml": ["TunerServer has no field 'label'"],
    "pvc.yaml": ["'Your storageClassName' is not the name of a StorageClass"],
    "xgboostjob_v1alpha1_rabit_test.yaml": ["has no field 'apiVersion'", "has no field 'kind'"] * 2,
}
"""Files that the API server refuses too, for the same fields (reference/training-operator.md 1.4;
the name of a storage class is left to its reader to fill in)."""

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir(), reason=f"upstream's example files are absent: no {FOLDER}"
)


@pytest.mark.parametrize(
    ("scalers", "indexes"),
    [
        ([], [0, 1]),
        (["scale_out"], [0, 1, 2, 3]),
        (["scale_in_count"], [0]),
        (["scale_in_pod"], [0]),
        (["scale_in_count", "scale_out"], [0, 1, 2]),
    ],
    ids=str,
)
def test_they_compile_unchanged(scalers: list[str], indexes: list[int]) -> None:
    files = [FOLDER / f"{name}.yaml" for name in ("training_job", *scalers)]
    result = etcompile.compile(files)
    assert result.ok, result.diagnostics
    assert pods(result) == [f"elastic-training-worker-{index}" for index in indexes]


def test_together_they_are_refused_because_one_removes_a_worker_that_is_gone() -> None:
    files = [FOLDER / f"{name}.yaml" for name in ("training_job", "scale_in_count", "scale_in_pod")]
    [problem] = [d for d in etcompile.compile(files).diagnostics if d.code.startswith("ET3")]
    assert problem.code == "ET3002"
    assert problem.location is not None
    assert problem.location.line == 10


@pytest.mark.parametrize("path", KUBEFLOW, ids=lambda path: path.stem)
def test_every_kubeflow_example_compiles_or_is_refused_as_by_kubectl(path: Path) -> None:
    result = etcompile.compile([path])
    errors = [d.message for d in result.diagnostics if d.severity is etcompile.Severity.ERROR]
    wanted = STRICT.get(path.name, [])
    assert len(errors) == len(wanted)
    assert all(text in error for text, error in zip(wanted, errors, strict=True))
    assert result.ok == (not wanted)


def test_all_of_them_are_at_hand() -> None:
    assert len(KUBEFLOW) > 30
