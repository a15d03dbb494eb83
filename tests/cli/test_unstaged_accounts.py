"""Flux, one Kustomization, and a Pod whose account comes with it: a warning at render."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from commandline import etcompile
from specs import kubeflow_job, launcher, training_job


def render(folder: Path, document: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    jobs = folder / "jobs.yaml"
    jobs.write_text(yaml.safe_dump(document))
    return etcompile("render", jobs, *words)


def test_flux_would_sync_neither_the_account_nor_the_pod(tmp_path: Path) -> None:
    words = ("--config", "profile=flux", "-d", str(tmp_path / "out"))
    done = render(tmp_path, training_job(), *words)
    assert done.returncode == 0
    assert "ET4015" in done.stderr
    assert "'mnist-launcher'" in done.stderr
    assert "--config layout=staged" in done.stderr
    done = render(tmp_path, training_job(), *words, "--check", "--strict")
    assert done.returncode == 2, "in CI a warning may count"


def job_with_account() -> dict[str, Any]:
    document = training_job()
    launcher(document)["template"]["spec"]["serviceAccountName"] = "mine"
    return document


@pytest.mark.parametrize(
    ("document", "settings"),
    [
        (training_job(), ("profile=flux", "layout=staged")),
        (training_job(), ("profile=argocd",)),
        (kubeflow_job("PyTorchJob", {"Worker": 2}), ("profile=flux",)),
        (job_with_account(), ("profile=flux",)),
    ],
    ids=["two stages", "another tool", "no account", "an account of theirs"],
)
def test_there_is_no_reason_to_warn(
    tmp_path: Path, document: dict[str, Any], settings: tuple[str, ...]
) -> None:
    words = [f"--config={setting}" for setting in settings]
    done = render(tmp_path, document, *words, "-d", str(tmp_path / "out"))
    assert (done.returncode, "ET4015" in done.stderr) == (0, False)
