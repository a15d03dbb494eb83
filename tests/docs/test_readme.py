"""What the README shows is what happens."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


def block(start: str) -> str:
    """The fenced block of the README that begins with a text."""
    [found] = [b for b in re.findall(r"```\w*\n(.*?)```", README, re.DOTALL) if b.startswith(start)]
    return str(found)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "bert.yaml").write_text(block("# jobs/bert.yaml"))
    return tmp_path


def etcompile(repository: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "etcompile", *words]
    return subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False)


def test_the_worked_example_writes_the_files_it_names(repository: Path) -> None:
    assert etcompile(repository, "render", "jobs/", "-o", "out/").returncode == 0
    named = {line.split()[0] for line in block("out/kustomization.yaml").splitlines()}
    files = (path for path in repository.glob("out/**/*") if path.is_file())
    found = {path.relative_to(repository).as_posix() for path in files}
    assert found == named


def test_the_mistake_reads_as_shown(repository: Path) -> None:
    job = repository / "jobs" / "bert.yaml"
    job.write_text(job.read_text().replace("replicas: 2", "replicas: 12"))
    assert etcompile(repository, "check", "jobs/").stderr == block("error[ET2003]")


def test_the_python_example_is_the_api() -> None:
    import etcompile

    names = re.findall(r"etcompile\.(\w+)", block("import etcompile"))
    assert names
    assert all(hasattr(etcompile, name) for name in names)


def test_every_link_to_a_file_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    root = Path(__file__).parents[2]
    assert links
    assert [link for link in links if not (root / link).exists()] == []
