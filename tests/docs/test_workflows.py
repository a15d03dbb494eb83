"""The workflows of this repository: actionlint accepts them, and they do what .ci/run does."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from etcompile.check.kubernetes import versions

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
CI = (ROOT / ".ci" / "run").read_text("utf-8")
BROUGHT_BY_THE_RUNNER = {"git", "chromium", "nodejs", "npm"}
"""What .ci/run installs where it is missing, and the image `ubuntu-24.04` has."""

every_workflow = pytest.mark.parametrize("file", WORKFLOWS, ids=lambda path: path.stem)


def workflow(name: str) -> dict[Any, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))


def steps(jobs: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in jobs.values() for step in job.get("steps", [])]


def test_actionlint_accepts_them(consumer) -> None:
    # Without the linters that it would find on PATH: each machine has others.
    command = [consumer("actionlint"), "-no-color", "-shellcheck=", "-pyflakes=", *WORKFLOWS]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@every_workflow
def test_actions_of_others_are_pinned_to_a_commit_with_its_version(file: Path) -> None:
    """A tag can be moved. Dependabot updates the commit and the comment."""
    used = re.findall(r"uses: (?!\./)(.+)", file.read_text("utf-8"))
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action


@every_workflow
def test_the_token_may_do_no_more_than_is_said(file: Path) -> None:
    content = workflow(file.name)
    assert content["permissions"] in ({}, {"contents": "read"})
    triggers = content[True]  # `on`, as YAML 1.1 reads it
    assert "pull_request_target" not in triggers
    if "pull_request" in triggers:
        # What somebody proposes runs with no right to write.
        writing = [
            job
            for job in content["jobs"].values()
            if "write" in job.get("permissions", {}).values()
        ]
        assert all(job["if"] == "github.event_name == 'push'" for job in writing)
    if not content["permissions"]:
        assert all(job["permissions"] for job in content["jobs"].values())


def test_only_the_steps_that_publish_may_write() -> None:
    jobs = workflow("release.yml")["jobs"]
    writes = {
        name: {key for key, value in job["permissions"].items() if value == "write"}
        for name, job in jobs.items()
    }
    assert writes == {
        "test": set(),
        "build": set(),
        "single": set(),
        "attest": {"attestations", "id-token"},
        "images": {"packages"},
        "sign": {"attestations", "id-token", "packages"},
        "publish": {"id-token"},
        "chart": {"id-token", "packages"},
        "krew": set(),
        "page": {"contents"},
    }
    # Code of the repository and of packages runs only where nothing can be written; that of the
    # Dockerfile runs in the builder, which has no token, and before anybody is logged in.
    assert [name for name, job in jobs.items() if "checkout" in str(job)] == [
        "build",
        "single",
        "images",
        "krew",
    ]
    used = [step.get("uses", step.get("run", "")) for step in jobs["images"]["steps"]]
    runs = [index for index, step in enumerate(used) if "docker run" in step]
    login = [index for index, step in enumerate(used) if step.startswith("docker/login-action@")]
    assert max(runs) < min(login)


@every_workflow
def test_a_checkout_keeps_no_token(file: Path) -> None:
    checkouts = [
        step
        for step in steps(workflow(file.name)["jobs"])
        if step.get("uses", "").startswith("actions/checkout@")
    ]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_every_step_of_the_script_is_in_the_workflow() -> None:
    content = workflow("test.yml")
    ran = {line for step in steps(content["jobs"]) for line in step.get("run", "").splitlines()}
    preparation, _, rest = CI.partition("export ETCOMPILE_REQUIRE=")
    # `set -e` does not end the script if the first command of a list with && fails.
    required, *commands = (line.removesuffix(" || exit") for line in rest.splitlines() if line)
    assert commands
    assert [line for line in commands if line not in ran] == []
    assert content["env"]["ETCOMPILE_REQUIRE"] == required
    named = re.findall(r"packages\+=\(([^)]+)\)", preparation)
    packages = {package for names in named for package in names.split()}
    assert set(content["env"]["PACKAGES"].split()) == packages - BROUGHT_BY_THE_RUNNER


def test_the_matrices_are_what_the_project_knows() -> None:
    jobs = workflow("test.yml")["jobs"]
    assert jobs["kubernetes"]["strategy"]["matrix"]["kubernetes"] == list(versions())
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    pythons = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project)
    [oldest] = re.findall(r'requires-python = ">=(.*)"', project)
    tried = jobs["default"]["strategy"]["matrix"]["python"]
    assert tried[0] == oldest
    assert set(pythons) <= set(tried)
    # The single file is for each of them.
    single = workflow("release.yml")["jobs"]["single"]["steps"]
    [setup] = [one for one in single if "setup-python" in one.get("uses", "")]
    assert setup["with"]["python-version"].split() == tried
    [pack] = [one["run"] for one in single if one.get("name") == "Pack it"]
    assert pack.split()[-len(tried) :] == [f"python{version}" for version in tried]


def test_site_is_built_as_contributing_says_and_published_by_a_separate_job() -> None:
    jobs = workflow("docs.yml")["jobs"]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert commands
    assert all(f"    {command}\n" in CONTRIBUTING for command in commands)
    assert jobs["build"]["permissions"] == {"contents": "read"}
    # Code of the repository and of packages runs only where nothing can be written.
    assert all("uses" in step for step in jobs["publish"]["steps"])
    assert jobs["publish"]["permissions"] == {"pages": "write", "id-token": "write"}
    assert jobs["publish"]["if"] == "github.event_name == 'push'"


def test_a_release_waits_for_the_tests() -> None:
    jobs = workflow("release.yml")["jobs"]
    assert jobs["test"]["uses"] == "./.github/workflows/test.yml"
    assert set(jobs["attest"]["needs"]) == {"test", "build", "single"}
    assert jobs["publish"]["needs"] == "attest"
    assert jobs["images"]["needs"] == "attest"
    assert jobs["sign"]["needs"] == "images"
    assert jobs["chart"]["needs"] == "sign"
    assert set(jobs["page"]["needs"]) == {"publish", "chart", "krew"}


def test_release_signs_exactly_the_baked_images() -> None:
    jobs = workflow("release.yml")["jobs"]
    tags = re.findall(r"\$\{REGISTRY\}/([\w-]+):", (ROOT / "docker-bake.hcl").read_text("utf-8"))
    signed = jobs["sign"]["strategy"]["matrix"]["include"]
    assert [one["image"] for one in signed] == [f"ghcr.io/etcompile/{tag}" for tag in tags]
    assert [one["output"] for one in signed] == [*jobs["images"]["outputs"]]
    for name, digest in jobs["images"]["outputs"].items():
        assert f"['release-{name}']" in digest


def test_dependabot_looks_where_dependencies_are_declared() -> None:
    content = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text("utf-8"))
    declared = {
        "pip": "pyproject.toml",
        "github-actions": ".github/workflows",
        "npm": "package.json",
        "docker": "Dockerfile",
    }
    for update in content["updates"]:
        folder = ROOT / update["directory"].lstrip("/")
        assert (folder / declared.pop(update["package-ecosystem"])).exists()
    assert not declared


@pytest.mark.parametrize(("option", "installs"), [((), True), (("--no-install",), False)])
def test_ci_run_installs_packages_as_root_unless_an_option_forbids_it(
    option: tuple[str, ...], installs: bool, tmp_path: Path
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    # A machine without any of the packages, on which no environment can be made.
    for name, line in {"id": "echo 0", "apt-get": "echo installed", "python3": "exit 3"}.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    for name in ("bash", "dirname"):
        (programs / name).symlink_to(shutil.which(name) or "")
    done = subprocess.run(
        [programs / "bash", ROOT / ".ci" / "run", *option],
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert ("installed" in done.stdout) is installs
