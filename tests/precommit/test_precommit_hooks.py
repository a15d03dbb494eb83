"""The real pre-commit runs the hooks of this checkout, installed as it installs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from commandline import git
from etcompile.cli import check
from specs import scale_in, scale_out, training_job

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def hooks(tmp_path_factory) -> tuple[Path, str]:
    """A repository with this checkout as it is now, and its commit."""
    copy = tmp_path_factory.mktemp("checkout")
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    files = (".pre-commit-hooks.yaml", "pyproject.toml", "README.md", "LICENSE")
    folders = ("etcompile/", "schemas/", "templates/", "overlays/", "examples/", "golden/")
    for name in filter(None, listed.split("\0")):
        if (name in files or name.startswith(folders)) and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    git(copy, "init", "-q")
    git(copy, "add", "-A")
    git(copy, "commit", "-q", "-m", "checkout")
    return copy, git(copy, "rev-parse", "HEAD").strip()


@pytest.fixture
def repository(tmp_path, hooks) -> Path:
    """A user's repository with a rendered job, which has both hooks."""
    folder = tmp_path / "repository"
    (folder / "jobs").mkdir(parents=True)
    (folder / "jobs" / "bert.yaml").write_text(yaml.safe_dump(training_job("bert")))
    command = [sys.executable, "-m", "etcompile", "render", "jobs", "-d", "out", "-q"]
    subprocess.run(command, cwd=folder, check=True)
    named = [{"id": "etcompile-check"}, {"id": "etcompile-render"}]
    config = {"repos": [{"repo": str(hooks[0]), "rev": hooks[1], "hooks": named}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    return folder


def commit(folder: Path, cache: Path) -> "subprocess.CompletedProcess[str]":
    """What pre-commit says to a commit of everything that changed."""
    git(folder, "add", "-A")
    command = [sys.executable, "-m", "pre_commit", "run"]
    environment = {**os.environ, "PRE_COMMIT_HOME": str(cache)}
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode == 0:
        git(folder, "commit", "-q", "--no-verify", "-m", "change")
    return done


@pytest.mark.programs  # pip installs the checkout, with all that it needs
def test_hooks_pass_a_good_commit_and_stop_others(repository, tmp_path, require):
    """One test, as pre-commit installs the checkout for it."""
    cache = tmp_path / "cache"
    first = commit(repository, cache)
    if "pip" in first.stdout and "CalledProcessError" in first.stdout:
        require("pre-commit", present=False, why="pip cannot install this checkout")
    assert first.returncode == 0, first.stdout + first.stderr
    assert first.stdout.count("Passed") == 2

    # A scale intent alone is changed: it is checked with its job, and the output is old.
    file = repository / "jobs" / "more.yaml"
    file.write_text(yaml.safe_dump(scale_out("more", 1, job="bert")))
    second = commit(repository, cache)
    assert second.returncode == 1
    assert "etcompile check...." in second.stdout
    assert second.stdout.count("Passed") == 1
    assert "missing  out/" in second.stdout or "changed  out/" in second.stdout

    # A mistake stops the commit with the place where it is.
    job = training_job("bert", replicas=12)
    job["spec"]["etReplicaSpecs"]["worker"]["maxReplicas"] = 8
    (repository / "jobs" / "bert.yaml").write_text(yaml.safe_dump(job))
    third = commit(repository, cache)
    assert third.returncode == 1
    assert "Passed" not in third.stdout
    assert "error[ET2003]: worker.replicas 12 is above maxReplicas 8" in third.stdout
    assert "--> jobs/bert.yaml:" in third.stdout


def test_scale_intent_is_checked_with_the_job_in_the_same_folder(tmp_path):
    for name, value in {
        "bert.yaml": training_job("bert"),
        "more.yaml": scale_out("more", 1, job="bert"),
        ".hidden.yaml": {"no": "object"},
    }.items():
        (tmp_path / name).write_text(yaml.safe_dump(value))
    (tmp_path / "notes.txt").write_text("[")
    intent = str(tmp_path / "more.yaml")
    assert "1 scale intent" in CliRunner().invoke(check.command, [intent]).stderr
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(scale_in("less", 99, job="bert")))
    assert CliRunner().invoke(check.command, [intent]).exit_code == 0
    assert CliRunner().invoke(check.command, ["--beside", intent]).exit_code == 2


def test_the_hooks_are_of_the_form_that_pre_commit_wants():
    from pre_commit.clientlib import load_manifest

    listed = load_manifest(str(ROOT / ".pre-commit-hooks.yaml"))
    assert [hook["id"] for hook in listed] == ["etcompile-check", "etcompile-render"]
