"""Upstream's own example files, unchanged, where they are at hand.

Those of et-operator are among the recordings.
"""

import os
from pathlib import Path

import pytest

import etcompile

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs"))
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
    not KUBEFLOW, reason=f"upstream's example files are not in {INPUTS}"
)


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
