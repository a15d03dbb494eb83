"""A change that a running Pod cannot take is refused in the pull request, whatever was deleted.

With the real git, and the commands that the generated workflow runs.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from commandline import etcompile

RENDER = "etcompile render jobs/ --environment prod -d out/prod"
COMMAND = ("range(600)", "range(700)")
"""A change of a container's arguments, which a Pod that exists cannot take."""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory) -> Path:
    """A repository as `etcompile init` makes it, committed to main."""
    folder = tmp_path_factory.mktemp("upstream") / "training"
    folder.mkdir()
    sh(folder, "git init -q -b main && etcompile init . -q && git add -A && git commit -qm init")
    return folder


@pytest.fixture
def clone(upstream: Path, tmp_path: Path) -> Path:
    sh(tmp_path, f"git clone -q {upstream} clone && git -C clone switch -qc change")
    return tmp_path / "clone"


def sh(folder: Path, script: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    done = run(folder, script, **variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def run(folder: Path, script: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    identity = {
        f"GIT_{who}_{what}": "t@e" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, **identity, "PATH": path, **variables}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def edit(folder: Path, old: str, new: str) -> None:
    job = folder / "jobs" / "hello.yaml"
    text = job.read_text()
    assert old in text
    job.write_text(text.replace(old, new))


def ci(folder: Path, base: str = "main") -> tuple[int, str]:
    """What the generated workflow says to a pull request: its exit code and its output."""
    workflow = yaml.safe_load((folder / ".github" / "workflows" / "etcompile.yaml").read_text())
    said = ""
    for step in workflow["jobs"]["rendered"]["steps"]:
        if step.get("run", "").startswith("etcompile ") and (base or "if" not in step):
            done = run(folder, step["run"], GITHUB_BASE_REF=base)
            said += done.stdout + done.stderr
            if done.returncode:
                return done.returncode, said
    return 0, said


def test_workflow_fetches_the_branch_that_it_compares_with(upstream: Path) -> None:
    workflow = yaml.safe_load((upstream / ".github" / "workflows" / "etcompile.yaml").read_text())
    [checkout] = [step for step in workflow["jobs"]["rendered"]["steps"] if "checkout" in str(step)]
    assert checkout["with"]["fetch-depth"] == 0


def test_readme_never_says_to_delete_the_output(upstream: Path) -> None:
    assert "delete `out" not in (upstream / "README.md").read_text()


@pytest.mark.parametrize("way", ["rm -r out/prod", "git rm -qr out/prod", "true"])
def test_forbidden_change_is_refused_however_it_was_rendered(clone: Path, way: str) -> None:
    edit(clone, *COMMAND)
    replace = " --replace" if way == "true" else ""
    sh(clone, f"{way} && {RENDER}{replace} && git add -A && git commit -qm change")
    code, said = ci(clone)
    assert code == 2
    assert "error[ET5008]: Pods hello-worker-0 and hello-worker-1" in said
    assert "etcompile.dev/run" in said
    # What merging would do stands there, too.
    assert re.search("replace +Pod training/hello-worker-0", said)


def test_change_with_another_run_passes(clone: Path) -> None:
    edit(clone, *COMMAND)
    edit(clone, "  name: hello\n", "  name: hello\n  annotations: {etcompile.dev/run: two}\n")
    sh(clone, f"{RENDER} && git add -A && git commit -qm change")
    code, said = ci(clone)
    assert (code, "up to date" in said) == (0, True), said


def test_accepted_replacement_passes_with_a_warning(clone: Path) -> None:
    edit(clone, *COMMAND)
    sh(clone, f"{RENDER} --replace && git add -A && git commit -qm change")
    said = sh(clone, f"{RENDER} --check --replace", GITHUB_BASE_REF="main").stderr
    assert "warning[ET5010]" in said


def test_job_may_change_as_the_readme_says_before_it_is_merged(clone: Path) -> None:
    job = clone / "jobs" / "hello.yaml"
    (clone / "jobs" / "new.yaml").write_text(job.read_text().replace("name: hello", "name: new"))
    sh(clone, f"{RENDER} && git add -A && git commit -qm new")
    new = clone / "jobs" / "new.yaml"
    new.write_text(new.read_text().replace(*COMMAND))
    [row] = [
        line
        for line in (clone / "README.md").read_text().splitlines()
        if line.startswith("| change a job before it is merged ")
    ]
    sh(clone, row.split("`")[1])
    sh(clone, "git add -A && git commit -qm edit")
    assert ci(clone)[0] == 0


def test_branch_that_is_behind_is_compared_with_where_it_began(
    upstream: Path, tmp_path: Path
) -> None:
    shutil.copytree(upstream, tmp_path / "main")
    sh(tmp_path, "git clone -q main clone && git -C clone switch -qc change")
    edit(tmp_path / "main", *COMMAND)
    sh(tmp_path / "main", f"{RENDER} --replace && git add -A && git commit -qm forced")
    clone = tmp_path / "clone"
    sh(clone, "git fetch -q && git commit -q --allow-empty -m nothing")
    assert ci(clone)[0] == 0


def test_push_to_main_is_compared_with_the_folder_alone(clone: Path) -> None:
    edit(clone, *COMMAND)
    sh(clone, f"rm -r out/prod && {RENDER} && git add -A && git commit -qm change")
    assert ci(clone, base="")[0] == 0


GITLAB = {
    "commit": {"CI_MERGE_REQUEST_DIFF_BASE_SHA": "main"},
    "branch": {"CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"},
}


@pytest.mark.parametrize("variables", GITLAB.values(), ids=GITLAB)
def test_base_of_a_gitlab_merge_request_comes_from_gitlab_variables(clone: Path, variables) -> None:
    edit(clone, *COMMAND)
    sh(clone, f"rm -r out/prod && {RENDER} && git add -A && git commit -qm change")
    assert "ET5008" in run(clone, f"{RENDER} --check", **variables).stderr


def test_named_revision_counts_before_that_of_ci(clone: Path) -> None:
    edit(clone, *COMMAND)
    sh(clone, f"rm -r out/prod && {RENDER} && git add -A && git commit -qm change")
    command = f"{RENDER} --check --against"
    assert run(clone, f"{command} HEAD", GITHUB_BASE_REF="main").returncode == 0
    assert run(clone, f"{command} HEAD~1", GITHUB_BASE_REF="change").returncode == 2


@pytest.mark.parametrize("depth", ["--depth 1", "--depth 1 --no-single-branch"])
def test_shallow_clone_has_one_error_with_the_remedy(
    clone: Path, tmp_path: Path, depth: str
) -> None:
    sh(clone, "git commit -q --allow-empty -m one")
    sh(tmp_path, f"git clone -q {depth} file://{clone} shallow")
    done = run(tmp_path / "shallow", f"{RENDER} --check", GITHUB_BASE_REF="main")
    assert done.returncode == 2
    assert done.stderr.count("error[") == 1
    assert "fetch-depth: 0" in done.stderr
    assert "GIT_DEPTH: 0" in done.stderr
    other = run(tmp_path / "shallow", "etcompile diff jobs --against origin/nowhere")
    assert "fetch-depth: 0" in other.stderr


def test_folder_outside_of_a_repository_has_no_base(clone: Path, tmp_path: Path) -> None:
    shutil.copytree(clone / "out" / "prod", tmp_path / "copy")
    elsewhere = f"{RENDER} --check".replace("out/prod", str(tmp_path / "copy"))
    assert run(clone, elsewhere, GITHUB_BASE_REF="nowhere").returncode == 0


def render(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return etcompile(*shlex.split(RENDER)[1:], *words, cwd=folder)


def test_what_check_says_to_run_is_not_refused(clone: Path) -> None:
    pods = clone / "out" / "prod" / "hello" / "91-workers.yaml"
    lock = clone / "out" / "prod" / "etcompile.lock.json"

    def by_hand(file: Path) -> None:
        file.write_text(file.read_text().replace("hello", "mine", 1) + "# mine\n")

    changes = {
        "image": lambda: edit(clone, "pytorch/pytorch:2.5.1-", "pytorch/pytorch:2.5.2-"),
        "scaled": lambda: edit(clone, "replicas: 2\n", "replicas: 3\n"),
        "missing": pods.unlink,
        "edited": lambda: by_hand(pods),
        "conflict": lambda: lock.write_text(f"<<<<<<< HEAD\n{lock.read_text()}"),
        "gone": lambda: shutil.rmtree(clone / "out"),
        "forbidden": lambda: edit(clone, *COMMAND),
    }
    for name, change in changes.items():
        sh(clone, "git checkout -q . && git clean -qfd")
        change()
        done = render(clone, "--check")
        if done.returncode == 2:
            assert name == "forbidden"
            assert "commit the result" not in done.stderr
            assert render(clone).returncode == 2
            continue
        assert done.returncode == 1, name
        assert "commit the result" in done.stderr, name
        force = ["--force"] if "render --force" in done.stderr else []
        assert render(clone, *force).returncode == 0, name
        assert render(clone, "--check").returncode == 0, name
