"""A folder with jobs in a real Git repository, and the command run in it."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import commandline
from commandline import etcompile
from specs import scale_out, training_job

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def git(tmp_path: Path) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        return commandline.git(tmp_path, *arguments).strip()

    return run


@pytest.fixture
def jobs(tmp_path: Path, git: Callable[..., str]) -> Path:
    """A repository with a job of two workers, committed, and a scale-out that is not."""
    folder = tmp_path / "jobs"
    folder.mkdir()
    job = training_job()
    job["metadata"]["namespace"] = "ml"
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "job")
    out = scale_out("more", 1)
    out["metadata"]["namespace"] = "ml"
    (folder / "out.yaml").write_text(yaml.safe_dump(out))
    return folder


@pytest.fixture
def diff(tmp_path: Path) -> Run:
    def run(
        *arguments: str | Path, command: str = "diff", code: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        return etcompile(command, *arguments, cwd=tmp_path, code=code)

    return run
