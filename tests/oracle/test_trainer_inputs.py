"""Upstream's own TrainJobs and runtimes, unchanged, where they are at hand.

Each renders, or is refused for what it says. A runtime alone is no output, so each is asked with a
job that names it.
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

import etcompile
from etcompile.diagnostics import has_errors

ROOT = Path(__file__).parents[2]
INPUTS = Path(os.environ.get("ETCOMPILE_INPUTS", ROOT.parent / "shared" / "inputs")) / "trainer-v2"
FILES = sorted(INPUTS.glob("*/**/*.yaml"))
NO_RUNTIME = ", which TrainJob"
FLUX = "Flux, which starts the processes"
REFUSED = {
    "05-multi-step": "what it fetches would reach nobody",  # T8, T10
    "kai-1": "needs 'replicatedJobs'",
    "kai-2": NO_RUNTIME,
    "megatron-1": "needs 'image'",
    "runtime-4": NO_RUNTIME,
    "runtime-patches-1": NO_RUNTIME,
    "flux-runtime": FLUX,
    "flux-interactive": NO_RUNTIME,
    "lammps-train-gpus": NO_RUNTIME,
    "lammps-train-job": NO_RUNTIME,
}

pytestmark = pytest.mark.skipif(not FILES, reason=f"upstream's example files are absent: {INPUTS}")


def with_jobs(path: Path) -> list[dict[str, Any]]:
    """The documents of a file, and a job for runtimes that none of them names."""
    documents = [value for value in yaml.safe_load_all(path.read_text()) if value]
    if any(value["kind"] == "TrainJob" for value in documents):
        return documents
    jobs = []
    for value in documents:
        reference = {"kind": value["kind"], "name": value["metadata"]["name"]}
        metadata = {"name": "asked", "namespace": value["metadata"].get("namespace", "ml")}
        job = {"apiVersion": value["apiVersion"], "kind": "TrainJob", "metadata": metadata}
        jobs.append({**job, "spec": {"runtimeRef": reference, "trainer": {"numNodes": 2}}})
    return [*documents, *jobs]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_renders_or_is_refused_for_what_it_says(path: Path) -> None:
    result = etcompile.compile(with_jobs(path))
    errors = [one.message for one in result.diagnostics if has_errors([one])]
    if reason := REFUSED.get(path.stem):
        assert any(reason in message for message in errors), errors
    else:
        assert result.ok, errors
        kinds = {value["kind"] for value in result.objects}
        suspended = any(one.code == "ET2046" for one in result.diagnostics)
        assert kinds >= {"ConfigMap", "Service"} | (set() if suspended else {"Pod"})


def test_flux_is_refused_together_with_its_runtime() -> None:
    folder = INPUTS / "examples" / "flux"
    files = [folder / "flux-runtime.yaml", folder / "lammps-train-job.yaml"]
    compilation = etcompile.compile(files)
    assert [one.where for one in compilation.diagnostics if has_errors([one])] == [
        "spec.mlPolicy.flux"
    ]


def test_there_are_as_many_as_upstream_has() -> None:
    assert len(FILES) > 25
