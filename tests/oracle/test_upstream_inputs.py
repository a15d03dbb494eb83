"""Upstream's own example files, unchanged, where they are at hand."""

import os
from pathlib import Path

import pytest

import etcompile
from specs import pods

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs"))
FOLDER = INPUTS / "et-operator"

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
